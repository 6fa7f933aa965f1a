//! `collector corefile`.

use std::{path::PathBuf, str::FromStr};

use clap::{Args, Parser, Subcommand};
use runtime::store::{ObjectKey, ObjectKeyError};

use super::{
    Line, Scope,
    live::{self, Duty},
};

/// Works on the Corefile of the CoreDNS that is to stream to the collector.
#[derive(Clone, Debug, Parser)]
#[command(name = "corefile")]
pub struct CorefileArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: CorefileAction,
}

/// What to do with a Corefile.
#[derive(Clone, Debug, Subcommand)]
pub enum CorefileAction {
    /// Put the `dnstap` lines into every server block that answers for names outside of the cluster; all else stays as it is
    Patch(PatchArgs),
    /// Say which answers are not seen, and what hides names; exits 1 if there are any that are not seen
    Check(InputArgs),
    /// Make a Corefile of named servers with zones and upstreams (the `spec` of a `DNS` of operator.openshift.io)
    Render(RenderArgs),
}

/// What a `dnstap` line is to say.
#[derive(Clone, Debug, Args)]
pub struct LineArgs {
    /// Where a collector listens, as CoreDNS is to dial it: `tcp://10.96.0.53:6000`, `tls://…`, or `/run/x.sock`; an address,
    /// since CoreDNS would have to look a name up itself. Once for each collector: every one of them has a line of its own
    #[arg(long, value_name = "ENDPOINT", value_delimiter = ',', value_parser = parse_endpoint)]
    pub dnstap: Vec<String>,

    /// What the events show in `extra`: the secret of `--secret-file`
    #[arg(long, value_name = "TEXT", requires = "dnstap", value_parser = parse_extra)]
    pub extra: Option<String>,
}

/// Whose names are the cluster's own.
#[derive(Clone, Debug, Args)]
pub struct ScopeArgs {
    /// The domain of the cluster's own names, whose answers need not be seen; may be given several times
    #[arg(
        long,
        value_name = "DOMAIN",
        default_value = "cluster.local",
        value_delimiter = ','
    )]
    pub cluster_domain: Vec<String>,
}

/// The Corefile of the cluster's CoreDNS, which the replica that leads looks at.
#[derive(Clone, Debug, Args)]
pub struct LiveCorefileArgs {
    /// With a kube store, the ConfigMap with the Corefile that is looked at whenever it changes, `NAMESPACE/NAME`, or `none`: a
    /// server block that does not stream is told of in the log, an Event and a metric
    #[arg(long, value_name = "CONFIGMAP", default_value = "kube-system/coredns")]
    pub corefile: MaybeObject,

    /// With a kube store, the DaemonSet of a NodeLocal DNSCache and the ConfigMap with its Corefile, which have one name:
    /// `NAMESPACE/NAME`, or `none`. One that sends names past the cluster's CoreDNS is told of
    #[arg(
        long,
        value_name = "DAEMONSET",
        default_value = "kube-system/node-local-dns"
    )]
    pub node_local: MaybeObject,

    /// Where each server block of --corefile is to stream, as the Corefile says it: `tcp://10.96.0.53:6000`; may be given several times.
    /// Without it there have to be as many lines as there are of --peer-service
    #[arg(
        long,
        value_name = "ENDPOINT",
        value_delimiter = ',',
        value_parser = parse_endpoint
    )]
    pub corefile_dnstap: Vec<String>,

    /// The cluster's own names.
    #[command(flatten)]
    pub scope: ScopeArgs,
}

/// `NAMESPACE/NAME`, or `none`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MaybeObject(pub Option<ObjectKey>);

impl FromStr for MaybeObject {
    type Err = ObjectKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self(None)),
            text => text.parse().map(Some).map(Self),
        }
    }
}

impl LiveCorefileArgs {
    /// What to look at, where there are so many collectors.
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

/// A Corefile, and what is to be in it.
#[derive(Clone, Debug, Args)]
pub struct InputArgs {
    /// The Corefile; stdin without one
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// The lines; to look at a Corefile without one any `dnstap` line will do.
    #[command(flatten)]
    pub line: LineArgs,

    /// The cluster's own names.
    #[command(flatten)]
    pub scope: ScopeArgs,

    /// The text is a ConfigMap as `kubectl get -o yaml` gives it, and so is what comes out of a patch
    #[arg(long)]
    pub configmap: bool,
}

/// Change a Corefile.
#[derive(Clone, Debug, Args)]
pub struct PatchArgs {
    /// The Corefile.
    #[command(flatten)]
    pub input: InputArgs,

    /// Take the lines out instead; without --dnstap every `dnstap` line
    #[arg(long)]
    pub remove: bool,

    /// The Corefile is that of a NodeLocal DNSCache, whose CoreDNS has no dnstap: names outside of the cluster go to the cluster's
    /// CoreDNS from there
    #[arg(long, conflicts_with_all = ["remove", "dnstap"])]
    pub node_local: bool,

    /// With --node-local, the address of the cluster's CoreDNS, if no `forward` line for the cluster domain shows it
    #[arg(long, value_name = "ADDRESS", requires = "node_local")]
    pub cluster_dns: Option<String>,
}

/// Make a Corefile.
#[derive(Clone, Debug, Args)]
pub struct RenderArgs {
    /// The servers, as YAML; `-` for stdin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// The lines of every block.
    #[command(flatten)]
    pub line: LineArgs,

    /// The cluster's own names.
    #[command(flatten)]
    pub scope: ScopeArgs,

    /// The port that CoreDNS answers on
    #[arg(long, value_name = "PORT", default_value = "5353")]
    pub port: u16,
}

impl LineArgs {
    /// The line of each collector, if any is named.
    pub fn lines(&self) -> Vec<Line> {
        let line = |endpoint: &String| Line {
            endpoint: endpoint.clone(),
            extra: self.extra.clone(),
        };
        self.dnstap.iter().map(line).collect()
    }
}

impl ScopeArgs {
    /// The same, as names are compared.
    pub fn scope(&self) -> Scope {
        let plain = |domain: &String| domain.trim_end_matches('.').to_ascii_lowercase();
        Scope {
            cluster_domains: self.cluster_domain.iter().map(plain).collect(),
        }
    }
}

/// What a Corefile takes as one word, and CoreDNS as an endpoint that it need not look up.
fn parse_endpoint(text: &str) -> Result<String, String> {
    let path = text.strip_prefix("unix://").unwrap_or(text);
    let address = ["tcp://", "tls://"]
        .iter()
        .find_map(|scheme| text.strip_prefix(scheme));
    match address {
        Some(address) if address.parse::<std::net::SocketAddr>().is_ok() => {}
        Some(_) => return Err("an IP address and a port follow tcp:// and tls://".to_owned()),
        None if path.starts_with('/') => {}
        None => {
            return Err(
                "this is neither tcp://, tls:// nor the absolute path of a socket".to_owned(),
            );
        }
    }
    let odd = |c: char| c.is_whitespace() || matches!(c, '"' | '#' | '{' | '}');
    if text.contains(odd) {
        return Err("a Corefile takes no white space, quotes, `#` and braces there".to_owned());
    }
    Ok(text.to_owned())
}

fn parse_extra(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if text.is_empty() || !text.chars().all(fits) {
        return Err("a secret is of A-Z, a-z, 0-9, `_` and `-`".to_owned());
    }
    Ok(text.to_owned())
}
