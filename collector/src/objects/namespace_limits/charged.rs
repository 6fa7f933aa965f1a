//! The usage of each namespace.

use std::{collections::HashMap, net::IpAddr};

use foldhash::fast::FixedState;
use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::super::{entry::Entry, names::NameTable};
use crate::{
    clients::{Clients, Namespace},
    namespaces::NamespaceQuota,
    state::{Count, OwnLimits},
};

pub(super) const NOTHING: NamespaceQuota = NamespaceQuota {
    addresses: 0,
    names: 0,
};

/// The measures that all namespaces together have a limit of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Measure {
    /// Addresses.
    Addresses,
    /// Bytes of stored objects.
    Bytes,
}

/// The usage of names.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) addresses: usize,
    /// Their bytes in stored objects, with the names that wildcards found.
    pub(crate) bytes: usize,
}

impl Usage {
    pub(super) fn of(self, measure: Measure) -> usize {
        match measure {
            Measure::Addresses => self.addresses,
            Measure::Bytes => self.bytes,
        }
    }

    fn add(&mut self, more: Self) {
        self.addresses += more.addresses;
        self.bytes += more.bytes;
    }

    fn subtract(&mut self, less: Self) {
        self.addresses = self.addresses.saturating_sub(less.addresses);
        self.bytes = self.bytes.saturating_sub(less.bytes);
    }
}

/// The usage of all namespaces.
#[derive(Debug, Default)]
pub(crate) struct Charged {
    /// The usage of all names, as far as names can be left out.
    pub(crate) all: Usage,
    /// Bytes of all objects as stored.
    pub(crate) stored: usize,
    /// Of each wildcard that has any, what no namespace pays for.
    pub(super) unpaid: HashMap<DnsName, Unpaid>,
    namespaces: HashMap<Namespace, (NamespaceQuota, usize), FixedState>,
}

impl Charged {
    pub(crate) fn new(names: &NameTable, now: Timestamp) -> Self {
        let mut charged = Self::default();
        for entry in names.entries.values() {
            match entry.is_wanted() && !entry.left_out {
                true => charged.add_entry(entry, &names.shared.clients, now),
                // The name has only an object.
                false => charged.all.addresses += entry.memory.list().addresses(),
            }
            charged.stored += entry.memory.size().bytes();
        }
        charged
    }

    pub(crate) fn of(&self, namespace: Namespace) -> NamespaceQuota {
        self.namespaces.get(&namespace).map_or(NOTHING, |it| it.0)
    }

    /// All namespaces with any usage.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Namespace, NamespaceQuota)> {
        let namespaces = self.namespaces.iter();
        namespaces.map(|(namespace, (used, _))| (*namespace, *used))
    }

    /// How much a namespace has of what is limited for all together.
    pub(super) fn part(&self, namespace: Namespace, measure: Measure) -> usize {
        let part = self.namespaces.get(&namespace);
        part.map_or(0, |(used, bytes)| match measure {
            Measure::Addresses => used.addresses,
            Measure::Bytes => *bytes,
        })
    }

    pub(super) fn add(&mut self, cost: &Cost<'_>) {
        self.all.add(cost.usage());
        for namespace in cost.payers {
            let (used, bytes) = self.namespaces.entry(*namespace).or_insert((NOTHING, 0));
            used.addresses += cost.of(*namespace);
            used.names += cost.names;
            *bytes += cost.bytes_of(*namespace);
        }
    }

    /// The opposite of [`Charged::add`].
    pub(super) fn remove(&mut self, cost: &Cost<'_>) {
        self.all.subtract(cost.usage());
        for namespace in cost.payers {
            if let Some((used, bytes)) = self.namespaces.get_mut(namespace) {
                used.addresses = used.addresses.saturating_sub(cost.of(*namespace));
                used.names = used.names.saturating_sub(cost.names);
                *bytes = bytes.saturating_sub(cost.bytes_of(*namespace));
            }
        }
    }

    /// Subtracts usage that other namespaces pay for too, as far as the namespace exceeds its
    /// quota.
    pub(super) fn spare(
        &mut self,
        namespace: Namespace,
        shared: NamespaceQuota,
        quota: NamespaceQuota,
    ) {
        let spare = |used: &mut usize, shared, quota| {
            *used -= (*used).saturating_sub(quota).min(shared);
        };
        if let Some((used, _)) = self.namespaces.get_mut(&namespace) {
            spare(&mut used.addresses, shared.addresses, quota.addresses);
            spare(&mut used.names, shared.names, quota.names);
        }
    }

    /// Adds all usage of a name in use that is not left out.
    fn add_entry(&mut self, entry: &Entry, clients: &Clients, now: Timestamp) {
        let mut unpaid = Unpaid::default();
        each_cost(entry, clients, now, |cost| {
            self.add(cost);
            if cost.is_unpaid() {
                unpaid.all.add(cost.usage());
                unpaid.asked += if cost.is_asked { cost.count.all } else { 0 };
            }
        });
        if unpaid.all.bytes > 0 {
            let spec = entry.memory.list().spec().clone();
            self.unpaid.insert(spec, unpaid);
        }
    }

    /// Removes names that a wildcard found, and their cost. `goes` decides for each, in the order
    /// of [`Leaving`](crate::state). Returns the number of removed addresses.
    pub(super) fn drop_found(
        &mut self,
        names: &mut NameTable,
        spec: &DnsName,
        now: Timestamp,
        mut goes: impl FnMut(&Cost<'_>, &Self) -> bool,
    ) -> usize {
        let Some(entry) = names.entries.get_mut(spec) else {
            return 0;
        };
        let (memory, crowd, kept) = entry.charged_parts(&names.shared.clients, now);
        let gone = memory.drop_found(now, crowd, &kept, |askers, count| {
            let payers = crowd.namespaces(askers);
            let cost = Cost::found(&payers, kept.own, askers, count);
            let goes = goes(&cost, self);
            if goes {
                self.remove(&cost);
                if cost.is_unpaid()
                    && let Some(unpaid) = self.unpaid.get_mut(spec)
                {
                    unpaid.all.subtract(cost.usage());
                }
            }
            goes
        });
        let count = gone.len();
        names.forget_found(spec, gone.into_iter().map(|(name, _)| name), now);
        count
    }

    /// The opposite of [`Charged::add_entry`].
    pub(super) fn remove_entry(&mut self, entry: &Entry, clients: &Clients, now: Timestamp) {
        each_cost(entry, clients, now, |cost| self.remove(cost));
    }
}

/// The usage of names under a wildcard that no namespace pays for.
#[derive(Clone, Debug, Default)]
pub(super) struct Unpaid {
    pub(super) all: Usage,
    /// Addresses of names with a known client, as of the last check. A status does not record
    /// clients.
    pub(super) asked: usize,
}

/// The cost of a name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost<'a> {
    /// The namespaces that pay for it.
    pub(super) payers: &'a [Namespace],
    /// The limits of payers with shorter retention: they pay for the addresses that would remain
    /// under it.
    pub(super) own: &'a [OwnLimits],
    pub(super) count: Count,
    /// 1 for a name in rules.
    pub(super) names: usize,
    /// Whether clients are known that queried it.
    pub(super) is_asked: bool,
}

impl<'a> Cost<'a> {
    /// Of a name in rules.
    pub(super) fn in_rules(payers: &'a [Namespace], own: &'a [OwnLimits], count: Count) -> Self {
        Self {
            payers,
            own,
            count,
            names: 1,
            is_asked: false,
        }
    }

    /// Of a name that a wildcard found, with the clients that queried it.
    pub(super) fn found(
        payers: &'a [Namespace],
        own: &'a [OwnLimits],
        askers: &[IpAddr],
        count: Count,
    ) -> Self {
        Self {
            names: 0,
            is_asked: !askers.is_empty(),
            ..Self::in_rules(payers, own, count)
        }
    }

    /// The addresses charged to one of the payers.
    pub(super) fn of(&self, namespace: Namespace) -> usize {
        self.count.of(namespace, self.own)
    }

    fn bytes_of(&self, namespace: Namespace) -> usize {
        self.count.bytes_of(namespace, self.own)
    }

    /// Its usage of the limits of all.
    pub(super) fn usage(&self) -> Usage {
        Usage {
            addresses: self.count.all,
            bytes: self.count.bytes,
        }
    }

    /// Whether a wildcard found it, and no namespace pays for it.
    pub(super) fn is_unpaid(&self) -> bool {
        self.names == 0 && self.payers.is_empty()
    }
}

/// Calls `tell` with the cost of a name in use and of the names that it found as a wildcard.
pub(super) fn each_cost(
    entry: &Entry,
    clients: &Clients,
    now: Timestamp,
    mut cost: impl FnMut(&Cost<'_>),
) {
    let (memory, kept) = (&entry.memory, entry.kept(now));
    let own = kept.own(memory.list());
    cost(&Cost::in_rules(&entry.in_use.with_rule, kept.own, own));
    if memory.list().spec().is_wildcard() {
        let crowd = entry.crowd(clients);
        for (askers, count) in kept.found(memory.list()) {
            let payers = crowd.namespaces(askers);
            cost(&Cost::found(&payers, kept.own, askers, count));
        }
    }
}
