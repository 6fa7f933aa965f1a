//! The end of the program.

use std::time::Duration;

use clap::Args;
use runtime::args::parse_duration;

/// The flags of the end of the program.
#[derive(Args, Clone, Copy, Debug)]
pub struct ShutdownArgs {
    /// How long the collector keeps serving after SIGTERM while `/readyz` fails.
    ///
    /// In this time the Service stops routing new connections to this collector. 0: no delay.
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = parse_duration)]
    pub shutdown_delay: Duration,

    /// How long the collector waits after `--shutdown-delay`, at most, while another collector closes its streams.
    ///
    /// So two collectors do not close at the same time. The collectors take turns by the Lease `collector-closing`, or by a lock in the folder.
    /// 0: no wait.
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = parse_duration)]
    pub shutdown_turn: Duration,
}
