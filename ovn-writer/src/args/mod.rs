//! What the program is told.

mod northbound;

use clap::Parser;
use runtime::args::CommonArgs;

pub use self::northbound::NorthboundArgs;

/// The prefix of the environment variables.
pub const PREFIX: &str = "OVN_WRITER";

/// The default of `--admin`.
pub const ADMIN: &str = "127.0.0.1:9091";

/// Writes the addresses of DNSNameResolver objects into the address sets of OVN's northbound database.
#[derive(Clone, Debug, Parser)]
#[command(name = "ovn-writer", version)]
pub struct Args {
    /// What both programs are told.
    #[command(flatten)]
    pub common: CommonArgs,

    /// Where the database is, and how to connect to it.
    #[command(flatten)]
    pub northbound: NorthboundArgs,
}
