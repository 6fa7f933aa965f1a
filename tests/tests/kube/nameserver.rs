//! The DNS server that a collector queries, with addresses set by the test.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
};

use tests::upstream::{Scripted, Speech};

pub(crate) struct NameServer {
    server: Scripted,
    records: Arc<Mutex<Records>>,
}

/// The addresses of a name, and the TTL in seconds.
type Records = BTreeMap<String, (Vec<IpAddr>, u32)>;

impl NameServer {
    /// At first every name exists and has no address.
    pub(crate) async fn start() -> Self {
        let records = Arc::<Mutex<Records>>::default();
        let told = Arc::clone(&records);
        let server = Scripted::start(move |asked| {
            let found = told.lock().unwrap().get(&asked.name()).cloned();
            let (addresses, ttl) = found.unwrap_or_default();
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

    /// Replaces the addresses of the name.
    pub(crate) fn set(&self, name: &str, addresses: &[&str], ttl: u32) {
        let addresses = addresses.iter().map(|ip| ip.parse().unwrap()).collect();
        let mut records = self.records.lock().unwrap();
        records.insert(name.to_owned(), (addresses, ttl));
    }
}
