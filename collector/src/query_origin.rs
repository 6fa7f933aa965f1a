//! The origin of a query. CoreDNS reports the collectors' own queries on dnstap like those of
//! clients, and collectors ignore them when they learn what clients use.

use std::{
    collections::{BTreeSet, HashMap, VecDeque, hash_map::Entry},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use runtime::peers::Addresses;
use tokio::{
    net::{TcpSocket, TcpStream},
    time::Instant,
};

/// How long a closed socket is remembered. A late answer still appears on dnstap, and the sender
/// buffers events for a second or more.
pub const LINGER: Duration = Duration::from_secs(10);

type Endpoint = (IpAddr, u16);

/// The origin of a query that a DNS server reports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum QueryOrigin {
    /// This collector or another one: a look-up or a flush probe.
    Collector,
    Client(IpAddr),
    /// The event does not say.
    Unknown,
}

/// The local addresses and ports of this collector's queries in flight or ended within [`LINGER`],
/// and the source addresses of the other collectors. Clones share one record.
#[derive(Clone, Debug, Default)]
pub struct OwnQueries(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    record: Mutex<Record>,
    /// Every source address that this collector ever used: queries from other addresses need no
    /// lock.
    local: ArcSwap<BTreeSet<IpAddr>>,
    /// The source addresses of the other collectors.
    others: ArcSwap<BTreeSet<IpAddr>>,
    /// The source address of queries to a loopback address, by which other collectors on this host
    /// recognize them.
    loopback: Option<Ipv4Addr>,
}

#[derive(Debug, Default)]
struct Record {
    /// The number of sockets of an endpoint that are open or were closed within [`LINGER`]. UDP and
    /// TCP may have the same port, and a port may be reused.
    sockets: HashMap<Endpoint, u32>,
    /// Closings in order of time.
    closed: VecDeque<(Instant, Endpoint)>,
}

impl OwnQueries {
    /// Uses this source address for servers on loopback addresses.
    pub fn from_loopback(loopback: Option<Ipv4Addr>) -> Self {
        Self(Arc::new(Inner {
            loopback,
            ..Inner::default()
        }))
    }

    /// The origin of a query from this address and port. Takes a lock only for an address of this
    /// collector.
    pub fn origin(&self, address: Option<IpAddr>, port: Option<u16>) -> QueryOrigin {
        let Some(address) = address else {
            return QueryOrigin::Unknown;
        };
        let canonical = address.to_canonical();
        let is_ours = port.is_some_and(|port| self.contains((canonical, port)));
        if is_ours || self.0.others.load().contains(&canonical) {
            QueryOrigin::Collector
        } else {
            QueryOrigin::Client(address)
        }
    }

    /// Sets the source addresses of the other collectors.
    pub fn others_ask_from(&self, addresses: Addresses) {
        self.0.others.store(addresses);
    }

    /// The local address to bind to for a query to this server, with a port of the system's choice;
    /// `None` if any will do.
    pub(crate) fn source(&self, server: SocketAddr) -> Option<SocketAddr> {
        let loopback = self.0.loopback.filter(|_| match server.ip() {
            IpAddr::V4(server) => server.is_loopback(),
            IpAddr::V6(_) => false,
        })?;
        Some(SocketAddr::from((loopback, 0)))
    }

    pub(crate) async fn connect(
        &self,
        server: SocketAddr,
    ) -> std::io::Result<(TcpStream, OwnSocket)> {
        let stream = match self.source(server) {
            None => TcpStream::connect(server).await?,
            Some(source) => {
                let socket = TcpSocket::new_v4()?;
                socket.bind(source)?;
                socket.connect(server).await?
            }
        };
        stream.set_nodelay(true)?;
        let own = self.open(stream.local_addr()?);
        Ok((stream, own))
    }

    pub(super) fn contains(&self, endpoint: Endpoint) -> bool {
        if !self.0.local.load().contains(&endpoint.0) {
            return false;
        }
        let mut record = self.0.record.lock();
        record.forget(Instant::now());
        record.sockets.contains_key(&endpoint)
    }

    /// Records a socket with this local address as open until the guard is dropped.
    pub(crate) fn open(&self, local: SocketAddr) -> OwnSocket {
        let endpoint = (local.ip().to_canonical(), local.port());
        let mut record = self.0.record.lock();
        *record.sockets.entry(endpoint).or_default() += 1;
        // Under the lock, so that no concurrent update is lost.
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
    }
}

impl Record {
    fn forget(&mut self, now: Instant) {
        let is_over = |(closed, _): &mut (Instant, _)| now.duration_since(*closed) >= LINGER;
        while let Some((_, endpoint)) = self.closed.pop_front_if(is_over) {
            if let Entry::Occupied(mut sockets) = self.sockets.entry(endpoint) {
                *sockets.get_mut() -= 1;
                if *sockets.get() == 0 {
                    sockets.remove();
                }
            }
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
        let now = Instant::now();
        let mut record = self.own.0.record.lock();
        record.closed.push_back((now, self.endpoint));
        record.forget(now);
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
        own.origin(address, Some(port)) == QueryOrigin::Collector
    }

    #[test]
    fn a_collector_is_known_by_its_address_and_everybody_else_is_a_client() {
        let own = OwnQueries::default();
        let [other, client] = ["10.0.0.2", "10.0.0.3"].map(|it| it.parse::<IpAddr>().unwrap());
        own.others_ask_from(Arc::new([other].into()));
        let mapped = "::ffff:10.0.0.2".parse().ok();
        for address in [Some(other), mapped] {
            for port in [Some(7), None] {
                assert_eq!(own.origin(address, port), QueryOrigin::Collector);
            }
        }
        let origin = own.origin(Some(client), Some(7));
        assert_eq!(origin, QueryOrigin::Client(client));
        assert_eq!(own.origin(None, Some(7)), QueryOrigin::Unknown);
        own.others_ask_from(Addresses::default());
        assert_eq!(own.origin(Some(other), Some(7)), QueryOrigin::Client(other));
    }

    #[tokio::test]
    async fn servers_on_loopback_are_asked_from_the_address_of_this_collector() {
        let address = Ipv4Addr::new(127, 77, 0, 1);
        let own = OwnQueries::from_loopback(Some(address));
        for server in ["10.0.0.1:53", "[::1]:53"] {
            assert_eq!(own.source(server.parse().unwrap()), None);
        }
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (_stream, _own) = own.connect(server.local_addr().unwrap()).await.unwrap();
        let (_, peer) = server.accept().await.unwrap();
        assert_eq!(peer.ip(), IpAddr::V4(address));
        assert!(is_ours(&own, "127.77.0.1", peer.port()));
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
        let record = own.0.record.lock();
        assert!(record.sockets.len() <= 1001, "{}", record.sockets.len());
        assert!(record.closed.len() <= 1001, "{}", record.closed.len());
    }
}
