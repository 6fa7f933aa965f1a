//! What each namespace has.

use std::{collections::HashMap, net::IpAddr};

use foldhash::fast::FixedState;

use super::super::{Entry, Owner};
use crate::{
    clients::{Clients, Namespace},
    namespaces::NamespaceQuota,
    state::Crowd,
};

const NOTHING: NamespaceQuota = NamespaceQuota {
    addresses: 0,
    names: 0,
};

/// What namespaces have.
#[derive(Debug, Default)]
pub(super) struct Charged {
    /// Addresses of all names.
    pub(super) all: usize,
    namespaces: HashMap<Namespace, NamespaceQuota, FixedState>,
}

impl Charged {
    pub(super) fn of(&self, namespace: Namespace) -> NamespaceQuota {
        self.namespaces.get(&namespace).copied().unwrap_or(NOTHING)
    }

    /// All namespaces that have something.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Namespace, NamespaceQuota)> {
        self.namespaces
            .iter()
            .map(|(namespace, used)| (*namespace, *used))
    }

    /// A name costs so many addresses of its own, and its namespaces a name.
    pub(super) fn add_name(&mut self, with_rule: &[Namespace], addresses: usize) {
        self.all += addresses;
        for namespace in with_rule {
            let used = self.namespaces.entry(*namespace).or_insert(NOTHING);
            used.addresses += addresses;
            used.names += 1;
        }
    }

    /// The opposite of [`Charged::add_name`].
    pub(super) fn remove_name(&mut self, with_rule: &[Namespace], addresses: usize) {
        self.all = self.all.saturating_sub(addresses);
        for namespace in with_rule {
            if let Some(used) = self.namespaces.get_mut(namespace) {
                used.addresses = used.addresses.saturating_sub(addresses);
                used.names = used.names.saturating_sub(1);
            }
        }
    }

    /// A name that a wildcard found costs so many addresses.
    fn add_found(&mut self, payers: &[Namespace], addresses: usize) {
        self.all += addresses;
        for namespace in payers {
            let used = self.namespaces.entry(*namespace).or_insert(NOTHING);
            used.addresses += addresses;
        }
    }

    /// The opposite of `add_found`.
    pub(super) fn remove_found(&mut self, payers: &[Namespace], addresses: usize) {
        self.all = self.all.saturating_sub(addresses);
        for namespace in payers {
            if let Some(used) = self.namespaces.get_mut(namespace) {
                used.addresses = used.addresses.saturating_sub(addresses);
            }
        }
    }

    /// All that is known of a name in use, if it is not left out.
    fn add(&mut self, entry: &Entry, clients: &Clients) {
        self.add_name(&entry.with_rule, own_addresses(entry));
        let crowd = entry.crowd(clients);
        for (askers, addresses) in found(entry) {
            self.add_found(&payers(askers, crowd), addresses);
        }
    }

    /// The same goes.
    pub(super) fn remove(&mut self, entry: &Entry, clients: &Clients) {
        self.remove_name(&entry.with_rule, own_addresses(entry));
        let crowd = entry.crowd(clients);
        for (askers, addresses) in found(entry) {
            self.remove_found(&payers(askers, crowd), addresses);
        }
    }
}

/// The addresses of the name that stands in rules.
pub(super) fn own_addresses(entry: &Entry) -> usize {
    let memory = &entry.memory;
    match memory.spec().is_wildcard() {
        true => memory.addresses_of(memory.spec()),
        false => memory.addresses(),
    }
}

/// Of each name that a wildcard found, who asked for it and how many addresses it has.
fn found(entry: &Entry) -> impl Iterator<Item = (&[IpAddr], usize)> {
    let is_wildcard = entry.memory.spec().is_wildcard();
    is_wildcard
        .then(|| entry.memory.found())
        .into_iter()
        .flatten()
}

/// The namespaces that pay for a name that a wildcard found, each once: those with a rule for it whose pods asked. What others' rules bring
/// in is not a namespace's own doing.
pub(super) fn payers(askers: &[IpAddr], crowd: Crowd<'_>) -> Vec<Namespace> {
    let who = askers.iter().map(|client| crowd.who(*client));
    let mut payers: Vec<Namespace> = who.filter_map(|it| crowd.with_rule(it)).collect();
    payers.sort_unstable();
    payers.dedup();
    payers
}

impl Owner {
    pub(super) fn charged(&self) -> Charged {
        let mut charged = Charged::default();
        let clients = &self.config.shared.clients;
        for entry in self.entries.values() {
            match entry.wanted && !entry.left_out {
                true => charged.add(entry, clients),
                // Kept until its absence is believed, or of an object alone.
                false => charged.all += entry.memory.addresses(),
            }
        }
        charged
    }
}
