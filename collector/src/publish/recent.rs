//! The latest new addresses.

use std::{collections::VecDeque, net::IpAddr, sync::Arc};

use parking_lot::Mutex;
use proto::{
    api::DnsName,
    facts::{MOST_NEW_ADDRESSES, NameAddress},
};
use runtime::{clock::Timestamp, store::ObjectKey};

use super::name_objects::names_of;
use crate::listen::PeerIds;
use names::{Added, Entry, Namespaces, Provenance, Stored};

/// The latest new addresses, oldest first. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct NewAddresses(Arc<Mutex<VecDeque<NewAddress>>>);

/// An address that an answer brought to a name of rules. Under a wildcard, no other name had it.
#[derive(Debug)]
struct NewAddress {
    /// The name, as a rule or an object has it.
    rule: DnsName,
    /// The name of the question.
    name: DnsName,
    address: IpAddr,
    answered_at: Option<Timestamp>,
    read_at: Timestamp,
    source: Provenance,
    namespaces: Arc<[Arc<str>]>,
    /// When the store acknowledged a status with the address, and the object.
    written: Option<(Timestamp, ObjectKey)>,
}

impl NewAddress {
    fn fact(&self, peers: &PeerIds) -> NameAddress {
        let written = self.written.as_ref();
        NameAddress {
            rule: self.rule.to_string(),
            name: self.name.to_string(),
            address: self.address,
            answered_at: self.answered_at,
            read_at: self.read_at,
            status_written_at: written.map(|(at, _)| *at),
            object: written.map(|(_, object)| object.to_string()),
            seen_where: peers.describe(self.source),
            namespaces: self.namespaces.iter().map(ToString::to_string).collect(),
        }
    }
}

impl NewAddresses {
    /// The latest ones, at most so many.
    pub(crate) fn facts(&self, peers: &PeerIds, most: usize) -> Vec<NameAddress> {
        let all = self.0.lock();
        let skipped = all.len().saturating_sub(most);
        all.iter().skip(skipped).map(|it| it.fact(peers)).collect()
    }

    /// Records the addresses that an answer brought to an entry.
    pub(super) fn answered(&self, added: Added, entry: &Entry, all: &Namespaces) {
        let namespaces = entry.rule_use().namespaces.iter().copied();
        let namespaces: Arc<[Arc<str>]> = names_of(all, namespaces).into();
        let mut recent = self.0.lock();
        for address in added.addresses {
            if recent.len() >= MOST_NEW_ADDRESSES {
                recent.pop_front();
            }
            recent.push_back(NewAddress {
                rule: added.rule_name.clone(),
                name: added.name.clone(),
                address,
                answered_at: added.server_time,
                read_at: added.read_at,
                source: added.source,
                namespaces: Arc::clone(&namespaces),
                written: None,
            });
        }
    }

    /// The store acknowledged a status of the entry's object.
    pub(super) fn written(&self, entry: &Entry, key: &ObjectKey, status: &Stored, now: Timestamp) {
        for it in &mut *self.0.lock() {
            if it.written.is_none()
                && it.rule == *entry.list().rule_name()
                && status.has(&it.name, it.address)
            {
                it.written = Some((now, key.clone()));
            }
        }
    }
}
