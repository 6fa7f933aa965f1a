//! dnstap streams: sockets, peers and Frame Streams. A reader waits for nothing but its socket, and hands each frame to
//! [`matching`](crate::matching).

mod captures;
mod connection;
mod connection_limits;
mod dns_servers;
mod error;
mod listener;
pub mod metrics;
mod peer_acl;
mod peer_ids;
mod read_buffer;
pub mod secret;

use std::{sync::Arc, time::Duration};

use proto::frame_stream;
use runtime::{clock::Clock, log_rate_limiter::LogRateLimiter};

pub use self::{
    captures::CaptureSubscribers,
    connection_limits::{ConnectionTable, Drops, MaxConnections, PeerView},
    dns_servers::DnsServers,
    listener::{Acceptor, Listener},
    peer_acl::PeerAcl,
    peer_ids::PeerIds,
};
use crate::{
    flush::ProbeReports,
    matching::{
        LossTracker, answer_cache::AnswerCache, guards::SharedGuards, index::SharedIndex,
        query_origin::OwnQueries,
    },
    rules::notices::Rebindings,
};

/// The state that all connections share.
#[derive(Clone, Debug)]
pub struct Ingest {
    pub names: SharedIndex,
    /// Addresses that are never programmed are refused here.
    pub guards: SharedGuards,
    /// The clock for times of receipt.
    pub clock: Clock,
    /// Answers for names that no rule wants yet.
    pub remembered: AnswerCache,
    /// The collectors' own look-ups, which do not count as queries of clients.
    pub own: OwnQueries,
    /// Reports the flush probes in the streams to the flush task.
    pub probes: ProbeReports,
    /// The connections, and the queue for their observations. An observation that does not fit the
    /// queue is dropped and counted: CoreDNS must never wait for the collector.
    pub connections: ConnectionTable,
    /// Lost names, which are to be looked up again.
    pub loss_tracker: LossTracker,
    /// The numbers of the peers, for [`names::Observation::source`].
    pub peer_ids: PeerIds,
    /// The captures that get a copy of the events.
    pub taps: CaptureSubscribers,
    /// Decides which peers may stream.
    pub peer_acl: PeerAcl,
    pub limits: ConnectionLimits,
    /// Reports answers with refused addresses to the authors of rules.
    pub rebindings: Rebindings,
    pub log_limits: Arc<LogLimits>,
}

/// The limits of log lines.
#[derive(Debug, Default)]
pub struct LogLimits {
    /// Of peers that are refused, or closed for an error.
    pub complaints: LogRateLimiter,
    /// Of malformed events.
    pub bad_events: LogRateLimiter,
    /// Of events without a DNS message.
    pub no_message: LogRateLimiter,
    /// Of streams that open, and peers that become known or unknown.
    pub openings: LogRateLimiter,
}

impl Ingest {
    /// Accepts every peer with a permit. Caching, probes, captures and reports are off.
    pub fn new(names: SharedIndex, clock: Clock, connections: ConnectionTable) -> Self {
        Self {
            names,
            guards: SharedGuards::default(),
            clock,
            remembered: AnswerCache::default(),
            own: OwnQueries::default(),
            probes: ProbeReports::default(),
            connections,
            loss_tracker: LossTracker::default(),
            peer_ids: PeerIds::default(),
            taps: CaptureSubscribers::default(),
            peer_acl: PeerAcl::default(),
            limits: ConnectionLimits::default(),
            rebindings: Rebindings::default(),
            log_limits: Arc::default(),
        }
    }
}

/// The limits of one connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// The largest frames.
    pub frames: frame_stream::Limits,
    /// The size of the read buffer in bytes, at least [`ConnectionLimits::SMALLEST_BUFFER`].
    pub buffer: usize,
    /// From the connection to START. A TLS handshake before it may take as long again.
    pub handshake: Duration,
    /// From a frame's first byte to its last.
    pub frame: Duration,
    /// How long an unknown peer may stay connected.
    pub unknown: Duration,
}

impl ConnectionLimits {
    /// Room for the largest frame and its length.
    pub const SMALLEST_BUFFER: usize = 72 << 10;
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            frames: frame_stream::Limits::default(),
            buffer: 128 << 10,
            handshake: Duration::from_secs(10),
            frame: Duration::from_secs(30),
            // As long as an EndpointSlice of a new pod may take.
            unknown: Duration::from_secs(60),
        }
    }
}
