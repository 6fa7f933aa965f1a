//! The command line of `egress replay`.

use std::path::PathBuf;

use clap::Args;
use collector::args::{
    GuardArgs, NAME_LIMITS, NameLimitArgs, REFUSED_ADDRESSES, RETENTION, RetentionArgs,
};
use proto::api::DnsName;
use runtime::{args::StoreAddress, inspect::client::Output};

/// Processes a file of dnstap events and prints which addresses the collector would have opened and closed.
///
/// The command looks nothing up and writes nothing. It begins with no addresses. An address leaves when its time is over. The clock is that
/// of the events.
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// The file with dnstap events as Frame Streams; `-` is stdin.
    ///
    /// `egress capture` and `fstrm_capture` write such files.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// The store with the EgressFirewalls whose names count: `dir:PATH` or `kube`.
    ///
    /// The command needs this flag or `--name`. Default: none.
    #[arg(long, value_name = "STORE", required_unless_present = "names")]
    pub store: Option<StoreAddress>,

    /// A name that counts, as in a rule; repeatable.
    ///
    /// Such as `www.example.com` or `*.example.com`. Default: none.
    #[arg(long = "name", value_name = "NAME", value_delimiter = ',', value_parser = DnsName::parse)]
    pub names: Vec<DnsName>,

    /// The format of the output.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Output,

    /// How long addresses stay.
    #[command(flatten, next_help_heading = RETENTION)]
    pub retention: RetentionArgs,

    /// Refused addresses.
    #[command(flatten, next_help_heading = REFUSED_ADDRESSES)]
    pub guards: GuardArgs,

    /// How many names and addresses there may be.
    #[command(flatten, next_help_heading = NAME_LIMITS)]
    pub name_limits: NameLimitArgs,
}
