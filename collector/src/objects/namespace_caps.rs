//! The caps of a namespace: the names and the wildcards in its rules, and the addresses of its regular names. So no tenant
//! takes the room of the others.
//!
//! Names beyond the cap are left out: those without a status before those with one, the last ones in order of name first.
//! None is left out that another namespace within its caps has.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use metrics::{counter, gauge};
use proto::api::DnsName;
use runtime::clock::Timestamp;
use serde::Serialize;

use super::{entry::Entry, names::NameTable};
use crate::{namespaces::Namespace, notices::Notices, observation::Observation};

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
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceAtCap {
    pub namespace: Arc<str>,
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

impl NamespaceUse {
    pub(crate) fn new(caps: NamespaceCaps) -> Self {
        Self {
            caps,
            ..Self::default()
        }
    }

    /// Sets the names in the rules of a namespace.
    pub(super) fn set_names(&mut self, namespace: Namespace, names: Option<Arc<[DnsName]>>) {
        match names {
            Some(names) => self.names.insert(namespace, names),
            None => self.names.remove(&namespace),
        };
        self.changed.insert(namespace);
    }

    /// Forgets the names of all namespaces.
    pub(super) fn clear_names(&mut self) {
        self.changed.extend(self.names.keys());
        self.names.clear();
    }

    /// Leaves names out, or takes them in again, after a change of the rules. The objects must be
    /// known: names with a status stay.
    pub(crate) fn reconcile(&mut self, names: &mut NameTable, now: Timestamp) {
        for namespace in std::mem::take(&mut self.changed) {
            let beyond = self.names.get(&namespace).map(|of| self.beyond(of, names));
            let beyond = beyond.unwrap_or_default();
            if beyond.is_empty() {
                self.beyond.remove(&namespace);
            } else if self.beyond.get(&namespace) != Some(&beyond) {
                self.beyond.insert(namespace, beyond);
                names.shared.notices.notify_namespace(namespace);
            }
        }
        let candidates = self.beyond.values().flatten();
        let left_out = candidates.filter(|name| {
            let entry = names.entries.get(*name);
            entry.is_some_and(|entry| self.is_beyond_everywhere(name, entry))
        });
        let left_out: BTreeSet<DnsName> = left_out.cloned().collect();
        let before = std::mem::replace(&mut self.left_out, left_out);
        for name in before.symmetric_difference(&self.left_out) {
            names.set_left_out(name, self.left_out.contains(name), now);
        }
        gauge!("egress_collector_names_left_out").set(self.left_out.len() as f64);
    }

    /// Whether there is something to [reconcile](Self::reconcile).
    pub(crate) fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The names of a namespace beyond its caps.
    fn beyond(&self, of_namespace: &[DnsName], names: &NameTable) -> HashSet<DnsName> {
        let (wildcards, regular): (Vec<_>, Vec<_>) =
            of_namespace.iter().partition(|name| name.is_wildcard());
        let mut beyond = HashSet::new();
        for (mut of_kind, most) in [(wildcards, self.caps.wildcards), (regular, self.caps.names)] {
            if of_kind.len() > most {
                let has_status =
                    |name: &DnsName| names.entries.get(name).is_some_and(|it| it.has_status());
                of_kind.sort_by_cached_key(|name| (!has_status(name), (*name).clone()));
                beyond.extend(of_kind.into_iter().skip(most).cloned());
            }
        }
        beyond
    }

    fn is_beyond_everywhere(&self, name: &DnsName, entry: &Entry) -> bool {
        let mut with_rule = entry.in_use.with_rule.iter();
        !entry.in_use.with_rule.is_empty()
            && with_rule.all(|it| self.beyond.get(it).is_some_and(|of| of.contains(name)))
    }

    /// The observation without addresses that are new for a regular name, while each namespace with
    /// a rule for it has all the addresses that it may have. `None` if all stay.
    pub(crate) fn admit(
        &mut self,
        entry: &Entry,
        observation: &Observation,
        notices: &Notices,
    ) -> Option<Observation> {
        let list = entry.memory.list();
        let with_rule = &entry.in_use.with_rule;
        let is_full = |it: &Namespace| self.is_full(*it);
        if list.spec().is_wildcard() || with_rule.is_empty() || !with_rule.iter().all(is_full) {
            return None;
        }
        let mut left = observation.clone();
        left.addresses
            .retain(|(ip, _)| list.has(&observation.name, ip));
        let refused = observation.addresses.len() - left.addresses.len();
        if refused == 0 {
            return None;
        }
        counter!("egress_collector_addresses_left_out_total").increment(refused as u64);
        for namespace in with_rule.iter() {
            let reported = self.reported_at.get(namespace);
            if reported.is_none_or(|at| *at + REPORT_EVERY <= observation.at) {
                self.reported_at.insert(*namespace, observation.at);
                notices.notify_namespace(*namespace);
            }
        }
        Some(left)
    }

    /// Counts new addresses of a name, until all are counted again. `before` is what
    /// [`counted_addresses`] was.
    pub(crate) fn add(&mut self, entry: &Entry, before: usize) {
        let added = counted_addresses(entry).saturating_sub(before);
        if added > 0 {
            for namespace in entry.in_use.with_rule.iter() {
                *self.addresses.entry(*namespace).or_default() += added;
            }
        }
    }

    /// Counts the addresses again, at most once a second.
    pub(crate) fn count(&mut self, names: &NameTable, now: Timestamp) {
        if self.counted_at + COUNT_EVERY > now && self.counted_at <= now {
            return;
        }
        self.counted_at = now;
        self.addresses.clear();
        for entry in names.entries.values() {
            self.add(entry, 0);
        }
        self.reported_at
            .retain(|_, at| *at + REPORT_EVERY > now && *at <= now);
        gauge!("egress_collector_namespaces_at_cap").set(self.at_cap_ids().count() as f64);
    }

    fn addresses_of(&self, namespace: Namespace) -> usize {
        self.addresses.get(&namespace).copied().unwrap_or(0)
    }

    fn is_full(&self, namespace: Namespace) -> bool {
        self.addresses_of(namespace) >= self.caps.addresses
    }

    fn at_cap_ids(&self) -> impl Iterator<Item = Namespace> {
        let full = self.addresses.keys();
        let full = full.filter(|it| self.is_full(**it) && !self.beyond.contains_key(it));
        self.beyond.keys().chain(full).copied()
    }

    /// The namespaces at a cap.
    pub(super) fn at_cap(&self, names: &NameTable) -> Vec<NamespaceAtCap> {
        let all = self.at_cap_ids();
        all.map(|it| self.of_namespace(it, names)).collect()
    }

    /// The namespaces with a rule for the name that are at a cap, at most eight.
    pub(super) fn at_cap_of(&self, entry: &Entry, names: &NameTable) -> Vec<NamespaceAtCap> {
        let is_at_cap = |it: &&Namespace| self.beyond.contains_key(it) || self.is_full(**it);
        let at_cap = entry.in_use.with_rule.iter().filter(is_at_cap);
        let at_cap = at_cap.take(8);
        at_cap.map(|it| self.of_namespace(*it, names)).collect()
    }

    fn of_namespace(&self, namespace: Namespace, names: &NameTable) -> NamespaceAtCap {
        NamespaceAtCap {
            namespace: names.shared.namespaces.name(namespace),
            names_left_out: self.beyond.get(&namespace).map_or(0, HashSet::len),
            addresses: self.addresses_of(namespace),
        }
    }
}

/// The addresses that count towards a cap: those of a regular name.
pub(crate) fn counted_addresses(entry: &Entry) -> usize {
    let list = entry.memory.list();
    match list.spec().is_wildcard() {
        true => 0,
        false => list.addresses(),
    }
}
