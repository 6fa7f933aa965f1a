//! The command line.

mod flush;
mod hold;
mod inspect;
mod listen;
mod lookups;
mod retention;
mod sources;

use std::time::Duration;

use clap::Parser;
use ipnet::IpNet;
use runtime::args::{CommonArgs, StoreAddress, headings, parse_duration, parse_namespace};

pub use self::{
    flush::FlushArgs,
    hold::HoldUrl,
    inspect::InspectUrl,
    listen::{Following, ListenArgs},
    lookups::LookupArgs,
    retention::RetentionArgs,
    sources::SourceArgs,
};
use crate::{
    lookup::ResolverSpec,
    publish::{ManageObjects, guards::Guards},
};
use names::Limits;

/// The prefix of the environment variables.
pub const PREFIX: &str = "COLLECTOR";

/// The default of `--admin`.
pub const ADMIN: &str = "127.0.0.1:9090";

const SOURCES: &str = "Sources of names";
const RETENTION: &str = "How long addresses stay";
const REFUSED_ADDRESSES: &str = "Refused addresses";
const HOLD: &str = "Holding answers";

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

    /// The namespace of the DNSNameResolver objects.
    ///
    /// The collector reads EgressFirewalls in every namespace.
    #[arg(long, value_name = "NAMESPACE", default_value = "ovn-kubernetes", value_parser = parse_namespace, help_heading = headings::STORE)]
    pub objects_namespace: String,

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
    /// tenants, so other hosts cannot reach it. The program `egress` reads it. `?tap=false` behind it turns `egress capture` and
    /// `egress learn` off, which show the queries of all clients. Default: none.
    #[arg(long, value_name = "URL", help_heading = headings::OBSERVABILITY)]
    pub inspect: Option<InspectUrl>,

    /// The listeners, and the peers that may stream.
    #[command(flatten)]
    pub listen: ListenArgs,

    /// How long addresses stay.
    #[command(flatten, next_help_heading = RETENTION)]
    pub retention: RetentionArgs,

    /// Networks whose addresses are refused in answers; repeatable.
    ///
    /// Loopback, link-local, multicast and cloud metadata addresses and the like are always refused. In a cluster the addresses of the API
    /// server, Services, pods and Nodes are refused, too. The collector must be able to read them: EndpointSlices of default/kubernetes,
    /// ServiceCIDRs, Nodes, ClusterUserDefinedNetworks. The ovn-writer knows only the networks in its own flags. Default: none.
    #[arg(long, value_name = "CIDR", value_delimiter = ',', help_heading = REFUSED_ADDRESSES)]
    pub deny_answer: Vec<IpNet>,

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

    /// How long the collector keeps serving after SIGTERM while `/readyz` fails.
    ///
    /// In this time the Service stops routing new connections to this collector. Of two collectors, give
    /// one 15 s more, so that they close their streams one after the other. 0: no delay.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "0",
        value_parser = parse_duration,
        help_heading = "Shutdown"
    )]
    pub shutdown_delay: Duration,

    /// The URL where the collector forwards DNS queries, and holds answers with new addresses of names in rules.
    ///
    /// `udp+tcp://0.0.0.0:5300`. CoreDNS asks this address first (`egress corefile patch --hold`). An answer is held until the status has its
    /// addresses, for at most 150 ms, so that the first connection of a pod passes. Only the leader listens. The collector asks the servers
    /// in /etc/resolv.conf, or those in `?upstream=192.0.2.53,192.0.2.54` behind the address. They must not be the cluster's own DNS.
    /// Default: none.
    #[arg(long, value_name = "URL", help_heading = HOLD)]
    pub hold_listen: Option<HoldUrl>,
}

impl Args {
    /// The limits that the flags set.
    pub fn limits(&self) -> Limits {
        Limits {
            wildcard_idle: self.lookups.wildcard_idle,
            lookups: self.resolver() != ResolverSpec::None,
            ..self.retention.limits()
        }
    }

    /// The guards before the cluster's own networks are known.
    pub fn guards(&self) -> Guards {
        Guards::new(self.deny_answer.clone()).allow_nodes(self.allow_node_addresses)
    }

    /// The DNS servers to query.
    pub fn resolver(&self) -> ResolverSpec {
        self.lookups
            .resolver
            .clone()
            .unwrap_or(match self.common.store {
                StoreAddress::Kube => ResolverSpec::Kube,
                StoreAddress::Dir(_) => ResolverSpec::ResolvConf,
            })
    }
}
