//! The servers and their state: responsive or silent, and the queries in flight at each.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use metrics::gauge;
use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::Instant};
use tracing::{info, warn};

use super::sockets::Connections;
use names::Failure;

/// A silent server is skipped for this long. Then one query tries it.
const SKIP: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Transport {
    Udp,
    Tcp,
}

impl Transport {
    /// The value of the metric label.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}

pub(super) struct Upstream {
    pub(super) server: SocketAddr,
    /// One permit for each query that may be in flight.
    pub(super) permits: Semaphore,
    pub(super) connections: Connections,
    health: Mutex<Health>,
}

#[derive(Default)]
struct Health {
    last_answer: Option<Instant>,
    /// Until when it is skipped, if a query went unanswered and none was answered since.
    skipped_until: Option<Instant>,
}

impl Upstream {
    fn new(server: SocketAddr, permits: usize) -> Self {
        Self {
            server,
            permits: Semaphore::new(permits),
            connections: Connections::default(),
            health: Mutex::default(),
        }
    }

    /// Whether a query went unanswered, and none was answered since.
    fn is_silent(&self) -> bool {
        self.health.lock().skipped_until.is_some()
    }

    /// Whether it is silent, and not to be tried now.
    pub(super) fn is_skipped(&self) -> bool {
        let until = self.health.lock().skipped_until;
        until.is_some_and(|until| Instant::now() < until)
    }

    /// A query is sent. Others skip a silent server until it has an answer.
    pub(super) fn asked(&self) {
        if let Some(until) = &mut self.health.lock().skipped_until {
            *until = Instant::now() + SKIP;
        }
    }

    pub(super) fn answered(&self) {
        let mut health = self.health.lock();
        health.last_answer = Some(Instant::now());
        if health.skipped_until.take().is_some() {
            info!(server = %self.server, "the DNS server answers again");
        }
    }

    /// A query that was sent then has no answer yet. The name may be the cause, so the server
    /// counts as silent only if it has answered nothing else since.
    pub(super) fn unanswered_since(&self, sent: Instant) {
        let last_answer = self.health.lock().last_answer;
        if last_answer.is_none_or(|last| last < sent) {
            self.fell_silent(Failure::Timeout);
        }
    }

    /// The server gave no answer, or refused the connection.
    pub(super) fn fell_silent(&self, why: Failure) {
        if self
            .health
            .lock()
            .skipped_until
            .replace(Instant::now() + SKIP)
            .is_none()
        {
            warn!(server = %self.server, reason = %why, "the DNS server does not answer: look-ups use the other servers");
        }
    }
}

#[derive(Default)]
pub(super) struct Pool {
    upstreams: Vec<Arc<Upstream>>,
}

impl Pool {
    /// The pool for a new list. Servers that stay keep their state.
    pub(super) fn with(&self, servers: &[SocketAddr], per_server: usize) -> Self {
        let mut upstreams: Vec<Arc<Upstream>> = Vec::with_capacity(servers.len());
        for server in servers {
            let is_it = |upstream: &&Arc<Upstream>| upstream.server == *server;
            if upstreams.iter().any(|upstream| is_it(&upstream)) {
                continue;
            }
            let known = self.upstreams.iter().find(is_it).cloned();
            upstreams.push(known.unwrap_or_else(|| Arc::new(Upstream::new(*server, per_server))));
        }
        Self { upstreams }
    }

    /// The number of all servers and of silent ones.
    pub(super) fn count(&self) -> (usize, usize) {
        let silent = self.upstreams.iter().filter(|server| server.is_silent());
        (self.upstreams.len(), silent.count())
    }

    /// Sets the metrics.
    pub(super) fn report(&self) {
        let (all, silent) = self.count();
        gauge!("egress_collector_lookup_servers").set(all as f64);
        gauge!("egress_collector_lookup_servers_silent").set(silent as f64);
    }

    /// All servers in random order. Servers without a free permit come after the others, silent
    /// ones last.
    pub(super) fn shuffled(&self) -> Vec<Arc<Upstream>> {
        let mut upstreams = self.upstreams.clone();
        fastrand::shuffle(&mut upstreams);
        upstreams.sort_by_cached_key(|server| {
            (server.is_skipped(), server.permits.available_permits() == 0)
        });
        upstreams
    }

    /// Whether a server answers that may be queried instead of this one.
    pub(super) fn is_replaceable(&self, upstream: &Upstream) -> bool {
        upstream.is_silent() && self.upstreams.iter().any(|other| !other.is_silent())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(low: u8) -> SocketAddr {
        ([10, 0, 0, low], 53).into()
    }

    fn pool(count: u8) -> Pool {
        let servers: Vec<_> = (1..=count).map(server).collect();
        Pool::default().with(&servers, 1)
    }

    #[tokio::test(start_paused = true)]
    async fn server_that_answers_others_is_not_silent() {
        let pool = pool(1);
        let upstream = &pool.upstreams[0];
        let sent = Instant::now();
        tokio::time::advance(Duration::from_secs(1)).await;
        upstream.answered();
        upstream.unanswered_since(sent);
        assert!(!upstream.is_silent());
        tokio::time::advance(Duration::from_secs(1)).await;
        upstream.unanswered_since(Instant::now());
        assert!(upstream.is_silent());
        upstream.answered();
        assert!(!upstream.is_silent());
    }

    #[tokio::test(start_paused = true)]
    async fn silent_server_is_tried_once_in_a_while() {
        let pool = pool(1);
        let upstream = &pool.upstreams[0];
        upstream.fell_silent(Failure::Timeout);
        assert!(upstream.is_skipped());
        tokio::time::advance(SKIP).await;
        assert!(!upstream.is_skipped());
        upstream.asked();
        assert!(upstream.is_skipped(), "another query does not try it");
        upstream.answered();
        assert!(!upstream.is_skipped());
    }

    #[tokio::test]
    async fn silent_servers_come_last_and_full_ones_before_them() {
        let pool = pool(4);
        pool.upstreams[0].fell_silent(Failure::Timeout);
        let _permit = pool.upstreams[1].permits.acquire().await.unwrap();
        let mut first = [0; 5];
        for _ in 0..100 {
            let order: Vec<_> = pool
                .shuffled()
                .iter()
                .map(|upstream| upstream.server)
                .collect();
            assert_eq!(order[2..], [server(2), server(1)]);
            first[usize::from(order[0] == server(3))] += 1;
        }
        assert!(first[0] > 0 && first[1] > 0, "the choice is random");
    }
}
