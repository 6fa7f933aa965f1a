//! dnstap streams: sockets, peers and Frame Streams. A reader waits for nothing but its socket, and hands each frame to
//! [`matching`](crate::matching).

mod captures;
mod connection;
mod connection_table;
mod error;
mod listener;
pub mod metrics;
mod peer_acl;
mod peer_ids;
mod read_buffer;
pub mod secret;

use std::sync::Arc;

use runtime::{clock::Clock, log_rate_limiter::LogRateLimiter};

pub(crate) use self::captures::payloads;
pub use self::{
    captures::{Capture, CaptureSubscribers},
    connection_table::{ConnectionTable, Drops, MAX_CONNECTIONS},
    listener::{Acceptor, Listener},
    peer_acl::{DnsServers, PeerAcl},
    peer_ids::PeerIds,
};
use crate::{
    flush::ProbeReports,
    matching::{
        LossTracker, answer_cache::AnswerCache, index::SharedIndex, query_origin::OwnQueries,
    },
};

/// The state that all connections share.
#[derive(Clone, Debug)]
pub struct Ingest {
    pub names: SharedIndex,
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
    pub captures: CaptureSubscribers,
    /// Decides which peers may stream.
    pub peer_acl: PeerAcl,
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
    /// Accepts every peer with a permit. Caching, probes and captures are off.
    pub fn new(names: SharedIndex, clock: Clock, connections: ConnectionTable) -> Self {
        Self {
            names,
            clock,
            remembered: AnswerCache::default(),
            own: OwnQueries::default(),
            probes: ProbeReports::default(),
            connections,
            loss_tracker: LossTracker::default(),
            peer_ids: PeerIds::default(),
            captures: CaptureSubscribers::default(),
            peer_acl: PeerAcl::default(),
            log_limits: Arc::default(),
        }
    }
}
