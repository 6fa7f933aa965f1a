//! Ingest: dnstap streams in, observations out. A reader never waits for anything but its socket.

mod connection;
mod listener;
pub mod metrics;
pub mod pipeline;

use std::{sync::Arc, time::Duration};

use proto::frame_stream;
use runtime::{clock::Clock, sparse::Sparse};
use tokio::sync::mpsc;

pub use self::listener::Listener;
use crate::{
    guards::SharedGuards, names::SharedIndex, observation::Observation, remember::Remembered,
    resolve::OwnQueries,
};

/// Observations that wait for the owner of the statuses. One is about 200 bytes, and 24 kB at most
/// ([`pipeline::MAX_ADDRESSES`]).
pub const QUEUE: usize = 16_384;

/// What every connection shares.
#[derive(Clone, Debug)]
pub struct Ingest {
    /// The wanted names.
    pub names: SharedIndex,
    /// Which addresses may come in.
    pub guards: SharedGuards,
    /// The time of receipt.
    pub clock: Clock,
    /// Answers for names that nobody wants yet.
    pub remembered: Remembered,
    /// Our own look-ups and the leader's, which are no sightings by clients.
    pub own: OwnQueries,
    /// Where observations go. When it is full they are dropped and counted: CoreDNS must never wait.
    pub observations: mpsc::Sender<Observation>,
    /// The bounds of a connection.
    pub limits: ConnectionLimits,
    /// For lines about peers that are refused, or closed for what they sent.
    pub complaints: Arc<Sparse>,
    /// For lines about events that cannot be read.
    pub bad_events: Arc<Sparse>,
}

/// The bounds of a connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// The sizes of frames.
    pub frames: frame_stream::Limits,
    /// Connections in all; one more is closed at once.
    pub connections: usize,
    /// From the connection to START.
    pub handshake: Duration,
    /// From a frame's first byte to its last. Between frames a stream may be quiet for ever.
    pub frame: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            frames: frame_stream::Limits::default(),
            // Half of the file descriptors that a process may usually have: the store needs some too.
            connections: 512,
            handshake: Duration::from_secs(10),
            frame: Duration::from_secs(30),
        }
    }
}
