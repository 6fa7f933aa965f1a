//! The names that EgressFirewalls use, their retention, and when the end of a name's last rule is
//! accepted.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use proto::api::DnsName;
use runtime::clock::Timestamp;
use tracing::info;

use super::{absence::AbsentNames, names::NameTable, namespace_limits::NamespaceShares};
use crate::{
    rules::{RetentionPolicy, RuleChange, Version, Wanted},
    state::{Limits, OwnLimits},
};

/// The most held names in a log line.
const MAX_NAMED: usize = 3;

#[derive(Debug, Default)]
pub(crate) struct NamesInUse {
    /// Whether every name in use is known, so that any other name is unused.
    pub(crate) is_in_sync: bool,
    /// Some rules cannot be read, so their names are unknown.
    unknown_rules: bool,
    /// The version of the wanted names that was applied last.
    seen: Version,
    pub(super) absences: AbsentNames,
}

impl NamesInUse {
    /// Applies changes of the wanted names.
    pub(crate) fn want(
        &mut self,
        wanted: &Wanted,
        names: &mut NameTable,
        shares: &mut NamespaceShares,
        now: Timestamp,
    ) {
        if wanted.in_sync != self.is_in_sync {
            self.is_in_sync = wanted.in_sync;
            names.look_at_all();
        }
        self.unknown_rules = wanted.unknown_rules;
        // A few policies are shared by many names.
        let mut shared: HashMap<RetentionPolicy, Arc<Limits>> = HashMap::new();
        let seen = std::mem::replace(&mut self.seen, wanted.changes.version());
        match wanted.changes.since(seen) {
            Some(changes) => {
                for change in changes {
                    match change {
                        RuleChange::Name(name) => {
                            self.want_name(name, wanted, names, &mut shared, now);
                        }
                        RuleChange::Order(namespace) => {
                            let order = wanted.order.get(namespace).cloned();
                            shares.set_order(*namespace, order);
                        }
                    }
                }
            }
            None => {
                shares.order.clone_from(&wanted.order);
                let known = names.entries.iter().filter(|(_, entry)| entry.wanted);
                let known = known.map(|(name, _)| name).chain(self.absences.names());
                let mut all: BTreeSet<DnsName> = known.cloned().collect();
                all.extend(wanted.names.keys().cloned());
                for name in all {
                    self.want_name(&name, wanted, names, &mut shared, now);
                }
            }
        }
    }

    /// Applies the state of one wanted name.
    fn want_name(
        &mut self,
        name: &DnsName,
        wanted: &Wanted,
        names: &mut NameTable,
        shared: &mut HashMap<RetentionPolicy, Arc<Limits>>,
        now: Timestamp,
    ) {
        let absent = wanted.absent.get(name).copied();
        self.absences.update(name, absent, now);
        let terms = wanted.names.get(name);
        let Some(terms) = terms.filter(|_| !self.absences.is_believed(name)) else {
            if names.entries.get(name).is_some_and(|entry| entry.wanted) {
                names.release(name);
            }
            return;
        };
        if absent.is_none() {
            self.absences.remove(name);
        }
        let default = Arc::clone(&names.limits);
        let mut limits_on = |terms: &RetentionPolicy| {
            let limits = shared.entry(*terms);
            Arc::clone(limits.or_insert_with(|| Arc::new(terms.limits(&default))))
        };
        let limits = limits_on(terms);
        let entry = names.entry_or_new(name, &limits, now);
        (entry.allowed, entry.denied) = (terms.allowed, terms.denied);
        if let Some(namespaces) = wanted.namespaces.get(name) {
            if entry.with_rule != *namespaces {
                entry.with_rule.clone_from(namespaces);
            }
            let own = wanted.own_retention.get(name).into_iter();
            let own = own.flat_map(|it| it.iter()).map(|it| OwnLimits {
                limits: limits_on(&it.policy),
                namespaces: it.namespaces.clone(),
            });
            entry.own_limits = own.collect();
        }
        if entry.wanted && entry.limits == limits {
            return;
        }
        (entry.wanted, entry.released) = (true, false);
        entry.limits = limits;
        let fresh = std::mem::take(&mut entry.fresh);
        names.dirty.insert(name.clone());
        names.reschedule(name);
        if fresh {
            names.newly_wanted.insert(name);
        }
    }

    /// The time of the next check of absent names.
    pub(crate) fn next_look(&self) -> Option<Timestamp> {
        self.absences.next()
    }

    /// Starts the delays of absent names again: the process slept, or the clock was set.
    pub(crate) fn gap(&mut self, now: Timestamp) {
        self.absences.restart(now);
    }

    /// An object of the name exists. If no rule has used the name since the object was first seen,
    /// the name is absent.
    pub(super) fn note_unused(&mut self, name: &DnsName, names: &NameTable, now: Timestamp) {
        let Some(entry) = names.entries.get(name) else {
            return;
        };
        if !entry.wanted && !entry.released && entry.objects.iter().any(|object| object.is_ours) {
            self.absences.note_unused(name, now);
        }
    }

    /// Releases the names whose absence is accepted now.
    pub(crate) fn look_at_absences(
        &mut self,
        names: &mut NameTable,
        are_objects_in_sync: bool,
        now: Timestamp,
    ) {
        if self.next_look().is_none_or(|due| due > now) {
            return;
        }
        if !self.is_in_sync || !are_objects_in_sync {
            self.absences.put_off(now);
            return;
        }
        let wanted = names.entries.values().filter(|entry| entry.wanted);
        let believed = self.absences.look(wanted.count(), self.unknown_rules, now);
        if believed.is_empty() {
            return;
        }
        info!(
            names = believed.len(),
            "no EgressFirewall uses these names any more: deleting their objects"
        );
        for name in believed {
            names.release(&name);
        }
    }

    /// The number of held names, and some of them.
    pub(crate) fn held(&self, now: Timestamp) -> (usize, Vec<DnsName>) {
        let some = self.absences.held(now).take(MAX_NAMED).cloned().collect();
        (self.absences.held(now).count(), some)
    }

    /// Whether the name is held although no EgressFirewall has it.
    pub(super) fn is_held(&self, name: &DnsName) -> bool {
        self.absences.has(name)
    }
}
