//! All names in use and of objects, and when each is checked again.

mod learning;
mod lookups;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use proto::api::DnsName;
use runtime::clock::Timestamp;

pub(crate) use self::learning::guarded;
use super::{
    Shared, dirty::DirtyNames, entry::Entry, eviction_log::EvictionLog, name_use::NameUse,
};
use crate::{
    guards::Guards,
    lookup::LookupScheduler,
    observe::{answer_cache::Answer, names::NameIndex},
    state::Limits,
};

/// The entries by name.
#[derive(Debug)]
pub(crate) struct NameTable {
    /// The limits of names without a policy of their own.
    pub(crate) limits: Arc<Limits>,
    /// The use of a name without rules, with these limits.
    unused: Arc<NameUse>,
    /// The guards that addresses must pass.
    pub(crate) guards: Guards,
    pub(crate) shared: Shared,
    pub(crate) entries: HashMap<DnsName, Box<Entry>>,
    /// Names whose objects are to be checked.
    pub(crate) dirty: DirtyNames,
    pub(crate) wakes: Wakes,
    /// Names that became wanted, which do not have the addresses that pods use already.
    pub(crate) newly_wanted: BTreeSet<DnsName>,
    /// The look-ups of the names, including those that wildcards found.
    pub(crate) lookups: LookupScheduler,
    pub(crate) evictions: EvictionLog,
    pub(crate) index: WantedIndex,
}

/// The times at which names become dirty without an event.
#[derive(Debug, Default)]
pub(crate) struct Wakes(pub(crate) BTreeSet<(Timestamp, DnsName)>);

impl Wakes {
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Takes a name whose time has come.
    fn pop(&mut self, now: Timestamp) -> Option<DnsName> {
        self.next().filter(|at| *at <= now)?;
        self.0.pop_first().map(|(_, name)| name)
    }

    fn replace(&mut self, name: &DnsName, old: Option<Timestamp>, new: Option<Timestamp>) {
        if let Some(old) = old {
            self.0.remove(&(old, name.clone()));
        }
        self.0.extend(new.map(|at| (at, name.clone())));
    }
}

/// The names in use and those of all objects, for the readers. So an answer counts even before the
/// object exists.
#[derive(Debug, Default)]
pub(crate) struct WantedIndex {
    names: NameIndex,
    is_changed: bool,
}

impl WantedIndex {
    fn insert(&mut self, name: &DnsName) {
        self.names.insert(name);
        self.is_changed = true;
    }

    fn remove(&mut self, name: &DnsName) {
        self.names.remove(name);
        self.is_changed = true;
    }

    /// The index, if it changed since the last call.
    pub(crate) fn take(&mut self) -> Option<NameIndex> {
        std::mem::take(&mut self.is_changed).then(|| self.names.clone())
    }
}

impl NameTable {
    pub(crate) fn new(limits: Limits, guards: Guards, shared: Shared) -> Self {
        let limits = Arc::new(limits);
        Self {
            unused: Arc::new(NameUse::none(Arc::clone(&limits))),
            limits,
            guards,
            shared,
            entries: HashMap::new(),
            dirty: DirtyNames::default(),
            wakes: Wakes::default(),
            newly_wanted: BTreeSet::new(),
            lookups: LookupScheduler::default(),
            evictions: EvictionLog::default(),
            index: WantedIndex::default(),
        }
    }

    /// The entry of the name, created without rules if it is new.
    pub(super) fn entry_or_new(&mut self, name: &DnsName, now: Timestamp) -> &mut Entry {
        let entry = self.entries.entry(name.clone());
        entry.or_insert_with(|| {
            self.index.insert(name);
            Box::new(Entry::new(name.clone(), &self.unused, now))
        })
    }

    /// Removes a name without rule and object. Its live addresses go into the cache of answers, for
    /// a rule that comes back.
    pub(super) fn remove(&mut self, name: &DnsName, now: Timestamp) {
        let Some(entry) = self.entries.remove(name) else {
            return;
        };
        self.index.remove(name);
        for (name, family, addresses, client) in entry.memory.list().alive(now) {
            self.shared.remembered.keep(&Answer {
                name: &name.into(),
                family,
                addresses: &addresses,
                at: now,
                client,
            });
        }
        for name in entry.memory.list().names().chain([name]) {
            self.reschedule(name);
        }
    }

    /// Leaves the name out, since its namespaces have too many, or takes it in again.
    pub(super) fn set_left_out(&mut self, name: &DnsName, is_left_out: bool, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        if entry.left_out == is_left_out {
            return;
        }
        entry.left_out = is_left_out;
        let mut found = BTreeSet::from([name.clone()]);
        match is_left_out {
            true => found.extend(
                entry
                    .memory
                    .leave_out(now)
                    .into_iter()
                    .map(|(name, _)| name),
            ),
            false => entry.memory.take_in(),
        }
        for name in &found {
            self.reschedule(name);
        }
        self.dirty.insert(name.clone());
    }

    /// Marks every name as dirty: each object may need a write.
    pub(crate) fn look_at_all(&mut self) {
        self.dirty.extend(self.entries.keys().cloned());
    }

    /// Sets when the name is checked without an event: at the next removal, if this collector
    /// `removes`, and at `again`.
    pub(super) fn wake(
        &mut self,
        name: &DnsName,
        again: Option<Timestamp>,
        removes: bool,
        now: Timestamp,
    ) {
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        let removal = match removes {
            true => entry.memory.list().next_removal(&entry.in_use.limits),
            false => None,
        };
        // Never in the past, or the checks would never end.
        let wake = removal
            .into_iter()
            .chain(again)
            .min()
            .map(|at| at.max(now + Duration::from_millis(1)));
        if wake != entry.writes.wake {
            let old = std::mem::replace(&mut entry.writes.wake, wake);
            self.wakes.replace(name, old, wake);
        }
    }

    /// Answers may have been lost until now.
    pub(crate) fn hold(&mut self, now: Timestamp) {
        for entry in self.entries.values_mut() {
            entry.memory.hold(now, &entry.in_use.limits);
        }
    }

    /// Clients of a DNS server that is not received may use any name.
    pub(crate) fn not_idle(&mut self, now: Timestamp) {
        for entry in self.entries.values_mut() {
            entry.memory.not_idle(now);
        }
        let names = self
            .entries
            .values()
            .flat_map(|it| it.memory.list().names());
        for name in names.cloned().collect::<Vec<_>>() {
            self.reschedule(&name);
        }
    }

    /// Nothing could be resolved for a while, or the clock was set: earlier look-ups do not count,
    /// and delayed work is done now.
    pub(crate) fn gap(&mut self, now: Timestamp) {
        for entry in self.entries.values_mut() {
            entry.gap(now);
        }
        self.lookups.reset(now);
        let entries = self.entries.iter();
        let names = entries.flat_map(|(spec, entry)| entry.memory.list().names().chain([spec]));
        let names: BTreeSet<DnsName> = names.cloned().collect();
        for name in names {
            self.reschedule(&name);
        }
        self.look_at_all();
    }

    /// This collector leads from now on, and continues from the statuses.
    pub(crate) fn take_over(&mut self, now: Timestamp) {
        for entry in self.entries.values_mut() {
            if entry.left_out {
                continue;
            }
            let Entry {
                memory,
                objects,
                in_use,
                ..
            } = &mut **entry;
            for object in objects.iter() {
                // Every name is marked dirty after a change of the lead.
                memory.take_over(&object.status, now, &in_use.limits, &self.guards);
            }
        }
    }
}
