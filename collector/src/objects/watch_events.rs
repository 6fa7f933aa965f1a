//! Events for `/watch`: new addresses, and the statuses that got or lost addresses.

use std::{net::IpAddr, sync::Arc};

use proto::api::DnsName;
use runtime::{clock::Timestamp, inspect::watch::WatchSubscribers, store::ObjectKey};

use super::{
    entry::{Entry, names_of},
    stored_object::StoredObject,
};
use crate::{
    clients::Clients,
    observation::{Observation, Provenance},
};

/// The most addresses of an event; the others are counted.
pub(super) const MOST: usize = 1_000;

/// What happened to addresses of a name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WatchEvent {
    /// An answer had addresses that are new for the name.
    Answer(NewAddresses),
    /// The store acknowledged a status with other addresses than before.
    Status(NewStatus),
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NewAddresses {
    /// The name, as a rule or an object has it.
    pub rule: DnsName,
    /// The name of the question.
    pub name: DnsName,
    /// At most 1,000.
    pub addresses: Vec<IpAddr>,
    /// The number of others.
    pub more: usize,
    /// Those that the objects have already, under another name: no set changes.
    pub known: Vec<IpAddr>,
    /// The time of the answer by the DNS server's clock.
    pub answered_at: Option<Timestamp>,
    /// When the collector read it.
    pub read_at: Timestamp,
    /// Where it came from.
    pub source: Provenance,
    /// The namespaces with a rule for it, at most 100.
    pub namespaces: Vec<Arc<str>>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NewStatus {
    /// The name of the object's `spec.name`.
    pub rule: DnsName,
    /// The new addresses with their names, at most 1,000.
    pub addresses: Vec<(DnsName, IpAddr)>,
    /// The number of others.
    pub more: usize,
    /// The addresses that it no longer has, with their names, at most 1,000.
    pub removed: Vec<(DnsName, IpAddr)>,
    /// The number of others.
    pub more_removed: usize,
    pub object: ObjectKey,
    pub resource_version: String,
    /// When the store's acknowledgement was read.
    pub acknowledged_at: Timestamp,
    /// The namespaces with a rule for it, at most 100.
    pub namespaces: Vec<Arc<str>>,
}

/// Tells of the addresses of an answer that are new for its name. Must be called before the answer
/// is applied to the entry.
pub(super) fn answered(
    subscribers: &WatchSubscribers<WatchEvent>,
    entry: &Entry,
    observation: &Observation,
    clients: &Clients,
) {
    if !subscribers.is_open() {
        return;
    }
    let list = entry.memory.list();
    let addresses = observation.addresses.iter().map(|(ip, _)| *ip);
    let is_new = |ip: &IpAddr| !list.has(&observation.name, ip);
    let mut new = addresses.filter(is_new);
    let addresses: Vec<IpAddr> = new.by_ref().take(MOST).collect();
    if addresses.is_empty() {
        return;
    }
    let more = new.count();
    let has_object = !entry.objects.is_empty();
    let is_in_objects = |ip: &&IpAddr| has_object && StoredObject::all_have(&entry.objects, **ip);
    subscribers.offer(WatchEvent::Answer(NewAddresses {
        rule: list.spec().clone(),
        name: observation.name.clone(),
        known: addresses.iter().filter(is_in_objects).copied().collect(),
        addresses,
        more,
        answered_at: observation.answered_at,
        read_at: observation.at,
        source: observation.source,
        namespaces: names_of(clients, entry.in_use.with_rule.iter().copied()),
    }));
}
