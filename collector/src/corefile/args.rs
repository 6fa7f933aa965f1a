//! `collector corefile`.

use std::{path::PathBuf, str::FromStr};

use clap::{Args, Parser, Subcommand};
use runtime::store::{ObjectKey, ObjectKeyError};

use super::{
    Line, Scope,
    live::{self, Duty},
};

/// Patches, checks or renders the Corefile of a CoreDNS that should stream to the collector.
#[derive(Clone, Debug, Parser)]
#[command(name = "corefile")]
pub struct CorefileArgs {
    #[command(subcommand)]
    pub action: CorefileAction,
}

/// The subcommands of `collector corefile`.
#[derive(Clone, Debug, Subcommand)]
pub enum CorefileAction {
    /// Insert the `dnstap` lines into every server block that answers for names outside of the
    /// cluster; the rest stays as it is
    Patch(PatchArgs),
    /// List the answers that the collector does not receive, and directives that hide names; exits
    /// 1 if any answer is not received
    Check(InputArgs),
    /// Generate a Corefile from named servers with zones and upstreams (the `spec` of a `DNS` of
    /// operator.openshift.io)
    Render(RenderArgs),
}

/// The content of the `dnstap` lines.
#[derive(Clone, Debug, Args)]
pub struct LineArgs {
    /// The address of a collector, as CoreDNS dials it: `tcp://10.96.0.53:6000`, `tls://…`, or
    /// `/run/x.sock`. It must be an IP address, since CoreDNS would have to look up a name itself.
    /// Repeat the flag for each collector: every one gets a line of its own
    #[arg(long, value_name = "ENDPOINT", value_delimiter = ',', value_parser = parse_endpoint)]
    pub dnstap: Vec<String>,

    /// The `extra` field of the events: the secret of `--secret-file`
    #[arg(long, value_name = "TEXT", requires = "dnstap", value_parser = parse_extra)]
    pub extra: Option<String>,
}

/// The domains of the cluster's own names.
#[derive(Clone, Debug, Args)]
pub struct ScopeArgs {
    /// The domain of the cluster's own names, whose answers the collector does not need; repeatable
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
    /// With a kube store, the ConfigMap with CoreDNS's Corefile, `NAMESPACE/NAME`, or `none`. The
    /// leader checks it whenever it changes, and reports server blocks that do not stream in the
    /// log, an Event and a metric
    #[arg(long, value_name = "CONFIGMAP", default_value = "kube-system/coredns")]
    pub corefile: MaybeObject,

    /// With a kube store, the DaemonSet of a NodeLocal DNSCache, whose ConfigMap has the same name:
    /// `NAMESPACE/NAME`, or `none`. The leader reports server blocks that send names past the
    /// cluster's CoreDNS
    #[arg(
        long,
        value_name = "DAEMONSET",
        default_value = "kube-system/node-local-dns"
    )]
    pub node_local: MaybeObject,

    /// Where each server block of --corefile must stream, as in the Corefile:
    /// `tcp://10.96.0.53:6000`; repeatable. Without it, each block must have as many lines as there
    /// are --peer-service flags
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
    type Err = ObjectKeyError;

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

/// A Corefile, and its required lines.
#[derive(Clone, Debug, Args)]
pub struct InputArgs {
    /// The Corefile; without it, standard input
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// The required lines; without them, a check accepts any `dnstap` line.
    #[command(flatten)]
    pub line: LineArgs,

    #[command(flatten)]
    pub scope: ScopeArgs,

    /// The input is a ConfigMap as `kubectl get -o yaml` prints it, and so is the output of a patch
    #[arg(long)]
    pub configmap: bool,
}

#[derive(Clone, Debug, Args)]
pub struct PatchArgs {
    #[command(flatten)]
    pub input: InputArgs,

    /// Remove the lines instead; without --dnstap every `dnstap` line
    #[arg(long)]
    pub remove: bool,

    /// The Corefile is that of a NodeLocal DNSCache, whose CoreDNS has no dnstap: send names
    /// outside of the cluster to the cluster's CoreDNS
    #[arg(long, conflicts_with_all = ["remove", "dnstap"])]
    pub node_local: bool,

    /// With --node-local, the address of the cluster's CoreDNS, if no `forward` line for the
    /// cluster domain has it
    #[arg(long, value_name = "ADDRESS", requires = "node_local")]
    pub cluster_dns: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub struct RenderArgs {
    /// The servers, as YAML; `-` for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// The lines of every block.
    #[command(flatten)]
    pub line: LineArgs,

    #[command(flatten)]
    pub scope: ScopeArgs,

    /// The port that CoreDNS listens on
    #[arg(long, value_name = "PORT", default_value = "5353")]
    pub port: u16,
}

impl LineArgs {
    /// The line of each collector.
    pub fn lines(&self) -> Vec<Line> {
        let line = |endpoint: &String| Line {
            endpoint: endpoint.clone(),
            extra: self.extra.clone(),
        };
        self.dnstap.iter().map(line).collect()
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

/// Accepts an endpoint that is one word in a Corefile and that CoreDNS need not look up.
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
