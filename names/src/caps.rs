//! The caps of a namespace: the names and the wildcards in its rules, and the addresses of its regular names. So no tenant
//! takes the room of the others.
//!
//! Names beyond the cap are left out: those without an address before those with one, the last ones in order of name
//! first. None is left out that another namespace within its caps has.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use proto::{api::DnsName, timestamp::Timestamp};

use crate::{Entry, Namespace, Observation};

/// How often the addresses are counted.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// The least interval of reports to a namespace that is at its cap of addresses.
const REPORT_EVERY: Duration = Duration::from_secs(600);

/// The most that each namespace may have.
#[derive(Clone, Copy, Debug)]
pub struct NamespaceCaps {
    /// Regular names in rules.
    pub names: usize,
    /// Wildcards in rules.
    pub wildcards: usize,
    /// Addresses of regular names in rules.
    pub addresses: usize,
}

impl Default for NamespaceCaps {
    fn default() -> Self {
        Self {
            names: 10_000,
            wildcards: 100,
            addresses: 20_000,
        }
    }
}

/// A namespace at a cap, and what it has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NamespaceAtCap {
    /// The namespace.
    pub namespace: Namespace,
    /// The names in its rules that are left out.
    pub names_left_out: usize,
    /// The addresses of the regular names in its rules.
    pub addresses: usize,
}

/// The names and addresses of the namespaces.
#[derive(Debug, Default)]
pub(crate) struct NamespaceUse {
    caps: NamespaceCaps,
    /// The names in the rules of each namespace, without duplicates.
    names: BTreeMap<Namespace, Arc<[DnsName]>>,
    /// Namespaces whose names changed.
    changed: BTreeSet<Namespace>,
    /// The names beyond the caps of each namespace that has any.
    beyond: BTreeMap<Namespace, HashSet<DnsName>>,
    /// The names that are left out.
    left_out: BTreeSet<DnsName>,
    addresses: HashMap<Namespace, usize>,
    counted_at: Timestamp,
    reported_at: HashMap<Namespace, Timestamp>,
}

/// The names that are left out from now on, those that are not any more, and the namespaces that reached a cap.
#[derive(Debug, Default)]
pub(crate) struct CapChanges {
    pub(crate) left_out: Vec<DnsName>,
    pub(crate) admitted: Vec<DnsName>,
    pub(crate) at_cap: Vec<Namespace>,
}

type Entries = foldhash::HashMap<DnsName, Box<Entry>>;

impl NamespaceUse {
    pub(crate) fn new(caps: NamespaceCaps) -> Self {
        Self {
            caps,
            ..Self::default()
        }
    }

    /// Sets the names in the rules of a namespace.
    pub(crate) fn set_names(&mut self, namespace: Namespace, names: Option<Arc<[DnsName]>>) {
        match names {
            Some(names) => self.names.insert(namespace, names),
            None => self.names.remove(&namespace),
        };
        self.changed.insert(namespace);
    }

    /// Which names are left out after a change of the rules. The stored statuses must be known: names with addresses
    /// stay.
    pub(crate) fn reconcile(&mut self, entries: &Entries) -> CapChanges {
        let mut changes = CapChanges::default();
        for namespace in std::mem::take(&mut self.changed) {
            let names = self.names.get(&namespace);
            let beyond = names.map(|names| self.beyond(names, entries));
            let beyond = beyond.unwrap_or_default();
            if beyond.is_empty() {
                self.beyond.remove(&namespace);
            } else if self.beyond.get(&namespace) != Some(&beyond) {
                self.beyond.insert(namespace, beyond);
                changes.at_cap.push(namespace);
            }
        }
        let candidates = self.beyond.values().flatten();
        let left_out = candidates.filter(|name| {
            let entry = entries.get(*name);
            entry.is_some_and(|entry| self.is_beyond_everywhere(name, entry))
        });
        let left_out: BTreeSet<DnsName> = left_out.cloned().collect();
        let before = std::mem::replace(&mut self.left_out, left_out);
        changes
            .admitted
            .extend(before.difference(&self.left_out).cloned());
        changes
            .left_out
            .extend(self.left_out.difference(&before).cloned());
        changes
    }

    /// Whether there is something to [reconcile](Self::reconcile).
    pub(crate) fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The number of names that are left out.
    pub(crate) fn names_left_out(&self) -> usize {
        self.left_out.len()
    }

    /// The names of a namespace beyond its caps.
    fn beyond(&self, names: &[DnsName], entries: &Entries) -> HashSet<DnsName> {
        let (wildcards, regular): (Vec<_>, Vec<_>) =
            names.iter().partition(|name| name.is_wildcard());
        let mut beyond = HashSet::new();
        for (mut of_kind, most) in [(wildcards, self.caps.wildcards), (regular, self.caps.names)] {
            if of_kind.len() > most {
                let has_addresses = |name: &DnsName| {
                    entries
                        .get(name)
                        .is_some_and(|entry| !entry.list().is_empty())
                };
                of_kind.sort_by_cached_key(|name| (!has_addresses(name), (*name).clone()));
                beyond.extend(of_kind.into_iter().skip(most).cloned());
            }
        }
        beyond
    }

    fn is_beyond_everywhere(&self, name: &DnsName, entry: &Entry) -> bool {
        let namespaces = &entry.rule_use.namespaces;
        let is_beyond = |namespace| {
            self.beyond
                .get(namespace)
                .is_some_and(|names| names.contains(name))
        };
        !namespaces.is_empty() && namespaces.iter().all(is_beyond)
    }

    /// The answer without addresses that are new for a regular name, while each namespace with a rule for it has all the
    /// addresses that it may have, and their number. `None` if all stay.
    pub(crate) fn admit(
        &self,
        entry: &Entry,
        answer: &Observation,
    ) -> Option<(Observation, usize)> {
        let list = entry.list();
        let namespaces = &entry.rule_use.namespaces;
        let is_full = |namespace: &Namespace| self.is_full(*namespace);
        if list.rule_name().is_wildcard()
            || namespaces.is_empty()
            || !namespaces.iter().all(is_full)
        {
            return None;
        }
        let mut left = answer.clone();
        left.addresses.retain(|(ip, _)| list.has(&answer.name, ip));
        let refused = answer.addresses.len() - left.addresses.len();
        (refused > 0).then_some((left, refused))
    }

    /// The namespaces of the entry whose last report is long ago. They count as reported.
    pub(crate) fn take_unreported(&mut self, entry: &Entry, now: Timestamp) -> Vec<Namespace> {
        let namespaces = entry.rule_use.namespaces.iter().copied();
        let due: Vec<Namespace> = namespaces
            .filter(|namespace| !self.reported_at.contains_key(namespace))
            .collect();
        self.reported_at.extend(due.iter().map(|it| (*it, now)));
        due
    }

    /// Counts new addresses of a name, until all are counted again. `before`: what [`Entry::counted_addresses`] was.
    pub(crate) fn add(&mut self, entry: &Entry, before: usize) {
        let added = entry.counted_addresses().saturating_sub(before);
        if added > 0 {
            for namespace in entry.rule_use.namespaces.iter() {
                *self.addresses.entry(*namespace).or_default() += added;
            }
        }
    }

    /// Counts the addresses again, at most once a second.
    pub(crate) fn count(&mut self, entries: &Entries, now: Timestamp) {
        if self.counted_at + COUNT_EVERY > now && self.counted_at <= now {
            return;
        }
        self.counted_at = now;
        self.addresses.clear();
        for entry in entries.values() {
            self.add(entry, 0);
        }
        self.reported_at
            .retain(|_, at| *at + REPORT_EVERY > now && *at <= now);
    }

    fn addresses_of(&self, namespace: Namespace) -> usize {
        self.addresses.get(&namespace).copied().unwrap_or(0)
    }

    fn is_full(&self, namespace: Namespace) -> bool {
        self.addresses_of(namespace) >= self.caps.addresses
    }

    /// The namespaces at a cap.
    pub(crate) fn at_cap(&self) -> impl Iterator<Item = NamespaceAtCap> {
        let full = self.addresses.keys();
        let full = full.filter(|it| self.is_full(**it) && !self.beyond.contains_key(it));
        self.beyond
            .keys()
            .chain(full)
            .map(|namespace| self.of_namespace(*namespace))
    }

    /// The namespaces with a rule for the name that are at a cap.
    pub(crate) fn at_cap_of(&self, entry: &Entry) -> impl Iterator<Item = NamespaceAtCap> {
        let namespaces = entry.rule_use.namespaces.iter();
        let at_cap = namespaces.filter(|it| self.beyond.contains_key(it) || self.is_full(**it));
        at_cap.map(|namespace| self.of_namespace(*namespace))
    }

    fn of_namespace(&self, namespace: Namespace) -> NamespaceAtCap {
        NamespaceAtCap {
            namespace,
            names_left_out: self.beyond.get(&namespace).map_or(0, HashSet::len),
            addresses: self.addresses_of(namespace),
        }
    }
}
