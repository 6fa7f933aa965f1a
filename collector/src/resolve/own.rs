//! Who asked: CoreDNS shows the queries of collectors on dnstap like everybody's, and they are nobody's sighting.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio::{sync::watch, time::Instant};

/// For how long a closed socket is remembered. A server that answers late still tells dnstap, and the sender keeps events
/// back for a second or more.
pub const LINGER: Duration = Duration::from_secs(10);

type Endpoint = (IpAddr, u16);

/// Who sent a query that a DNS server reports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Asker {
    /// This process.
    Ourselves,
    /// The replica that leads, which alone looks names up on time.
    Leader,
    /// Another replica: it probes, and asks for what it missed.
    Replica,
    /// Anybody else.
    Client(IpAddr),
    /// The event does not say.
    Unknown,
}

/// The local addresses and ports of our look-ups that are under way or ended within [`LINGER`], and the addresses that the
/// leader asks from. Clones share one record.
#[derive(Clone, Debug, Default)]
pub struct OwnQueries(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    record: Mutex<Record>,
    /// Every address that we ever asked from: queries from others are not ours, and need no lock.
    local: ArcSwap<BTreeSet<IpAddr>>,
    /// Those by which others can know us.
    announced: watch::Sender<BTreeSet<IpAddr>>,
    leader: ArcSwap<BTreeSet<IpAddr>>,
    /// The addresses that the other replicas ask from.
    others: ArcSwap<BTreeSet<IpAddr>>,
}

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
    /// Who sent a query from this address and port. Takes a lock only if it comes from an address of ours.
    pub fn asker(&self, address: Option<IpAddr>, port: Option<u16>) -> Asker {
        let Some(address) = address else {
            return Asker::Unknown;
        };
        let canonical = address.to_canonical();
        if port.is_some_and(|port| self.contains((canonical, port))) {
            Asker::Ourselves
        } else if self.0.leader.load().contains(&canonical) {
            Asker::Leader
        } else if self.0.others.load().contains(&canonical) {
            Asker::Replica
        } else {
            Asker::Client(address)
        }
    }

    /// The addresses that we ask from, as far as others can tell us by them: a loopback address is everybody's.
    pub fn addresses(&self) -> watch::Receiver<BTreeSet<IpAddr>> {
        self.0.announced.subscribe()
    }

    /// From now on the leader asks from these addresses, if it is another.
    pub fn led_from(&self, addresses: BTreeSet<IpAddr>) {
        self.0.leader.store(Arc::new(addresses));
    }

    /// From now on the other replicas ask from these addresses.
    pub fn others_ask_from(&self, addresses: BTreeSet<IpAddr>) {
        self.0.others.store(Arc::new(addresses));
    }

    pub(super) fn contains(&self, endpoint: Endpoint) -> bool {
        self.0.local.load().contains(&endpoint.0)
            && self
                .record()
                .sockets
                .get(&endpoint)
                .is_some_and(|sockets| sockets.counts(Instant::now()))
    }

    /// A socket of ours with this local address; it counts as open until the guard is dropped.
    pub(crate) fn open(&self, local: SocketAddr) -> OwnSocket {
        let endpoint = (local.ip().to_canonical(), local.port());
        let mut record = self.record();
        let sockets = record.sockets.entry(endpoint).or_insert(Sockets {
            open: 0,
            last_closed: None,
        });
        sockets.open += 1;
        // Under the lock, so that none is lost.
        self.is_local(endpoint.0);
        drop(record);
        OwnSocket {
            own: self.clone(),
            endpoint,
        }
    }

    fn is_local(&self, address: IpAddr) {
        let known = self.0.local.load();
        if known.contains(&address) {
            return;
        }
        let mut local = known.as_ref().clone();
        local.insert(address);
        self.0.local.store(Arc::new(local));
        if !address.is_loopback() && !address.is_unspecified() {
            self.0.announced.send_modify(|announced| {
                announced.insert(address);
            });
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
        self.0.record.lock().unwrap_or_else(PoisonError::into_inner)
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
pub(crate) struct OwnSocket {
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

    fn is_ours(own: &OwnQueries, address: &str, port: u16) -> bool {
        let address = address.parse().ok();
        own.asker(address, Some(port)) == Asker::Ourselves
    }

    #[test]
    fn the_leader_is_known_by_its_address_and_everybody_else_is_a_client() {
        let own = OwnQueries::default();
        let [leader, client] = ["10.0.0.2", "10.0.0.3"].map(|it| it.parse::<IpAddr>().unwrap());
        own.led_from([leader].into());
        let mapped = "::ffff:10.0.0.2".parse().ok();
        for address in [Some(leader), mapped] {
            assert_eq!(own.asker(address, Some(7)), Asker::Leader);
            assert_eq!(own.asker(address, None), Asker::Leader);
        }
        assert_eq!(own.asker(Some(client), Some(7)), Asker::Client(client));
        assert_eq!(own.asker(None, Some(7)), Asker::Unknown);
        own.others_ask_from([leader, "10.0.0.4".parse().unwrap()].into());
        assert_eq!(own.asker(Some(leader), Some(7)), Asker::Leader);
        assert_eq!(
            own.asker("::ffff:10.0.0.4".parse().ok(), Some(7)),
            Asker::Replica
        );
        own.others_ask_from(BTreeSet::new());
        own.led_from(BTreeSet::new());
        assert_eq!(own.asker(Some(leader), Some(7)), Asker::Client(leader));
    }

    #[test]
    fn others_are_told_the_addresses_that_are_ours_alone() {
        let own = OwnQueries::default();
        let mut told = own.addresses();
        for ip in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            drop(own.open(SocketAddr::new(ip.parse().unwrap(), 1)));
        }
        assert!(!told.has_changed().unwrap());
        for port in 1..5 {
            drop(own.open(local(port)));
        }
        assert_eq!(*told.borrow_and_update(), [local(1).ip()].into());
        drop(own.open(local(9)));
        assert!(!told.has_changed().unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_socket_counts_while_it_is_open_and_for_a_while_after() {
        let own = OwnQueries::default();
        let contains = |port| is_ours(&own, "::ffff:10.0.0.1", port);
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
        assert!(is_ours(&own, "10.0.0.1", 1), "tcp is open");
        drop(tcp);
        assert!(is_ours(&own, "10.0.0.1", 1), "tcp was just closed");
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
