//! The DNS server behind CoreDNS. It answers with the addresses of the moment.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex, PoisonError},
};

use crate::upstream::{Scripted, Speech};

/// The zone of all names that have rules.
pub(super) const ZONE: &str = "path.test.";

/// Addresses and TTL by name, without their zone's dot at the end.
type Records = Arc<Mutex<HashMap<String, (Ipv4Addr, u32)>>>;

/// A DNS server with a record for each name.
pub(super) struct Upstream {
    records: Records,
    next: u32,
    pub(super) server: Scripted,
}

impl Upstream {
    /// Starts it on this address of the machine.
    pub(super) async fn start(host: IpAddr) -> Self {
        let records = Records::default();
        let known = Arc::clone(&records);
        let server = Scripted::start_at(host, move |asked| {
            let records = known.lock().unwrap_or_else(PoisonError::into_inner);
            let record = records.get(&asked.name().to_ascii_lowercase());
            match record.filter(|_| asked.is_v4()) {
                Some((address, ttl)) => asked.ips(&[(*address).into()], *ttl).say(),
                None => asked.ips(&[], 300).say(),
            }
        })
        .await;
        Self {
            records,
            next: u32::from(Ipv4Addr::new(11, 0, 0, 1)),
            server,
        }
    }

    /// Gives a name an address that no name had before.
    pub(super) fn give_new_address(&mut self, name: &str, ttl: u32) -> Ipv4Addr {
        let address = Ipv4Addr::from(self.next);
        self.next += 1;
        self.give(name, address, ttl);
        address
    }

    pub(super) fn give(&self, name: &str, address: Ipv4Addr, ttl: u32) {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.insert(name.to_owned(), (address, ttl));
    }
}
