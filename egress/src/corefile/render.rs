//! Generates a Corefile from named servers with zones and upstreams, as in the OpenShift proposal
//! "Configurable DNS Plugins".

use std::{
    collections::BTreeSet,
    fmt::Write,
    net::{IpAddr, SocketAddr},
};

use anyhow::{anyhow, bail};
use serde::Deserialize;

use self::forward::{Forward, Policy, ProtocolStrategy, TransportConfig, is_subdomain, tls_fault};
use super::lint::{INDENT, Line, Scope};

mod forward;

/// The most upstreams of a server.
const MAX_UPSTREAMS: usize = 15;

/// The longest service name (RFC 6335, section 5.1).
const MAX_NAME: usize = 15;

/// The part of a `DNS` of `operator.openshift.io` that is rendered: its `spec`, possibly by itself.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Servers {
    #[serde(default)]
    servers: Vec<Server>,
    #[serde(default)]
    upstream_resolvers: UpstreamResolvers,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Server {
    name: String,
    zones: Vec<String>,
    forward_plugin: ForwardPlugin,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ForwardPlugin {
    upstreams: Vec<String>,
    #[serde(default)]
    policy: Policy,
    #[serde(default)]
    transport_config: TransportConfig,
    #[serde(default)]
    protocol_strategy: ProtocolStrategy,
}

/// The servers for all other names.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct UpstreamResolvers {
    #[serde(default)]
    upstreams: Vec<Upstream>,
    #[serde(default = "Policy::sequential")]
    policy: Policy,
    #[serde(default)]
    transport_config: TransportConfig,
    #[serde(default)]
    protocol_strategy: ProtocolStrategy,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Upstream {
    #[serde(rename = "type")]
    kind: UpstreamKind,
    #[serde(default)]
    address: String,
    /// The API server fills it in for both kinds.
    port: Option<u16>,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
enum UpstreamKind {
    SystemResolvConf,
    Network,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    spec: Option<Servers>,
    servers: Option<Vec<Server>>,
    upstream_resolvers: Option<UpstreamResolvers>,
}

impl Default for UpstreamResolvers {
    fn default() -> Self {
        Self {
            upstreams: Vec::new(),
            policy: Policy::Sequential,
            transport_config: TransportConfig::default(),
            protocol_strategy: ProtocolStrategy::Default,
        }
    }
}

/// The name servers of the machine.
const RESOLV_CONF: &str = "/etc/resolv.conf";

impl Upstream {
    fn target(&self) -> anyhow::Result<String> {
        if self.kind == UpstreamKind::SystemResolvConf {
            return Ok(RESOLV_CONF.to_owned());
        }
        let address: IpAddr = self.address.parse().map_err(|_| {
            let shown = self.address.escape_debug();
            anyhow!("`upstreamResolvers`: the upstream `{shown}` is not an IP address")
        })?;
        Ok(match self.port {
            None => address.to_string(),
            Some(port) => SocketAddr::new(address, port).to_string(),
        })
    }
}

impl Servers {
    /// Reads a `DNS` object, or only its `spec`.
    ///
    /// # Errors
    /// The text is no YAML, or another object.
    pub(super) fn read(text: &str) -> anyhow::Result<Self> {
        let document: Document =
            serde_saphyr::from_str(text).map_err(|error| anyhow!("{error}"))?;
        match (document.spec, document.servers) {
            (Some(spec), _) => Ok(spec),
            (None, servers) if servers.is_some() || document.upstream_resolvers.is_some() => {
                Ok(Self {
                    servers: servers.unwrap_or_default(),
                    upstream_resolvers: document.upstream_resolvers.unwrap_or_default(),
                })
            }
            (None, _) => {
                bail!("the input has neither a `spec` nor `servers` nor `upstreamResolvers`")
            }
        }
    }

    /// The Corefile of a CoreDNS to which the operator's CoreDNS forwards: a server block for each server, then one for all other names, which forwards
    /// to the upstream resolvers, by default the servers of `/etc/resolv.conf`. The order has no meaning: CoreDNS chooses the block
    /// with the longest matching zone.
    ///
    /// # Errors
    /// The servers violate a rule of the proposal.
    pub(super) fn render(
        &self,
        lines: &[Line],
        scope: &Scope,
        port: u16,
    ) -> anyhow::Result<String> {
        self.check(scope)?;
        let shown = |line: &Line| format!("{INDENT}{}\n", line.shown(INDENT, "\n"));
        let dnstap: String = lines.iter().map(shown).collect();
        let mut out = String::new();
        for server in &self.servers {
            let keys: Vec<String> = server
                .zones
                .iter()
                .map(|it| format!("{it}:{port}"))
                .collect();
            let forward = Forward {
                targets: server.forward_plugin.upstreams.clone(),
                policy: server.forward_plugin.policy,
                transport: &server.forward_plugin.transport_config,
                protocol: server.forward_plugin.protocol_strategy,
            };
            // Writing to a String cannot fail.
            let _ = write!(
                out,
                "# {}\n{} {{\n{dnstap}    errors\n{forward}    cache 30\n    reload\n}}\n",
                server.name,
                keys.join(" "),
            );
        }
        // It answers flush probes, and no name of the cluster goes to an upstream.
        let own: String = scope
            .cluster_domains
            .iter()
            .map(|domain| {
                format!("    template ANY ANY {domain} {{\n        rcode NXDOMAIN\n    }}\n")
            })
            .collect();
        let others = &self.upstream_resolvers;
        let targets = others.upstreams.iter().map(Upstream::target);
        let mut targets: Vec<String> = targets.collect::<anyhow::Result<_>>()?;
        if targets.is_empty() {
            targets.push(RESOLV_CONF.to_owned());
        }
        let forward = Forward {
            targets,
            policy: others.policy,
            transport: &others.transport_config,
            protocol: others.protocol_strategy,
        };
        let _ = write!(
            out,
            ".:{port} {{
{dnstap}    errors
    health
{own}    prometheus :9153
{forward}    cache 30
    reload
}}
"
        );
        Ok(out)
    }

    fn check(&self, scope: &Scope) -> anyhow::Result<()> {
        let mut faults = Vec::new();
        let (mut names, mut zones) = (BTreeSet::new(), BTreeSet::new());
        for Server {
            name,
            zones: own,
            forward_plugin,
        } in &self.servers
        {
            let mut fault =
                |words: String| faults.push(format!("server `{}`: {words}", name.escape_debug()));
            if !is_service_name(name) {
                fault("its name is not a service name of RFC 6335 (1 to 15 letters, digits and inner single `-`, with a letter)".to_owned());
            }
            if !names.insert(name) {
                fault("another server has the same name".to_owned());
            }
            if own.is_empty() {
                fault("it has no zones".to_owned());
            }
            for zone in own {
                let shown = zone.escape_debug();
                let plain = zone.to_ascii_lowercase();
                if !is_subdomain(zone) {
                    fault(format!("`{shown}` is not a subdomain of RFC 1123"));
                } else if scope.cluster_domains.contains(&plain) {
                    fault(format!("`{shown}` is the cluster's own domain"));
                } else if !zones.insert(plain) {
                    fault(format!("the zone `{shown}` occurs twice"));
                }
            }
            if let Some(words) = tls_fault(&forward_plugin.transport_config) {
                fault(words);
            }
            let upstreams = &forward_plugin.upstreams;
            if !(1..=MAX_UPSTREAMS).contains(&upstreams.len()) {
                fault(format!(
                    "it has {} upstreams instead of 1 to {MAX_UPSTREAMS}",
                    upstreams.len()
                ));
            }
            for upstream in upstreams {
                let is_one = upstream.parse::<IpAddr>().is_ok()
                    || upstream
                        .parse::<SocketAddr>()
                        .is_ok_and(|it| it.port() != 0);
                if !is_one {
                    let shown = upstream.escape_debug();
                    fault(format!(
                        "the upstream `{shown}` is not an IP address with an optional port"
                    ));
                }
            }
        }
        let resolvers = &self.upstream_resolvers;
        faults.extend(
            tls_fault(&resolvers.transport_config)
                .map(|words| format!("`upstreamResolvers`: {words}")),
        );
        if resolvers.upstreams.len() > MAX_UPSTREAMS {
            faults.push(format!(
                "`upstreamResolvers`: it has more than {MAX_UPSTREAMS} upstreams"
            ));
        }
        if !faults.is_empty() {
            bail!("{}", faults.join("; "));
        }
        Ok(())
    }
}

/// RFC 6335, section 5.1.
fn is_service_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
        && name.bytes().any(|c| c.is_ascii_alphabetic())
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        Scope {
            cluster_domains: vec!["cluster.local".to_owned()],
        }
    }

    const DNS: &str = "
apiVersion: operator.openshift.io/v1
kind: DNS
metadata:
  name: default
spec:
  servers:
  - name: foo-server
    zones: [foo.com]
    forwardPlugin:
      upstreams: [1.1.1.1, '2.2.2.2:5353']
  - name: bar-server
    zones: [bar.com, example.com]
    forwardPlugin:
      upstreams: ['2001:db8::1']
";

    #[test]
    fn each_server_is_a_block_that_streams_and_the_rest_is_last() {
        let line = Line {
            endpoint: "tcp://192.0.2.1:6000".to_owned(),
            extra: None,
        };
        let text = Servers::read(DNS)
            .unwrap()
            .render(&[line], &scope(), 5353)
            .unwrap();
        let heads: Vec<&str> = text
            .lines()
            .filter(|it| it.ends_with('{') && !it.starts_with(' '))
            .collect();
        assert_eq!(
            heads,
            [
                "foo.com:5353 {",
                "bar.com:5353 example.com:5353 {",
                ".:5353 {"
            ]
        );
        assert_eq!(
            text.matches("    dnstap tcp://192.0.2.1:6000 full\n")
                .count(),
            3
        );
        assert!(
            text.contains("    forward . 1.1.1.1 2.2.2.2:5353 {\n        policy random\n    }\n")
        );
        assert!(
            text.contains("    forward . /etc/resolv.conf {\n        policy sequential\n    }\n")
        );
    }

    /// The API server fills in the defaults of a DNS object.
    #[test]
    fn a_spec_with_all_defaults_and_settings_keeps_them() {
        let text = Servers::read(
            "
cache: {negativeTTL: 0s, positiveTTL: 0s}
logLevel: Normal
managementState: Managed
nodePlacement: {}
servers:
- name: one
  zones: [a.com]
  forwardPlugin: {upstreams: [1.1.1.1], policy: RoundRobin, protocolStrategy: '', transportConfig: {}}
- name: two
  zones: [b.com]
  forwardPlugin: {upstreams: ['[2001:db8::1]:853'], policy: Random, transportConfig: {transport: TLS, tls: {serverName: dns.example}}}
upstreamResolvers:
  policy: Sequential
  protocolStrategy: TCP
  transportConfig: {}
  upstreams:
  - {type: SystemResolvConf, port: 53}
  - {type: Network, address: '2001:db8::53', port: 5353}
",
        )
        .unwrap()
        .render(&[], &scope(), 53)
        .unwrap();
        for words in [
            "    forward . 1.1.1.1 {\n        policy round_robin\n    }\n",
            "    forward . tls://[2001:db8::1]:853 {\n        policy random\n        tls_servername dns.example\n    }\n",
            "    forward . /etc/resolv.conf [2001:db8::53]:5353 {\n        policy sequential\n        force_tcp\n    }\n",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn what_the_proposal_does_not_allow_is_told_all_at_once() {
        let many = vec!["1.1.1.1"; 16].join(", ");
        let text = format!(
            "
servers:
- {{name: 'a--b', zones: ['-x.com', 'Cluster.local'], forwardPlugin: {{upstreams: [{many}]}}}}
- {{name: ok, zones: [a.com, a.com], forwardPlugin: {{upstreams: ['ns.example', '1.1.1.1:0']}}}}
- {{name: ok, zones: [], forwardPlugin: {{upstreams: [], transportConfig: {{transport: TLS}}}}}}
upstreamResolvers: {{transportConfig: {{transport: TLS, tls: {{serverName: a.b, caBundle: {{name: c}}}}}}}}
"
        );
        let error = Servers::read(&text)
            .unwrap()
            .render(&[], &scope(), 53)
            .unwrap_err();
        for words in [
            "`a--b`: its name is not a service name",
            "`-x.com` is not a subdomain",
            "`Cluster.local` is the cluster's",
            "16 upstreams",
            "the zone `a.com` occurs twice",
            "`ns.example` is not an IP",
            "`1.1.1.1:0` is not an IP",
            "another server has the same name",
            "it has no zones",
            "0 upstreams",
            "TLS without a `serverName`",
            "`upstreamResolvers`: its `caBundle`",
        ] {
            assert!(error.to_string().contains(words), "{words}: {error}");
        }
    }

    #[test]
    fn something_else_is_told() {
        let named = "upstreamResolvers: {upstreams: [{type: Network, address: ns.example}]}";
        let error = Servers::read(named).unwrap().render(&[], &scope(), 53);
        assert!(error.unwrap_err().to_string().contains("`ns.example`"));
        assert!(Servers::read("a: b").is_err());
        assert!(Servers::read("servers: [{name: x}]").is_err());
        assert!(
            Servers::read(
                "servers: [{name: x, zones: [a.b], forwardPlugin: {upstreams: []}, more: 1}]"
            )
            .is_err()
        );
    }
}
