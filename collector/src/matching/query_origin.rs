//! The source addresses of the collectors' own queries. CoreDNS reports these on dnstap like those of
//! clients, and they do not count as the use of a name.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use arc_swap::ArcSwap;
use tokio::net::{TcpSocket, TcpStream};

/// The source address of collectors without Kubernetes for servers on loopback addresses: clients on
/// this host have another one.
pub const LOOPBACK: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 77);

/// The source addresses of all collectors. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct OwnQueries(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    addresses: ArcSwap<BTreeSet<IpAddr>>,
    /// Bound for servers on loopback addresses.
    loopback: Option<Ipv4Addr>,
}

impl OwnQueries {
    /// Without Kubernetes: queries to servers on loopback addresses come from [`LOOPBACK`].
    pub fn from_loopback() -> Self {
        Self(Arc::new(Inner {
            addresses: ArcSwap::from_pointee([LOOPBACK.into()].into()),
            loopback: Some(LOOPBACK),
        }))
    }

    /// Whether a query from this address is a collector's: a look-up or a flush probe.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.addresses.load().contains(&address.to_canonical())
    }

    /// Sets the addresses of all collectors; IPv4 is never mapped.
    pub fn set(&self, addresses: Arc<BTreeSet<IpAddr>>) {
        self.0.addresses.store(addresses);
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

    pub(crate) async fn connect(&self, server: SocketAddr) -> std::io::Result<TcpStream> {
        let stream = match self.source(server) {
            None => TcpStream::connect(server).await?,
            Some(source) => {
                let socket = TcpSocket::new_v4()?;
                socket.bind(source)?;
                socket.connect(server).await?
            }
        };
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_query_is_known_by_its_source_address() {
        let own = OwnQueries::default();
        let [collector, client] = ["10.0.0.2", "10.0.0.3"].map(|it| it.parse().unwrap());
        own.set(Arc::new([collector].into()));
        assert!(own.contains(collector));
        assert!(own.contains("::ffff:10.0.0.2".parse().unwrap()));
        assert!(!own.contains(client));
        own.set(Arc::default());
        assert!(!own.contains(collector));
    }

    #[tokio::test]
    async fn servers_on_loopback_are_asked_from_address_of_collectors() {
        let own = OwnQueries::from_loopback();
        for server in ["10.0.0.1:53", "[::1]:53"] {
            assert_eq!(own.source(server.parse().unwrap()), None);
        }
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _stream = own.connect(server.local_addr().unwrap()).await.unwrap();
        let (_, peer) = server.accept().await.unwrap();
        assert!(own.contains(peer.ip()));
    }
}
