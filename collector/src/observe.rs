//! Ingest: dnstap streams in, observations out. A reader never waits for anything but its socket.

pub mod answer_cache;
mod capture_subscribers;
mod connection;
mod connection_limits;
mod dedup;
mod dns_servers;
mod error;
pub mod host_network;
mod lag;
mod listener;
mod loss_tracker;
pub mod metrics;
pub mod names;
mod peer_acl;
mod peer_ids;
pub mod pipeline;
pub mod queue;
mod read_buffer;
pub mod secret;

use std::{sync::Arc, time::Duration};

use proto::frame_stream;
use runtime::{clock::Clock, log_rate_limiter::LogRateLimiter, reload::Reloaded};

pub use self::{
    capture_subscribers::{CaptureSubscriber, CaptureSubscribers},
    connection_limits::{ConnectionTable, Drops, MaxConnections, PeerView},
    dns_servers::DnsServers,
    listener::{Acceptor, Listener},
    loss_tracker::{Backfill, LossTracker},
    peer_acl::PeerAcl,
    peer_ids::PeerIds,
};
use crate::{
    flush::Streams,
    guards::SharedGuards,
    new_names::NewNames,
    notices::Rebindings,
    observe::{answer_cache::AnswerCache, names::SharedIndex},
    query_origin::OwnQueries,
};

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
    pub remembered: AnswerCache,
    /// Our own look-ups and the other replicas', which are no sightings by clients.
    pub own: OwnQueries,
    /// Who is told of the streams, and of probes in them.
    pub probed: Streams,
    /// Who is connected, and where observations go. What has no room there is dropped and counted: CoreDNS must never wait.
    pub connections: ConnectionTable,
    /// What is to be asked for again.
    pub loss_tracker: LossTracker,
    /// Whose streams there were.
    pub peer_ids: PeerIds,
    /// Captures of what comes.
    pub taps: CaptureSubscribers,
    /// Who may speak.
    pub peer_acl: PeerAcl,
    /// What every event must show, if anything.
    pub secrets: Option<Reloaded<secret::Secrets>>,
    /// Which new names under wildcards are taken in.
    pub new_names: NewNames,
    /// The bounds of a connection.
    pub limits: ConnectionLimits,
    /// Who is told of answers with addresses that are refused.
    pub rebindings: Rebindings,
    /// For lines about peers that are refused, or closed for what they sent.
    pub complaints: Arc<LogRateLimiter>,
    /// For lines about events that cannot be read.
    pub bad_events: Arc<LogRateLimiter>,
}

impl Ingest {
    /// Whoever has a seat is read for these names; nothing is remembered, probed or captured, and nobody is told.
    pub fn new(names: SharedIndex, clock: Clock, connections: ConnectionTable) -> Self {
        Self {
            names,
            guards: SharedGuards::default(),
            clock,
            remembered: AnswerCache::default(),
            own: OwnQueries::default(),
            probed: Streams::default(),
            connections,
            loss_tracker: LossTracker::default(),
            peer_ids: PeerIds::default(),
            taps: CaptureSubscribers::default(),
            peer_acl: PeerAcl::default(),
            secrets: None,
            new_names: NewNames::default(),
            limits: ConnectionLimits::default(),
            rebindings: Rebindings::default(),
            complaints: Arc::default(),
            bad_events: Arc::default(),
        }
    }
}

/// The bounds of a connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// The sizes of frames.
    pub frames: frame_stream::Limits,
    /// Bytes that are buffered, at least [`ConnectionLimits::SMALLEST_BUFFER`].
    pub buffer: usize,
    /// From the connection to START; of TLS, the part before Frame Streams may take as long.
    pub handshake: Duration,
    /// From a frame's first byte to its last.
    pub frame: Duration,
    /// How long a peer may stay that is not known.
    pub unknown: Duration,
    /// Bytes of observations that wait until the peer is known.
    pub held: usize,
}

impl ConnectionLimits {
    /// The largest frame fits, with its length.
    pub const SMALLEST_BUFFER: usize = 72 << 10;
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            frames: frame_stream::Limits::default(),
            buffer: 128 << 10,
            handshake: Duration::from_secs(10),
            frame: Duration::from_secs(30),
            unknown: Duration::from_secs(15),
            held: 64 << 10,
        }
    }
}
