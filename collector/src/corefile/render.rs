//! Generates a Corefile from named servers with zones and upstreams, as in the OpenShift proposal
//! "Configurable DNS Plugins".

use std::{
    collections::BTreeSet,
    fmt::Write,
    net::{IpAddr, SocketAddr},
};

use anyhow::{anyhow, bail};
use serde::Deserialize;

use super::lint::{INDENT, Line, Scope};

/// The most upstreams of a server.
const MAX_UPSTREAMS: usize = 15;

/// The longest service name (RFC 6335, section 5.1).
const MAX_NAME: usize = 15;

/// The part of a `DNS` of `operator.openshift.io` that is rendered: its `spec`, possibly by itself.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Servers {
    #[serde(default)]
    servers: Vec<Server>,
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
}

#[derive(Deserialize)]
struct Document {
    spec: Option<Servers>,
    servers: Option<Vec<Server>>,
}

impl Servers {
    /// Reads a `DNS` object, or only its `spec`.
    ///
    /// # Errors
    /// The text is no YAML, or another object.
    pub fn read(text: &str) -> anyhow::Result<Self> {
        let document: Document =
            serde_saphyr::from_str(text).map_err(|error| anyhow!("{error}"))?;
        match (document.spec, document.servers) {
            (Some(spec), _) => Ok(spec),
            (None, Some(servers)) => Ok(Self { servers }),
            (None, None) => bail!("the input has neither a `spec` nor a list of `servers`"),
        }
    }

    /// The Corefile: a server block for each server, then one for all other names, which forwards
    /// to the servers of `/etc/resolv.conf`. The order has no meaning: CoreDNS chooses the block
    /// with the longest matching zone.
    ///
    /// # Errors
    /// The servers violate a rule of the proposal.
    pub fn render(&self, lines: &[Line], scope: &Scope, port: u16) -> anyhow::Result<String> {
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
            let upstreams = server.forward_plugin.upstreams.join(" ");
            // Writing to a String cannot fail.
            let _ = write!(
                out,
                "# {}\n{} {{\n{dnstap}    errors\n    forward . {upstreams}\n    cache 30\n    reload\n}}\n",
                server.name,
                keys.join(" "),
            );
        }
        let domains = scope.cluster_domains.join(" ");
        let _ = write!(
            out,
            ".:{port} {{
{dnstap}    errors
    health
    kubernetes {domains} in-addr.arpa ip6.arpa {{
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
    }}
    prometheus :9153
    forward . /etc/resolv.conf {{
        policy sequential
    }}
    cache 30
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

/// RFC 1123, section 2.1, as Kubernetes reads it.
fn is_subdomain(zone: &str) -> bool {
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
        assert!(text.contains("    forward . 1.1.1.1 2.2.2.2:5353\n"));
        assert!(text.contains("    forward . /etc/resolv.conf {\n"));
    }

    #[test]
    fn what_the_proposal_does_not_allow_is_told_all_at_once() {
        let many = vec!["1.1.1.1"; 16].join(", ");
        let text = format!(
            "
servers:
- {{name: 'a--b', zones: ['-x.com', 'Cluster.local'], forwardPlugin: {{upstreams: [{many}]}}}}
- {{name: ok, zones: [a.com, a.com], forwardPlugin: {{upstreams: ['ns.example', '1.1.1.1:0']}}}}
- {{name: ok, zones: [], forwardPlugin: {{upstreams: []}}}}
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
        ] {
            assert!(error.to_string().contains(words), "{words}: {error}");
        }
    }

    #[test]
    fn something_else_is_told() {
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
