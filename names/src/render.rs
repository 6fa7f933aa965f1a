//! Renders the state as the status that the store should have.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use proto::api::{DnsName, DnsNameResolverStatus};
use proto::timestamp::Timestamp;

use super::{
    Limits, NameList, NameState, Stored,
    condition::ConditionWords,
    limits::tolerance,
    name::{Address, Name},
    stored::{StoredAddress, StoredName, expiries},
    without_addresses::own_entry,
};

/// A status that differs from the stored one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatusUpdate {
    next: Stored,
    /// New addresses; an address of two names counts twice.
    pub added: usize,
    /// Addresses of the stored status that are gone.
    pub removed: usize,
    /// Whether a name's `Degraded` condition flipped.
    pub flipped: bool,
}

impl StatusUpdate {
    /// The status that should replace `stored`, or `None` if that one is good enough.
    ///
    /// A stored time is replaced only if its expiry is off by more than min(5 s, TTL / 2). Entries
    /// and addresses keep their order. New ones go to the end, but the wildcard's own entry goes to
    /// the front. A regular name gets no entry if all of its addresses are in its wildcard's entry
    /// and live no longer. It loses an existing entry once both expire together. The name stays in
    /// memory, and its entry returns when its addresses live longer. An object that lost its last
    /// address keeps the entry of `spec.name` with the reason.
    pub fn new(
        state: &mut NameState,
        stored: &Stored,
        limits: &Limits,
        now: Timestamp,
    ) -> Option<Self> {
        let update = Self::compute(state, stored, limits, now);
        (update.next != *stored).then_some(update)
    }

    /// The same for objects of kube-OVN: `resolutionFailures` is 0 in each entry with an address. Its reader skips the
    /// addresses of entries with failures, so those that another program wrote leave at once.
    pub fn without_failures(
        state: &mut NameState,
        stored: &Stored,
        limits: &Limits,
        now: Timestamp,
    ) -> Option<Self> {
        let mut update = Self::compute(state, stored, limits, now);
        for name in &mut update.next.names {
            if !name.addresses.is_empty() {
                name.failures = 0;
            }
        }
        let hides = |name: &StoredName| name.failures != 0 && !name.addresses.is_empty();
        update.flipped |= stored.names.iter().any(hides);
        (update.next != *stored).then_some(update)
    }

    fn compute(state: &mut NameState, stored: &Stored, limits: &Limits, now: Timestamp) -> Self {
        let covered = covered(&state.list, stored, limits);
        let mut update = Self {
            removed: usize::try_from(stored.malformed).unwrap_or(usize::MAX),
            ..Self::default()
        };
        let mut names: Vec<StoredName> = Vec::with_capacity(state.list.names.len());
        let mut done: BTreeSet<&DnsName> = BTreeSet::new();
        for old in &stored.names {
            let known = state
                .list
                .name(&old.dns_name)
                .filter(|name| !covered.contains(&name.dns_name) && !done.contains(&name.dns_name));
            let Some(name) = known else {
                // An address in the wildcard's own entry does not leave the object.
                let own = state
                    .list
                    .wildcard()
                    .filter(|own| own.dns_name != old.dns_name);
                let stays = |ip: &IpAddr| own.is_some_and(|own| own.address(ip).is_some());
                let gone = old.addresses.iter().filter(|it| !stays(&it.ip));
                update.removed += gone.count();
                continue;
            };
            names.push(entry(state, name, Some(old), limits, now, &mut update));
            done.insert(&name.dns_name);
        }
        for name in &state.list.names {
            let dns_name = &name.dns_name;
            if covered.contains(dns_name) || done.contains(dns_name) {
                continue;
            }
            let new = entry(state, name, None, limits, now, &mut Self::default());
            // An address that the wildcard's own entry had before is not new.
            let own = stored
                .names
                .iter()
                .find(|it| it.dns_name == state.list.rule_name);
            let own = own.filter(|_| state.list.rule_name.is_wildcard() && !dns_name.is_wildcard());
            let has = |ip| own.is_some_and(|own| own.addresses.iter().any(|it| it.ip == ip));
            update.added += new.addresses.iter().filter(|it| !has(it.ip)).count();
            if dns_name.is_wildcard() {
                names.insert(0, new)
            } else {
                names.push(new)
            }
        }
        if state.list.names.is_empty() {
            names.extend(own_entry(state, stored, now, &mut update));
        }
        state.list.are_rendered();
        update.next.names = names.into();
        update
    }

    /// Whether it has more than changed times and counts.
    pub fn is_urgent(&self) -> bool {
        self.added + self.removed > 0 || self.flipped
    }

    /// The bytes of the object with this status, as the API server stores it with `managedFields`;
    /// rather too many than too few. Measured on kube-apiserver 1.36: 173 bytes for an address of 14
    /// characters with list-maps.
    pub fn bytes(&self) -> usize {
        let (names, addresses) = self.next.count();
        1_000 + 300 * names + 200 * addresses
    }

    pub fn status(&self) -> DnsNameResolverStatus {
        self.next.status()
    }
}

impl NameList {
    /// The status has all addresses with their current times.
    pub(super) fn are_rendered(&mut self) {
        let names = self.names.iter_mut();
        for address in names.flat_map(|name| &mut name.addresses) {
            address.rendered = address.expiry();
        }
    }
}

/// The regular names without an entry, because the wildcard's own entry has all of their addresses.
///
/// An earlier expiry is no reason to make an entry, nor to remove one that another writer made. The
/// wildcard's times are those of the status, not those of the state.
fn covered(list: &NameList, stored: &Stored, limits: &Limits) -> BTreeSet<DnsName> {
    let Some(own) = list.wildcard() else {
        return BTreeSet::new();
    };
    let own = next_addresses(own, stored, limits);
    let entries: BTreeSet<_> = stored.names.iter().map(|name| &name.dns_name).collect();
    let regular = list
        .names
        .iter()
        .filter(|name| name.dns_name != list.rule_name);
    let covered = regular.filter(|name| {
        let is_stored = entries.contains(&name.dns_name);
        name.addresses.iter().all(|address| {
            let found = own.binary_search_by_key(&address.ip, |own| own.ip);
            found
                .ok()
                .and_then(|found| own.get(found))
                .is_some_and(|own| {
                    let (own, this, tolerance) = expiries(own, address, limits);
                    this <= own + tolerance && (!is_stored || own <= this + tolerance)
                })
        })
    });
    covered.map(|name| name.dns_name.clone()).collect()
}

/// A name's addresses in the next status, sorted.
fn next_addresses(name: &Name, stored: &Stored, limits: &Limits) -> Vec<StoredAddress> {
    let current = |address| StoredAddress::current(address, limits);
    let mut addresses: Vec<_> = name.addresses.iter().map(current).collect();
    let old = stored
        .names
        .iter()
        .find(|old| old.dns_name == name.dns_name);
    for old in old.iter().flat_map(|old| &old.addresses) {
        let found = name
            .addresses
            .binary_search_by_key(&old.ip, |known| known.ip);
        if let Ok(found) = found
            && let (Some(known), Some(next)) = (name.addresses.get(found), addresses.get_mut(found))
            && is_near(old, known, limits)
        {
            *next = *old;
        }
    }
    addresses
}

/// Whether the stored expiry is close enough to the known one.
fn is_near(stored: &StoredAddress, address: &Address, limits: &Limits) -> bool {
    let ttl = StoredAddress::current(address, limits).ttl;
    let ttl = Duration::from_secs(u64::try_from(ttl).unwrap_or(0));
    let (was, is) = (stored.expiry(), address.answered_at + ttl);
    was.max(is).since(was.min(is)) <= tolerance(address.ttl)
}

fn entry(
    state: &NameState,
    name: &Name,
    old: Option<&StoredName>,
    limits: &Limits,
    now: Timestamp,
    update: &mut StatusUpdate,
) -> StoredName {
    let mut addresses = Vec::with_capacity(name.addresses.len());
    for stored in old.iter().flat_map(|old| &old.addresses) {
        match name.address(&stored.ip) {
            Some(address) => addresses.push(refreshed(stored, address, limits)),
            None => update.removed += 1,
        }
    }
    if addresses.len() < name.addresses.len() {
        let mut placed: Vec<IpAddr> = addresses.iter().map(|address| address.ip).collect();
        placed.sort_unstable();
        let new = |address: &&Address| placed.binary_search(&address.ip).is_err();
        let current = |address| StoredAddress::current(address, limits);
        addresses.extend(name.addresses.iter().filter(new).map(current));
        update.added += addresses.len() - placed.len();
    }
    let was = old.map_or(&ConditionWords::Nothing, |old| &old.condition_words);
    let (condition_words, flips) = if name.dns_name == state.list.rule_name {
        let condition_words = was.next(name.resolution, now);
        let flips = condition_words.differs(was);
        (condition_words, flips)
    } else {
        let condition_words = was.next_found(name.resolution, now);
        let flips = condition_words.reason() != was.reason();
        (condition_words, flips)
    };
    update.flipped |= old.is_some() && flips;
    StoredName {
        dns_name: name.dns_name.clone(),
        addresses: addresses.into(),
        condition_words,
        failures: name.failures,
    }
}

/// The stored address, with its old times if they are close enough.
fn refreshed(stored: &StoredAddress, address: &Address, limits: &Limits) -> StoredAddress {
    if is_near(stored, address, limits) {
        *stored
    } else {
        StoredAddress::current(address, limits)
    }
}
