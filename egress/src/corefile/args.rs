//! `egress corefile`.

use std::{net::SocketAddr, path::PathBuf, str::FromStr};

use clap::{Args, Subcommand};
use runtime::store::ObjectKey;

use super::{Line, Scope};
use crate::targets::AccessArgs;

/// Checks or changes the Corefile of a CoreDNS that streams to the collector.
#[derive(Args, Clone, Debug)]
pub struct CorefileArgs {
    #[command(subcommand)]
    pub action: CorefileAction,
}

/// The subcommands of `egress corefile`.
#[derive(Clone, Debug, Subcommand)]
pub enum CorefileAction {
    /// Adds the `dnstap` lines to every server block that answers for names outside of the cluster.
    ///
    /// Everything else stays as it is.
    Patch(PatchArgs),
    /// Prints which answers the collector does not see, and which plugins hide names.
    ///
    /// Exit status 1: there are answers that it does not see.
    Check(InputArgs),
}

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

/// The content of the `dnstap` lines.
#[derive(Clone, Debug, Args)]
pub struct LineArgs {
    /// The endpoint of a collector that CoreDNS dials; repeatable, once for each collector.
    ///
    /// `tcp://10.96.0.53:6000`, `tls://10.96.0.53:6000` or `/run/x.sock`. The host is an IP address: CoreDNS would have to look a name up
    /// itself. Default: none.
    #[arg(long, value_name = "ENDPOINT", value_delimiter = ',', value_parser = parse_endpoint)]
    pub dnstap: Vec<String>,

    /// The `extra` of the `dnstap` lines: the secret in the collector's `--secret-file`.
    ///
    /// It has the characters A-Z, a-z, 0-9, `_` and `-`. Default: none.
    #[arg(long, value_name = "TEXT", hide_default_value = true, value_parser = parse_extra)]
    pub extra: Option<String>,
}

/// A Corefile, and its required lines.
#[derive(Clone, Debug, Args)]
pub struct InputArgs {
    /// The Corefile. Default: stdin.
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// The required lines; without them, a check accepts any `dnstap` line.
    #[command(flatten)]
    pub line: LineArgs,

    #[command(flatten)]
    pub scope: ScopeArgs,
}

#[derive(Clone, Debug, Args)]
pub struct PatchArgs {
    #[command(flatten)]
    pub input: InputArgs,

    /// Remove the lines of `--dnstap`; without `--dnstap`, every `dnstap` line, or with `--live` those of the collectors.
    #[arg(long)]
    pub remove: bool,

    /// Let CoreDNS ask the collectors' forwarders (`--hold-listen`) first, or with `--remove` no more.
    ///
    /// `--hold=10.96.0.53:5300,10.96.0.54:5300` names them; with `--live` they are the port `hold` of the collectors' Services. Blocks with
    /// another upstream than `/etc/resolv.conf`, or with a `policy` or health check of their own, are left as they are, and named. The
    /// `dnstap` lines stay.
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0.., require_equals = true, value_delimiter = ',', conflicts_with = "dnstap")]
    pub hold: Option<Vec<SocketAddr>>,

    /// Find the collectors' Services and CoreDNS's ConfigMap in the cluster, and print the difference.
    ///
    /// Where the Corefile imports the keys of `coredns-custom`, as on k3s and AKS, the lines become a key of that ConfigMap.
    #[arg(long, conflicts_with = "file")]
    pub live: bool,

    /// Apply the difference, wait until CoreDNS has loaded it, and print which DNS servers stream.
    ///
    /// The command asks first at a terminal. Exit status 1: a server does not stream. 2: the streams cannot be seen.
    #[arg(long, requires = "live")]
    pub apply: bool,

    /// Do not ask.
    #[arg(short, long, requires = "apply")]
    pub yes: bool,

    /// The ConfigMap with the Corefile, for `--live`.
    ///
    /// Default: that of kubeadm, k3s, EKS and others, `kube-system/coredns`, or else that of RKE2.
    #[arg(long, value_name = "NAMESPACE/NAME", requires = "live")]
    pub corefile: Option<ObjectKey>,

    #[command(flatten)]
    pub cluster: AccessArgs,
}

impl LineArgs {
    /// The line of each collector.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let line = |endpoint: &String| Line {
            endpoint: endpoint.clone(),
            extra: self.extra.clone(),
        };
        self.dnstap.iter().map(line).collect()
    }
}

impl ScopeArgs {
    /// The cluster's own domains in normal form.
    pub(crate) fn scope(&self) -> Scope {
        Scope::new(&self.cluster_domain)
    }
}

/// Accepts an endpoint that is one word in a Corefile and that CoreDNS need not look up. A clap `value_parser`.
///
/// # Errors
/// A message that completes clap's.
fn parse_endpoint(text: &str) -> Result<String, String> {
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

fn parse_extra(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if text.is_empty() || !text.chars().all(fits) {
        return Err("a secret consists of A-Z, a-z, 0-9, `_` and `-`".to_owned());
    }
    Ok(text.to_owned())
}
