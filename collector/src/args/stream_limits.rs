//! How much peers may send, and how many new names clients may add.

use std::{num::NonZeroUsize, time::Duration};

use clap::Args;
use runtime::args::{format_duration, parse_duration, parse_size};

use crate::{
    new_names::NewNameLimits,
    observe::{ConnectionLimits, MaxConnections},
};

/// The flags of how much peers may send.
#[derive(Args, Clone, Debug)]
pub struct StreamLimitArgs {
    /// How long the collector keeps the connection of a peer that no EndpointSlice lists yet.
    ///
    /// The collector holds the events of such a peer meanwhile. After that it closes the connection and drops them.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = format_duration(ConnectionLimits::default().unknown),
        value_parser = parse_duration
    )]
    pub unknown_peer_wait: Duration,

    /// Connections that are open at once, at most.
    ///
    /// At least 1. Unknown peers have half of them at most.
    #[arg(long, value_name = "CONNECTIONS", default_value = "1000")]
    pub max_connections: NonZeroUsize,

    /// Connections of one peer that are open at once, at most.
    ///
    /// At least 1. A peer is an address, or a process on a unix socket. CoreDNS opens one connection for each `dnstap` line.
    #[arg(long, value_name = "CONNECTIONS", default_value = "64")]
    pub max_connections_per_peer: NonZeroUsize,

    /// How long a frame may take from its first byte to its last.
    ///
    /// The collector closes the connection of a slower peer.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = format_duration(ConnectionLimits::default().frame),
        value_parser = parse_duration
    )]
    pub frame_timeout: Duration,

    /// How long a TCP peer may be silent before the collector checks that it is there.
    ///
    /// Whole seconds. The connection ends after as long a silence again.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = parse_duration)]
    pub keepalive: Duration,

    /// Frames a second that the collector reads of one peer.
    ///
    /// The frames of all its connections count. The collector reads a peer that sends more at this rate. The DNS server
    /// drops what it cannot send. 0: no limit.
    #[arg(long, value_name = "FRAMES/S", default_value = "200000")]
    pub max_frames_per_peer: u32,

    /// New names under wildcards.
    #[command(flatten)]
    pub new_names: NewNameLimits,

    /// Memory for answers that wait to be processed.
    ///
    /// At least 1MiB. One peer may fill a quarter of it. The collector drops further answers and looks their names up.
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "16MiB",
        value_parser = parse_queue
    )]
    pub observation_queue: usize,
}

impl StreamLimitArgs {
    /// The bounds of a connection.
    pub fn connection_limits(&self) -> ConnectionLimits {
        ConnectionLimits {
            frame: self.frame_timeout,
            unknown: self.unknown_peer_wait,
            ..ConnectionLimits::default()
        }
    }

    /// The bounds of all connections.
    pub fn max_connections(&self) -> MaxConnections {
        MaxConnections {
            connections: self.max_connections.get(),
            of_peer: self.max_connections_per_peer.get(),
            frames_per_second: self.max_frames_per_peer,
        }
    }
}

/// The largest answer fits the part of the queue that one peer may fill.
fn parse_queue(text: &str) -> Result<usize, String> {
    let size = parse_size(text).map_err(|error| error.to_string())?;
    if size < 1 << 20 {
        return Err("it is at least 1MiB".to_owned());
    }
    Ok(size)
}
