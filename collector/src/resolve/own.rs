//! The record of our own sockets: CoreDNS shows our queries on dnstap like everybody's, and they are nobody's sighting.

use std::{
    collections::{HashMap, VecDeque},
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// For how long a closed socket is remembered. A server that answers late still tells dnstap, and the sender keeps events
/// back for a second or more.
pub const LINGER: Duration = Duration::from_secs(10);

type Endpoint = (IpAddr, u16);

/// The local addresses and ports of our look-ups that are under way or ended within [`LINGER`]. Clones share one record.
#[derive(Clone, Debug, Default)]
pub struct OwnQueries(Arc<Mutex<Record>>);

#[derive(Debug, Default)]
struct Record {
    sockets: HashMap<Endpoint, Sockets>,
    /// Closings in the order of their times.
    closed: VecDeque<(Instant, Endpoint)>,
}

/// The sockets of one endpoint: UDP and TCP may have the same port, and a port may be used again.
#[derive(Debug)]
struct Sockets {
    open: u32,
    last_closed: Option<Instant>,
}

impl Sockets {
    fn counts(&self, now: Instant) -> bool {
        self.open > 0
            || self
                .last_closed
                .is_some_and(|closed| now.duration_since(closed) < LINGER)
    }
}

impl OwnQueries {
    /// Whether a query from this address and port is, or may be, one of ours.
    pub fn contains(&self, address: IpAddr, port: u16) -> bool {
        let endpoint = (address.to_canonical(), port);
        self.record()
            .sockets
            .get(&endpoint)
            .is_some_and(|sockets| sockets.counts(Instant::now()))
    }

    /// A socket of ours with this local address; it counts as open until the guard is dropped.
    pub(super) fn open(&self, local: SocketAddr) -> OwnSocket {
        let endpoint = (local.ip().to_canonical(), local.port());
        let mut record = self.record();
        let sockets = record.sockets.entry(endpoint).or_insert(Sockets {
            open: 0,
            last_closed: None,
        });
        sockets.open += 1;
        drop(record);
        OwnSocket {
            own: self.clone(),
            endpoint,
        }
    }

    fn close(&self, endpoint: Endpoint) {
        let now = Instant::now();
        let mut record = self.record();
        if let Some(sockets) = record.sockets.get_mut(&endpoint) {
            sockets.open = sockets.open.saturating_sub(1);
            sockets.last_closed = Some(now);
            record.closed.push_back((now, endpoint));
        }
        record.forget(now);
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        // Every change is whole before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    fn forget(&mut self, now: Instant) {
        while let Some((closed, endpoint)) = self.closed.front()
            && now.duration_since(*closed) >= LINGER
        {
            if self
                .sockets
                .get(endpoint)
                .is_some_and(|sockets| !sockets.counts(now))
            {
                self.sockets.remove(endpoint);
            }
            self.closed.pop_front();
        }
    }
}

/// An open socket in the record.
#[derive(Debug)]
pub(super) struct OwnSocket {
    own: OwnQueries,
    endpoint: Endpoint,
}

impl Drop for OwnSocket {
    fn drop(&mut self) {
        self.own.close(self.endpoint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    #[tokio::test(start_paused = true)]
    async fn a_socket_counts_while_it_is_open_and_for_a_while_after() {
        let own = OwnQueries::default();
        let contains = |port| own.contains("::ffff:10.0.0.1".parse().unwrap(), port);
        assert!(!contains(1));
        let socket = own.open(local(1));
        tokio::time::advance(LINGER * 2).await;
        assert!(contains(1));
        assert!(!contains(2));
        drop(socket);
        tokio::time::advance(LINGER - Duration::from_millis(1)).await;
        assert!(contains(1));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!contains(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_port_that_is_used_again_counts_from_its_last_use() {
        let own = OwnQueries::default();
        let (udp, tcp) = (own.open(local(1)), own.open(local(1)));
        drop(udp);
        tokio::time::advance(LINGER).await;
        drop(own.open(local(2)));
        assert!(own.contains(local(1).ip(), 1), "tcp is open");
        drop(tcp);
        assert!(own.contains(local(1).ip(), 1), "tcp was just closed");
    }

    #[tokio::test(start_paused = true)]
    async fn the_record_does_not_grow_with_time() {
        let own = OwnQueries::default();
        for port in 1..=60_000 {
            drop(own.open(local(port)));
            tokio::time::advance(Duration::from_millis(10)).await;
        }
        let record = own.record();
        assert!(record.sockets.len() <= 1001, "{}", record.sockets.len());
        assert!(record.closed.len() <= 1001, "{}", record.closed.len());
    }
}
