//! The command line.

mod northbound;
mod sets;

use clap::Parser;
use runtime::{
    args::{CommonArgs, headings, parse_namespace},
    listen::{ListenAddress, parse_local},
};

pub use self::{northbound::NorthboundArgs, sets::SetsArgs};
use crate::plan::Policy;

/// The prefix of the environment variables.
pub const PREFIX: &str = "OVN_WRITER";

/// The default of `--admin`.
pub const ADMIN: &str = "127.0.0.1:9091";

const NORTHBOUND: &str = "Northbound database";
const WRITES: &str = "Writes";
const ADDRESS_SETS: &str = "Address sets";

/// The end of the help.
const EXAMPLES: &str = "\
Examples:
  In a cluster:          ovn-writer --store kube --nb unix:/run/ovn/ovnnb_db.sock --inspect tcp://127.0.0.1:9093
  Without Kubernetes:    ovn-writer --store dir:/var/lib/egress --nb unix:/run/ovn/ovnnb_db.sock
  Write nothing:         ovn-writer --store kube --dry-run
  Ask a running one:     egress explain www.example.com";

/// Writes the addresses of DNSNameResolver objects into the address sets of OVN's northbound database.
#[derive(Clone, Debug, Parser)]
#[command(name = "ovn-writer", version = runtime::VERSION, after_help = EXAMPLES)]
pub struct Args {
    /// The flags of both programs.
    #[command(flatten)]
    pub common: CommonArgs,

    /// The namespace of the DNSNameResolver objects.
    ///
    /// The collector reads EgressFirewalls in every namespace.
    #[arg(long, value_name = "NAMESPACE", default_value = "ovn-kubernetes", value_parser = parse_namespace, help_heading = headings::STORE)]
    pub objects_namespace: String,

    /// The URL where the ovn-writer shows its state, as a page and as JSON.
    ///
    /// `unix:///run/inspect.sock`, or `tcp://` with a loopback address, such as `tcp://127.0.0.1:9093`. The state has the names of all
    /// tenants, so other hosts cannot reach it. The program `egress` reads it. Default: none.
    #[arg(long, value_name = "URL", value_parser = parse_local, help_heading = headings::OBSERVABILITY)]
    pub inspect: Option<ListenAddress>,

    /// The database, and how to connect to it.
    #[command(flatten, next_help_heading = NORTHBOUND)]
    pub northbound: NorthboundArgs,

    /// Write nothing, and print what `egress verify` prints.
    ///
    /// The ovn-writer prints it to stdout at the start and whenever it changes.
    #[arg(long, help_heading = WRITES)]
    pub dry_run: bool,

    /// Write only while no other replica writes, for several ovn-writers of one database.
    ///
    /// The replicas share the Lease `ovn-writer` in `--objects-namespace`, or a lock in the folder.
    #[arg(long, help_heading = WRITES)]
    pub leader_elect: bool,

    /// The contents of the address sets.
    #[command(flatten, next_help_heading = ADDRESS_SETS)]
    pub sets: SetsArgs,
}

impl Args {
    /// The policy for the objects of the store.
    pub fn policy(&self) -> Policy {
        let sets = self.sets.clone();
        sets.policy(&self.common.store, &self.objects_namespace)
    }
}
