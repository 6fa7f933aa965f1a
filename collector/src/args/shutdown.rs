//! How the program ends.

use std::time::Duration;

use clap::Args;
use runtime::args::parse_duration;

/// What the program is told of its end.
#[derive(Args, Clone, Copy, Debug)]
pub struct ShutdownArgs {
    /// For how long all goes on after SIGTERM, but that /readyz says no: until nobody is sent here any more, as a Service takes a
    /// moment to forget a pod that ends.
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = parse_duration)]
    pub shutdown_delay: Duration,

    /// For how long to wait then, at most, until no other collector with the same objects is closing its streams, so that of two
    /// `dnstap` lines one is read; 0: not at all. By the Lease `collector-closing` in the namespace of the objects, or a lock in the
    /// folder.
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = parse_duration)]
    pub shutdown_turn: Duration,
}
