//! The flags of the checks of Corefiles.

use std::str::FromStr;

use clap::Args;
use runtime::store::ObjectKey;

use super::{
    Line, Scope,
    live::{self, Duty},
};

/// The domains of the cluster's own names.
#[derive(Clone, Debug, Args)]
pub struct ScopeArgs {
    /// The domain of the cluster's own names; repeatable.
    ///
    /// The collector needs no answers for these names. A zone whose server block another operator owns can stand here, too.
    #[arg(
        long,
        value_name = "DOMAIN",
        default_value = "cluster.local",
        value_delimiter = ','
    )]
    pub cluster_domain: Vec<String>,
}

/// The Corefiles in the cluster, which the leading replica checks.
#[derive(Clone, Debug, Args)]
pub struct LiveCorefileArgs {
    /// The ConfigMap with the Corefile that the leading collector checks, or `none`.
    ///
    /// It checks the Corefile whenever it changes. The log, an Event and a metric name a server block that does not stream. Only with
    /// `--store kube`.
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        default_value = "kube-system/coredns"
    )]
    pub corefile: MaybeObject,

    /// The NodeLocal DNSCache whose Corefile the leading collector checks, or `none`.
    ///
    /// This is the name of both its DaemonSet and its ConfigMap. The collector reports a cache that sends names past the cluster's CoreDNS.
    /// Only with `--store kube`.
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        default_value = "kube-system/node-local-dns"
    )]
    pub node_local: MaybeObject,

    /// The endpoint that each server block of `--corefile` must stream to; repeatable.
    ///
    /// It is written as in the Corefile, such as `tcp://10.96.0.53:6000`. Default: each server block must have as many `dnstap` lines as
    /// there are `--peer-service` flags, to any endpoints.
    #[arg(
        long,
        value_name = "ENDPOINT",
        value_delimiter = ',',
        value_parser = parse_endpoint
    )]
    pub corefile_dnstap: Vec<String>,

    #[command(flatten)]
    pub scope: ScopeArgs,
}

/// `NAMESPACE/NAME`, or `none`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MaybeObject(pub Option<ObjectKey>);

impl FromStr for MaybeObject {
    type Err = <ObjectKey as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self(None)),
            text => text.parse().map(Some).map(Self),
        }
    }
}

impl LiveCorefileArgs {
    /// The Corefiles to check, for this number of collectors.
    pub fn configs(&self, collectors: usize) -> Vec<live::Config> {
        let line = |endpoint: &String| Line {
            endpoint: endpoint.clone(),
            extra: None,
        };
        let lines = self.corefile_dnstap.iter().map(line).collect();
        let stream = self.corefile.0.clone();
        let stream = stream.map(|config_map| (config_map, Duty::Stream(lines, collectors)));
        let forward = self.node_local.0.clone();
        let forward = forward.map(|both| (both.clone(), Duty::Forward(both)));
        let config = |(config_map, duty)| live::Config {
            config_map,
            duty,
            scope: self.scope.scope(),
        };
        stream.into_iter().chain(forward).map(config).collect()
    }
}

impl ScopeArgs {
    /// The cluster's own domains in normal form.
    pub fn scope(&self) -> Scope {
        let plain = |domain: &String| domain.trim_end_matches('.').to_ascii_lowercase();
        Scope {
            cluster_domains: self.cluster_domain.iter().map(plain).collect(),
        }
    }
}

/// Accepts an endpoint that is one word in a Corefile and that CoreDNS need not look up. A clap `value_parser`.
///
/// # Errors
/// A message that completes clap's.
pub fn parse_endpoint(text: &str) -> Result<String, String> {
    let path = text.strip_prefix("unix://").unwrap_or(text);
    let address = ["tcp://", "tls://"]
        .iter()
        .find_map(|scheme| text.strip_prefix(scheme));
    match address {
        Some(address) if address.parse::<std::net::SocketAddr>().is_ok() => {}
        Some(_) => {
            return Err(
                "tcp:// and tls:// must be followed by an IP address and a port".to_owned(),
            );
        }
        None if path.starts_with('/') => {}
        None => {
            return Err("give tcp://, tls:// or the absolute path of a socket".to_owned());
        }
    }
    let odd = |c: char| c.is_whitespace() || matches!(c, '"' | '#' | '{' | '}');
    if text.contains(odd) {
        return Err(
            "a Corefile allows no white space, quotes, `#` or braces in an endpoint".to_owned(),
        );
    }
    Ok(text.to_owned())
}
