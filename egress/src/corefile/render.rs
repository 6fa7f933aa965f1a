//! Generates a Corefile from named servers with zones and upstreams, those of OpenShift's DNS operator.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, anyhow, bail};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;

use super::lint::{INDENT, Line, Scope};

/// The part of a `DNS` of `operator.openshift.io` that is rendered: its `spec`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Servers {
    #[serde(default)]
    servers: Vec<Server>,
    /// The servers for all other names.
    #[serde(default)]
    upstream_resolvers: Upstreams<Resolver>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Server {
    name: String,
    zones: Vec<String>,
    forward_plugin: Upstreams<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Upstreams<T> {
    #[serde(default = "Vec::new")]
    upstreams: Vec<T>,
    policy: Option<Policy>,
    #[serde(default)]
    transport_config: TransportConfig,
    #[serde(default)]
    protocol_strategy: ProtocolStrategy,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Resolver {
    #[serde(rename = "type")]
    kind: ResolverKind,
    #[serde(default)]
    address: String,
    /// The API server fills it in for both kinds.
    port: Option<u16>,
}

#[derive(Debug, Default, Deserialize)]
enum ResolverKind {
    #[default]
    SystemResolvConf,
    Network,
}

/// In which order CoreDNS asks the upstreams.
#[derive(Clone, Copy, Debug, Deserialize)]
enum Policy {
    Random,
    RoundRobin,
    Sequential,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TransportConfig {
    #[serde(default)]
    transport: Transport,
    tls: Option<Tls>,
}

#[derive(Debug, Default, Deserialize)]
enum Transport {
    #[default]
    #[serde(alias = "")]
    Cleartext,
    #[serde(rename = "TLS")]
    Tls,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Tls {
    server_name: String,
    ca_bundle: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
enum ProtocolStrategy {
    #[default]
    #[serde(rename = "")]
    Default,
    #[serde(rename = "TCP")]
    Tcp,
}

/// The name servers of the machine.
const RESOLV_CONF: &str = "/etc/resolv.conf";

impl Resolver {
    fn target(&self) -> anyhow::Result<String> {
        if matches!(self.kind, ResolverKind::SystemResolvConf) {
            return Ok(RESOLV_CONF.to_owned());
        }
        let address: IpAddr = self.address.parse().map_err(|_| {
            let shown = self.address.escape_debug();
            anyhow!("the upstream `{shown}` is not an IP address")
        })?;
        Ok(match self.port {
            None => address.to_string(),
            Some(port) => SocketAddr::new(address, port).to_string(),
        })
    }
}

impl<T> Upstreams<T> {
    /// The `forward` directive for all names of its block.
    fn forward(&self, targets: &[String], default: Policy) -> anyhow::Result<String> {
        let mut settings = String::new();
        let mut scheme = "";
        if let Transport::Tls = self.transport_config.transport {
            let tls = self.transport_config.tls.as_ref();
            let tls = tls.context("it has TLS without a `serverName`")?;
            if tls.ca_bundle.is_some() {
                bail!(
                    "its `caBundle` is a ConfigMap of the operator: remove it, and add the line `tls` with the file by hand"
                );
            }
            settings += &format!("        tls_servername {}\n", subdomain(&tls.server_name)?);
            scheme = "tls://";
        }
        if let ProtocolStrategy::Tcp = self.protocol_strategy {
            settings += "        force_tcp\n";
        }
        let policy = match self.policy.unwrap_or(default) {
            Policy::Random => "random",
            Policy::RoundRobin => "round_robin",
            Policy::Sequential => "sequential",
        };
        let mut all = String::new();
        for target in targets {
            // A file with name servers has no addresses that a scheme could stand before.
            let scheme = if target == RESOLV_CONF { "" } else { scheme };
            all += &format!(" {scheme}{target}");
        }
        Ok(format!(
            "    forward .{all} {{\n        policy {policy}\n{settings}    }}\n"
        ))
    }
}

impl Server {
    fn render(&self, dnstap: &str, port: u16) -> anyhow::Result<String> {
        let mut keys = String::new();
        for zone in &self.zones {
            keys += &format!("{}:{port} ", subdomain(zone)?);
        }
        let targets = &self.forward_plugin.upstreams;
        if keys.is_empty() || targets.is_empty() {
            bail!("it has no zones, or no upstreams");
        }
        for target in targets {
            let is_one = target.parse::<IpAddr>().is_ok()
                || target.parse::<SocketAddr>().is_ok_and(|it| it.port() != 0);
            if !is_one {
                let shown = target.escape_debug();
                bail!("the upstream `{shown}` is not an IP address with an optional port");
            }
        }
        let forward = self.forward_plugin.forward(targets, Policy::Random)?;
        let name = self.name.escape_debug();
        Ok(format!(
            "# {name}\n{keys}{{\n{dnstap}    errors\n{forward}    cache 30\n    reload\n}}\n"
        ))
    }
}

impl Servers {
    /// Reads a `DNS` object, or only its `spec`.
    ///
    /// # Errors
    /// The text is no YAML, or another object.
    pub(super) fn read(text: &str) -> anyhow::Result<Self> {
        let document: Value = serde_saphyr::from_str(text).map_err(|error| anyhow!("{error}"))?;
        let spec = document.get("spec").unwrap_or(&document);
        if spec.get("servers").is_none() && spec.get("upstreamResolvers").is_none() {
            bail!("the input has neither `servers` nor `upstreamResolvers`");
        }
        Ok(Self::deserialize(spec)?)
    }

    /// The Corefile of a CoreDNS to which the operator's CoreDNS forwards: a server block for each server, then one for all other names, which forwards
    /// to the upstream resolvers, by default the servers of `/etc/resolv.conf`. The order has no meaning: CoreDNS chooses the block
    /// with the longest matching zone.
    ///
    /// # Errors
    /// A server cannot be rendered.
    pub(super) fn render(
        &self,
        lines: &[Line],
        scope: &Scope,
        port: u16,
    ) -> anyhow::Result<String> {
        let shown = |line: &Line| format!("{INDENT}{}\n", line.shown(INDENT, "\n"));
        let dnstap: String = lines.iter().map(shown).collect();
        let mut out = String::new();
        for server in &self.servers {
            let block = server.render(&dnstap, port);
            let name = server.name.escape_debug();
            out += &block.with_context(|| format!("server `{name}`"))?;
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
        let targets = others.upstreams.iter().map(Resolver::target);
        let targets: anyhow::Result<Vec<String>> = targets.collect();
        let forward = targets.and_then(|targets| match targets.as_slice() {
            [] => others.forward(&[RESOLV_CONF.to_owned()], Policy::Sequential),
            targets => others.forward(targets, Policy::Sequential),
        });
        let forward = forward.context("`upstreamResolvers`")?;
        out += &format!(
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
}

/// Accepts a name of RFC 1123, section 2.1, as Kubernetes reads it.
fn subdomain(zone: &str) -> anyhow::Result<&str> {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|c| c.is_ascii_alphanumeric() || c == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if zone.len() > 253 || !zone.split('.').all(is_label) {
        bail!("`{}` is not a subdomain of RFC 1123", zone.escape_debug());
    }
    Ok(zone)
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
    fn server_that_cannot_be_rendered_is_named_with_the_reason() {
        for (server, words) in [
            (
                "zones: ['-x.com'], forwardPlugin: {upstreams: ['1.1.1.1']}",
                "`-x.com` is not a subdomain",
            ),
            (
                "zones: [a.com], forwardPlugin: {upstreams: ['ns.example']}",
                "`ns.example` is not an IP",
            ),
            (
                "zones: [a.com], forwardPlugin: {upstreams: ['1.1.1.1:0']}",
                "`1.1.1.1:0` is not an IP",
            ),
            (
                "zones: [], forwardPlugin: {upstreams: ['1.1.1.1']}",
                "no zones",
            ),
            (
                "zones: [a.com], forwardPlugin: {upstreams: []}",
                "no upstreams",
            ),
            (
                "zones: [a.com], forwardPlugin: {upstreams: ['1.1.1.1'], transportConfig: {transport: TLS}}",
                "TLS without a `serverName`",
            ),
            (
                "zones: [a.com], forwardPlugin: {upstreams: ['1.1.1.1'], transportConfig: {transport: TLS, tls: {serverName: a.b, caBundle: {name: c}}}}",
                "its `caBundle`",
            ),
        ] {
            let text = format!("servers: [{{name: one, {server}}}]");
            let error = Servers::read(&text).unwrap().render(&[], &scope(), 53);
            let error = format!("{:#}", error.unwrap_err());
            assert!(
                error.starts_with("server `one`: ") && error.contains(words),
                "{error}"
            );
        }
    }

    #[test]
    fn something_else_is_told() {
        let named = "upstreamResolvers: {upstreams: [{type: Network, address: ns.example}]}";
        let error = Servers::read(named).unwrap().render(&[], &scope(), 53);
        let error = format!("{:#}", error.unwrap_err());
        assert!(
            error.starts_with("`upstreamResolvers`: the upstream `ns.example`"),
            "{error}"
        );
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
