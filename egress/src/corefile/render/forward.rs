//! The `forward` directive of a generated server block.

use std::fmt;

use serde::{Deserialize, de::IgnoredAny};

/// In which order CoreDNS asks the upstreams.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) enum Policy {
    #[default]
    Random,
    RoundRobin,
    Sequential,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TransportConfig {
    #[serde(default)]
    transport: Transport,
    tls: Option<Tls>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
enum Transport {
    #[default]
    #[serde(alias = "")]
    Cleartext,
    #[serde(rename = "TLS")]
    Tls,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Tls {
    server_name: String,
    ca_bundle: Option<IgnoredAny>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) enum ProtocolStrategy {
    #[default]
    #[serde(rename = "")]
    Default,
    #[serde(rename = "TCP")]
    Tcp,
}

impl Policy {
    pub(super) fn sequential() -> Self {
        Self::Sequential
    }

    fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::RoundRobin => "round_robin",
            Self::Sequential => "sequential",
        }
    }
}

/// A `forward` directive for all names of its block.
pub(super) struct Forward<'a> {
    pub(super) targets: Vec<String>,
    pub(super) policy: Policy,
    pub(super) transport: &'a TransportConfig,
    pub(super) protocol: ProtocolStrategy,
}

impl fmt::Display for Forward<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_tls = self.transport.transport == Transport::Tls;
        write!(f, "    forward .")?;
        for target in &self.targets {
            // A file with name servers has no addresses that a scheme could stand before.
            let scheme = if is_tls && !target.starts_with('/') {
                "tls://"
            } else {
                ""
            };
            write!(f, " {scheme}{target}")?;
        }
        writeln!(f, " {{\n        policy {}", self.policy.name())?;
        if let (true, Some(tls)) = (is_tls, &self.transport.tls) {
            writeln!(f, "        tls_servername {}", tls.server_name)?;
        }
        if matches!(self.protocol, ProtocolStrategy::Tcp) {
            writeln!(f, "        force_tcp")?;
        }
        writeln!(f, "    }}")
    }
}

/// Why the TLS settings cannot be rendered, if so.
pub(super) fn tls_fault(config: &TransportConfig) -> Option<String> {
    match (&config.tls, config.transport) {
        (_, Transport::Cleartext) => None,
        (None, Transport::Tls) => Some("it has TLS without a `serverName`".to_owned()),
        (Some(tls), Transport::Tls) if tls.ca_bundle.is_some() => Some(
            "its `caBundle` is a ConfigMap of the operator: remove it, and add the line `tls` with the file by hand".to_owned(),
        ),
        (Some(tls), Transport::Tls) if !is_subdomain(&tls.server_name) => {
            Some(format!("the server name `{}` is not a subdomain of RFC 1123", tls.server_name.escape_debug()))
        }
        (Some(_), Transport::Tls) => None,
    }
}

/// RFC 1123, section 2.1, as Kubernetes reads it.
pub(super) fn is_subdomain(zone: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|c| c.is_ascii_alphanumeric() || c == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    zone.len() <= 253 && zone.split('.').all(is_label)
}
