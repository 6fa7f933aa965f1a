//! The DNS server that a collector asks: it has the addresses that it was last told.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
};

use tests::upstream::{Scripted, Speech};

/// Runs as long as the value lives.
pub(crate) struct NameServer {
    server: Scripted,
    records: Arc<Mutex<Records>>,
}

/// What a name has, and the TTL in seconds.
type Records = BTreeMap<String, (Vec<IpAddr>, u32)>;

impl NameServer {
    /// Says of every name that it exists and has no address.
    pub(crate) async fn start() -> Self {
        let records = Arc::<Mutex<Records>>::default();
        let told = Arc::clone(&records);
        let server = Scripted::start(move |asked| {
            let records = told.lock().unwrap().get(&asked.name()).cloned();
            let (addresses, ttl) = records.unwrap_or_default();
            asked.ips(&addresses, ttl).say()
        });
        Self {
            server: server.await,
            records,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// From now on the name has these addresses and no others.
    pub(crate) fn set(&self, name: &str, addresses: &[&str], ttl: u32) {
        let addresses = addresses.iter().map(|ip| ip.parse().unwrap()).collect();
        let mut records = self.records.lock().unwrap();
        records.insert(name.to_owned(), (addresses, ttl));
    }

    /// How many questions there were about the name.
    pub(crate) fn asked(&self, name: &str) -> usize {
        self.server.count(|asked| asked.name() == name)
    }

    /// How many of them were about its IPv6 addresses.
    pub(crate) fn asked_for_v6(&self, name: &str) -> usize {
        self.server
            .count(|asked| asked.name() == name && asked.is_v6())
    }
}
