//! The command line.

mod cli;
mod flush;
mod guards;
mod listen;
mod lookups;
mod name_limits;
mod retention;
mod sources;
mod stream_limits;

use std::{num::NonZeroU32, time::Duration};

use clap::Parser;
use runtime::{
    UsageError,
    args::{CommonArgs, StoreAddress, format_duration, headings, parse_duration},
    listen::{ListenAddress, parse_local},
};

pub use self::{
    cli::Cli,
    flush::FlushArgs,
    guards::GuardArgs,
    listen::{Following, ListenArgs},
    lookups::LookupArgs,
    name_limits::NameLimitArgs,
    retention::RetentionArgs,
    sources::SourceArgs,
    stream_limits::StreamLimitArgs,
};
use crate::{
    corefile::args::LiveCorefileArgs,
    lookup::ResolverSpec,
    objects::{ETCD_QUOTA, ManageObjects, Rates},
    state::Limits,
};

/// The prefix of the environment variables.
pub const PREFIX: &str = "COLLECTOR";

/// The default of `--admin`.
pub const ADMIN: &str = "127.0.0.1:9090";

const SOURCES: &str = "Sources of names";
pub const RETENTION: &str = "How long addresses stay";
pub const REFUSED_ADDRESSES: &str = "Refused addresses";
pub const NAME_LIMITS: &str = "Limits of names and addresses";
const STATUS_WRITES: &str = "Writes of statuses";

/// The end of the help.
const EXAMPLES: &str = "\
Examples:
  In a cluster:          collector --store kube --listen tcp://0.0.0.0:6000 --inspect tcp://127.0.0.1:9092
  Without Kubernetes:    collector --store dir:/var/lib/egress --listen unix:///run/collector/dnstap.sock
  Ask a running one:     egress explain www.example.com";

/// Keeps the addresses of the DNS names in EgressFirewalls.
///
/// The collector reads the DNS answers that CoreDNS streams as dnstap. It writes the addresses of names in EgressFirewalls into
/// DNSNameResolver objects. CoreDNS needs a line `dnstap SOCKET full` in each server
/// block that answers for names outside of the cluster.
#[derive(Clone, Debug, Parser)]
#[command(name = "collector", version = runtime::VERSION, after_help = EXAMPLES)]
pub struct Args {
    /// The flags of both programs.
    #[command(flatten)]
    pub common: CommonArgs,

    /// Whether the collector makes and deletes DNSNameResolver objects.
    ///
    /// The collector deletes only objects that it made itself.
    #[arg(long, value_enum, value_name = "MODE", default_value = "auto", help_heading = headings::STORE)]
    pub manage_objects: ManageObjects,

    /// The sources of names.
    #[command(flatten, next_help_heading = SOURCES)]
    pub sources: SourceArgs,

    /// The URL where the collector shows its state, as a page and as JSON.
    ///
    /// `unix:///run/inspect.sock`, or `tcp://` with a loopback address, such as `tcp://127.0.0.1:9092`. The state has the names of all
    /// tenants, so other hosts cannot reach it. The program `egress` reads it. Default: none.
    #[arg(long, value_name = "URL", value_parser = parse_local, help_heading = headings::OBSERVABILITY)]
    pub inspect: Option<ListenAddress>,

    /// The listeners, and the peers that may stream.
    #[command(flatten)]
    pub listen: ListenArgs,

    /// How long addresses stay.
    #[command(flatten, next_help_heading = RETENTION)]
    pub retention: RetentionArgs,

    /// The longest time that an address stays while look-ups of its name fail.
    ///
    /// The time begins with the last answer that had the address.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = format_duration(Limits::default().max_stale),
        value_parser = parse_duration,
        help_heading = RETENTION
    )]
    pub max_stale: Duration,

    /// Refused addresses.
    #[command(flatten, next_help_heading = REFUSED_ADDRESSES)]
    pub guards: GuardArgs,

    /// Allow answers with the addresses of Nodes.
    ///
    /// The collector refuses each `InternalIP` and `ExternalIP` otherwise. Names that lead to Nodes need this flag, such as those of
    /// an ingress on the host network. Only with `--store kube`.
    #[arg(long, help_heading = REFUSED_ADDRESSES)]
    pub allow_node_addresses: bool,

    /// The look-ups of names.
    #[command(flatten, next_help_heading = "Look-ups")]
    pub lookups: LookupArgs,

    /// Flush probes.
    #[command(flatten, next_help_heading = "Flush probes")]
    pub flush: FlushArgs,

    /// The Corefile in the cluster.
    #[command(flatten, next_help_heading = "Checks of the Corefile")]
    pub corefile: LiveCorefileArgs,

    /// How long the collector keeps serving after SIGTERM while `/readyz` fails.
    ///
    /// In this time the Service stops routing new connections to this collector. With two collectors, give one of them 15 s more than the
    /// other, so that they do not close their streams at the same time. 0: no delay.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "0",
        value_parser = parse_duration,
        help_heading = "Shutdown"
    )]
    pub shutdown_delay: Duration,

    /// How much peers may send.
    #[command(flatten, next_help_heading = "Limits of streams and clients")]
    pub stream_limits: StreamLimitArgs,

    /// How many names and addresses there may be.
    #[command(flatten, next_help_heading = NAME_LIMITS)]
    pub name_limits: NameLimitArgs,

    /// The shortest time between two writes of one object that only refresh the times in its status.
    ///
    /// Such times are `lastLookupTime` and `ttlSeconds`. The collector writes new and removed addresses at once.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "10m",
        value_parser = parse_duration,
        help_heading = STATUS_WRITES
    )]
    pub status_times_interval: Duration,

    /// Writes a second that only refresh times, at most, for all objects together.
    ///
    /// At least 1. Writes that add or remove addresses do not count.
    #[arg(long, value_name = "WRITES/S", default_value = "20", help_heading = STATUS_WRITES)]
    pub status_write_qps: NonZeroU32,

    /// The most bytes that etcd stores, as in its flag `--quota-backend-bytes`.
    ///
    /// The collector keeps all objects within 3/8 of it. Together with their versions of the last ten minutes they take half of it at most.
    /// Beyond that, names of the namespaces with the most bytes are left out.
    #[arg(long, value_name = "BYTES", default_value_t = ETCD_QUOTA, help_heading = NAME_LIMITS)]
    pub etcd_quota: u64,

    /// Bytes of statuses that the collector writes a second, at most, for all objects together.
    ///
    /// At least 1. Unused bytes are saved for 30 s. Default: 1.2 MB/s with the default `--etcd-quota`, and less while the objects take more
    /// than 240 MB. It follows from `--etcd-quota`: half of it has all objects and ten minutes of their history.
    #[arg(long, value_name = "BYTES/S", help_heading = STATUS_WRITES)]
    pub status_write_bytes: Option<NonZeroU32>,
}

impl Args {
    /// The limits that the flags set.
    pub fn limits(&self) -> Limits {
        Limits {
            max_stale: self.max_stale,
            wildcard_idle: self.lookups.wildcard_idle,
            lookups: self.resolver() != ResolverSpec::None,
            ..self.retention.limits(&self.name_limits)
        }
    }

    /// # Errors
    /// Servers that pods ask are trusted, and pods are not looked at.
    pub fn check_pods(&self) -> Result<(), UsageError> {
        if self.lookups.watch_pods || self.lookups.trusted_nameserver.is_empty() {
            return Ok(());
        }
        let words = "--trusted-nameserver needs --watch-pods: pods name such servers";
        Err(UsageError(words.to_owned()))
    }

    /// The DNS servers that are asked.
    pub fn resolver(&self) -> ResolverSpec {
        self.lookups
            .resolver
            .clone()
            .unwrap_or(match self.common.store {
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
