//! The command line.

mod cli;
mod flush;
mod listen;
mod retention;
mod shutdown;

use std::{num::NonZeroU32, time::Duration};

use clap::{ArgAction, Parser};
use ipnet::IpNet;
use runtime::{
    UsageError,
    args::{CommonArgs, StoreAddress, parse_duration},
    endpoints::parse_service,
    listen::{ListenAddress, parse_local},
    store::ObjectKey,
};

pub use self::{
    cli::{CaptureArgs, Cli, ReplayArgs},
    flush::FlushArgs,
    listen::{Following, ListenArgs},
    retention::KeepArgs,
    shutdown::ShutdownArgs,
};
use crate::{
    corefile::args::LiveCorefileArgs,
    lookup::ResolverSpec,
    objects::{ETCD_QUOTA, ManageObjects, Rates},
    state::Limits,
};

/// Keeps the addresses of the DNS names in EgressFirewalls.
///
/// Reads the answers that CoreDNS streams as dnstap, and writes the addresses of the names that EgressFirewalls use into
/// DNSNameResolver objects. CoreDNS needs a line `dnstap SOCKET full` in every server block.
#[derive(Clone, Debug, Parser)]
#[command(name = "collector", version = runtime::VERSION)]
pub struct Args {
    /// What both programs have.
    #[command(flatten)]
    pub common: CommonArgs,

    /// Where to listen, and to whom.
    #[command(flatten)]
    pub listen: ListenArgs,

    /// Who makes and deletes DNSNameResolver objects: `auto` makes those that nobody else makes, `always` makes all,
    /// `never` only uses those that are there. Only objects that it made itself are ever deleted.
    #[arg(long, value_enum, value_name = "MODE", default_value = "auto")]
    pub manage_objects: ManageObjects,

    /// Which addresses are kept, and for how long.
    #[command(flatten)]
    pub keep: KeepArgs,

    /// With a kube store, allow answers with Nodes' own addresses (`InternalIP` and `ExternalIP`), which are refused otherwise. It is
    /// needed where a name leads to Nodes, such as an ingress on the host network (`*.apps` of a cluster without a load balancer).
    #[arg(long)]
    pub allow_node_addresses: bool,

    /// How long an address stays after it was last in an answer while its name cannot be looked up.
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = parse_duration)]
    pub max_stale: Duration,

    /// A name under a wildcard that no client asked for in this time is no longer looked up.
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = parse_duration)]
    pub wildcard_idle: Duration,

    /// Whom to ask when addresses expire: `kube` (the pods behind the cluster's DNS service), `resolv.conf`,
    /// `resolv.conf-tcp`, servers such as `10.0.0.10:53,10.0.0.11`, or `none`, with which addresses leave on their times
    /// alone. Default: `kube` with a kube store, `resolv.conf` with a folder.
    #[arg(long, value_name = "WHOM")]
    pub resolver: Option<ResolverSpec>,

    /// With a kube store, the Services behind which the DNS servers are, which `--resolver kube` asks and which may speak over
    /// TCP and TLS: `NAMESPACE/NAME`; may be given several times. On OpenShift it is `openshift-dns/dns-default`.
    #[arg(
        long,
        value_name = "SERVICE",
        value_delimiter = ',',
        default_value = "kube-system/kube-dns",
        value_parser = parse_service
    )]
    pub resolver_service: Vec<ObjectKey>,

    /// With a kube store, the Services of all collectors, this one's too: `NAMESPACE/NAME`; may be given several times. What their
    /// pods ask the DNS servers is not taken for what clients ask. Default: there is no other collector.
    #[arg(long, value_name = "SERVICE", value_delimiter = ',', value_parser = parse_service)]
    pub peer_service: Vec<ObjectKey>,

    /// With a kube store, the networks of name servers that are asked too if pods ask them instead of the cluster's DNS (`dnsConfig`, in
    /// namespaces with rules by name): what they say opens for everybody's rules. May be given several times. Default: none.
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub trusted_nameserver: Vec<IpNet>,

    /// With a kube store, whether to look at the pods of namespaces with rules by name, to tell of those that ask other name servers
    /// than the cluster's. `false` where it has no right to.
    #[arg(long, value_name = "BOOL", default_value = "true", action = ArgAction::Set)]
    pub watch_pods: bool,

    /// Flush probes.
    #[command(flatten)]
    pub flush: FlushArgs,

    /// The Corefile in the cluster.
    #[command(flatten)]
    pub corefile: LiveCorefileArgs,

    /// Nothing but times is written for an object more often than this.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    pub status_times_interval: Duration,

    /// Writes a second of nothing but times, in all.
    #[arg(long, value_name = "N", default_value = "20")]
    pub status_write_qps: NonZeroU32,

    /// Most bytes of the cluster's etcd: its `--quota-backend-bytes`. The objects take 3/8 of it at most, and with their history half.
    #[arg(long, value_name = "BYTES", default_value_t = ETCD_QUOTA)]
    pub etcd_quota: u64,

    /// Bytes a second of statuses that are written, in all. The collector saves for 30 s what it does not use. Default: what the objects
    /// leave of half of `--etcd-quota`, over ten minutes of history.
    #[arg(long, value_name = "BYTES")]
    pub status_write_bytes: Option<NonZeroU32>,

    /// Where to show what is known, as a page and as JSON: `unix:///run/inspect.sock` or `tcp://127.0.0.1:9092`. It has the
    /// names of every tenant, so no other host can reach it. Default: nowhere.
    #[arg(long, value_name = "URL", value_parser = parse_local)]
    pub inspect: Option<ListenAddress>,

    /// How it ends.
    #[command(flatten)]
    pub shutdown: ShutdownArgs,
}

impl Args {
    /// The limits that the flags set.
    ///
    /// # Errors
    /// `--min-ttl` is over `--max-ttl`.
    pub fn limits(&self) -> Result<Limits, UsageError> {
        Ok(Limits {
            max_stale: self.max_stale,
            wildcard_idle: self.wildcard_idle,
            lookups: self.resolver() != ResolverSpec::None,
            ..self.keep.limits()?
        })
    }
}

impl Args {
    /// # Errors
    /// Servers that pods ask are trusted, and pods are not looked at.
    pub fn check_pods(&self) -> Result<(), UsageError> {
        if self.watch_pods || self.trusted_nameserver.is_empty() {
            return Ok(());
        }
        let words = "--trusted-nameserver needs --watch-pods: it is pods that name such servers";
        Err(UsageError(words.to_owned()))
    }

    /// Whom to ask.
    pub fn resolver(&self) -> ResolverSpec {
        self.resolver.clone().unwrap_or(match self.common.store {
            StoreAddress::Kube => ResolverSpec::Kube,
            StoreAddress::Dir(_) => ResolverSpec::ResolvConf,
        })
    }

    /// How much is written.
    pub fn rates(&self) -> Rates {
        let bytes = self.status_write_bytes.map(|bytes| f64::from(bytes.get()));
        Rates {
            writes: self.status_write_qps.get().into(),
            bytes: bytes.unwrap_or_else(|| Rates::bytes_within(self.etcd_quota, 0)),
            etcd_quota: bytes.is_none().then_some(self.etcd_quota),
        }
    }
}
