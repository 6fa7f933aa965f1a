//! The servers and their state: responsive or silent, and the queries in flight at each.

use std::{sync::Arc, time::Duration};

use metrics::gauge;
use parking_lot::Mutex;
use tokio::{
    sync::{Semaphore, watch},
    time::Instant,
};
use tracing::{info, warn};

use super::{servers::Server, sockets::Connections};
use names::Failure;

/// A silent server is tried again after this time. The pause doubles with each failure ...
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// ... up to this.
const LAST_PAUSE: Duration = Duration::from_secs(30);

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
    pub(super) server: Server,
    /// One permit for each query that may be in flight.
    pub(super) permits: Semaphore,
    pub(super) connections: Connections,
    /// Whether a query went unanswered, and none was answered since.
    silent: watch::Sender<bool>,
    health: Mutex<Health>,
}

struct Health {
    last_answer: Option<Instant>,
    /// When to try it again while it is silent, and the pause after that.
    retry_at: Instant,
    pause: Duration,
}

impl Upstream {
    fn new(server: Server, permits: usize) -> Self {
        Self {
            server,
            permits: Semaphore::new(permits),
            connections: Connections::default(),
            silent: watch::Sender::new(false),
            health: Mutex::new(Health {
                last_answer: None,
                retry_at: Instant::now(),
                pause: FIRST_PAUSE,
            }),
        }
    }

    /// The transport of the first query.
    pub(super) fn transport(&self) -> Transport {
        if self.server.tcp_only {
            Transport::Tcp
        } else {
            Transport::Udp
        }
    }

    pub(super) fn is_silent(&self) -> bool {
        *self.silent.borrow()
    }

    pub(super) fn answered(&self) {
        self.health.lock().last_answer = Some(Instant::now());
        if self.is_silent() && self.silent.send_replace(false) {
            info!(server = %self.server.address, "the DNS server answers again");
        }
    }

    /// A query that was sent then has no answer yet. The name may be the cause, so the server
    /// counts as silent only if it has answered nothing else since.
    pub(super) fn unanswered_since(&self, sent: Instant) {
        if self
            .health
            .lock()
            .last_answer
            .is_none_or(|last| last < sent)
        {
            self.fell_silent(Failure::Timeout);
        }
    }

    /// The server gave no answer, or refused the connection.
    pub(super) fn fell_silent(&self, why: Failure) {
        let mut health = self.health.lock();
        if self.is_silent() {
            return;
        }
        health.pause = FIRST_PAUSE;
        health.retry_at = Instant::now() + health.pause;
        drop(health);
        warn!(server = %self.server.address, reason = %why, "the DNS server does not answer: look-ups use the other servers");
        self.silent.send_replace(true);
    }

    /// Whether a retry of the silent server is due. If so, schedules the next one.
    fn is_retry_due(&self, now: Instant) -> bool {
        let mut health = self.health.lock();
        if !self.is_silent() || now < health.retry_at {
            return false;
        }
        health.pause = (health.pause * 2).min(LAST_PAUSE);
        health.retry_at = now + health.pause;
        true
    }
}

#[derive(Default)]
pub(super) struct Pool {
    upstreams: Vec<Arc<Upstream>>,
}

impl Pool {
    /// The pool for a new list. Servers that stay keep their state.
    pub(super) fn with(&self, servers: &[Server], per_server: usize) -> Self {
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

    /// [`Pool::count`], after setting the metrics.
    pub(super) fn report(&self) -> (usize, usize) {
        let (all, silent) = self.count();
        gauge!("egress_collector_lookup_servers").set(all as f64);
        gauge!("egress_collector_lookup_servers_silent").set(silent as f64);
        (all, silent)
    }

    /// All servers in random order. Servers without a free permit come after the others, silent
    /// ones last.
    pub(super) fn shuffled(&self) -> Vec<Arc<Upstream>> {
        let mut upstreams = self.upstreams.clone();
        fastrand::shuffle(&mut upstreams);
        upstreams.sort_by_cached_key(|server| {
            (server.is_silent(), server.permits.available_permits() == 0)
        });
        upstreams
    }

    /// The silent servers whose retry is due.
    pub(super) fn due_retries(&self, now: Instant) -> impl Iterator<Item = Arc<Upstream>> {
        let silent = self.upstreams.iter();
        silent
            .filter(move |server| server.is_retry_due(now))
            .cloned()
    }

    /// Waits until this server is silent while another is not: waiting for it is then pointless.
    pub(super) async fn better_elsewhere(&self, upstream: &Upstream) {
        let mut silent = upstream.silent.subscribe();
        // The sender lives as long as the server.
        let _ = silent.wait_for(|silent| *silent).await;
        if self.upstreams.iter().all(|other| other.is_silent()) {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(low: u8) -> Server {
        Server::udp(([10, 0, 0, low], 53).into())
    }

    fn pool(count: u8) -> Pool {
        let servers: Vec<_> = (1..=count).map(server).collect();
        Pool::default().with(&servers, 1)
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_answers_others_is_not_silent() {
        let pool = pool(1);
        let upstream = &pool.upstreams[0];
        let sent = Instant::now();
        tokio::time::advance(FIRST_PAUSE).await;
        upstream.answered();
        upstream.unanswered_since(sent);
        assert!(!upstream.is_silent());
        tokio::time::advance(FIRST_PAUSE).await;
        upstream.unanswered_since(Instant::now());
        assert!(upstream.is_silent());
        upstream.answered();
        assert!(!upstream.is_silent());
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_is_tried_ever_more_rarely() {
        let pool = pool(1);
        pool.upstreams[0].fell_silent(Failure::Timeout);
        let start = Instant::now();
        let mut tries = Vec::new();
        while start.elapsed() < Duration::from_secs(100) {
            tokio::time::advance(FIRST_PAUSE).await;
            for _ in pool.due_retries(Instant::now()) {
                tries.push(start.elapsed().as_secs());
            }
        }
        assert_eq!(tries, [1, 3, 7, 15, 31, 61, 91]);
        pool.upstreams[0].answered();
        tokio::time::advance(LAST_PAUSE).await;
        assert_eq!(pool.due_retries(Instant::now()).count(), 0);
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

    #[tokio::test]
    async fn a_new_list_keeps_what_is_known_of_those_that_stay() {
        let old = pool(2);
        old.upstreams[0].fell_silent(Failure::Timeout);
        let new = old.with(&[server(3), server(1), server(1)], 1);
        assert_eq!(new.count(), (2, 1));
        assert_eq!(new.shuffled()[1].server, server(1));
        assert!(Arc::ptr_eq(&new.upstreams[1], &old.upstreams[0]));
    }
}
