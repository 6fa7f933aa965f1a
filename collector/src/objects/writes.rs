//! Decides which objects are written now: new addresses at once, changed times later.

use std::collections::VecDeque;

use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::{
    budget::WriteCost,
    entry::{Entry, UNUSED_FOR, Unwritten},
    in_use::NamesInUse,
    leadership::Leadership,
    names::NameTable,
    object_policy::ManageObjects,
    publish::Write,
    stored_object::new_object,
    stored_objects::StoredObjects,
};
use crate::{clients::Namespace, rules::SourceSet, state::StatusUpdate};

/// The next status of an object that costs more is computed only when it may be written.
const DEAR: usize = 50_000;

/// The bytes that creating and deleting an object takes in etcd's history, without its addresses.
const CREATION: usize = 3_000;

/// Computes the writes to start now.
pub(crate) struct WritePlan<'a> {
    pub(super) objects: &'a mut StoredObjects,
    pub(super) names: &'a mut NameTable,
    in_use: &'a NamesInUse,
    lead: &'a Leadership,
    pub(super) now: Timestamp,
    pub(super) writes: Vec<Write>,
    refreshes: Vec<Refresh>,
}

/// A write of changed times that may go now.
struct Refresh {
    spec: DnsName,
    bytes: usize,
    payers: Vec<Namespace>,
    write: Write,
}

impl<'a> WritePlan<'a> {
    pub(crate) fn new(
        objects: &'a mut StoredObjects,
        names: &'a mut NameTable,
        in_use: &'a NamesInUse,
        lead: &'a Leadership,
        now: Timestamp,
    ) -> Self {
        Self {
            objects,
            names,
            in_use,
            lead,
            now,
            writes: Vec::new(),
            refreshes: Vec::new(),
        }
    }

    /// The writes to start now: at most one for each object, and addresses before new objects.
    pub(crate) fn make(mut self) -> Vec<Write> {
        if self.objects.paused_until > Some(self.now) {
            return self.writes;
        }
        self.objects.paused_until = None;
        let most = self.objects.in_flight_limit.size();
        while self.objects.in_flight.len() < most
            && let Some(spec) = self.next_dirty()
        {
            let before = self.writes.len();
            let again = self.of_name(&spec);
            // Marked as in flight at once: an eviction makes the name dirty again, and must not
            // start a second write.
            let begun = self.writes.iter().skip(before).map(Write::key);
            let begun = begun.map(|key| (key, VecDeque::new()));
            self.objects.in_flight.extend(begun);
            self.wake(&spec, again);
        }
        self.add_refreshes();
        self.writes
    }

    fn next_dirty(&mut self) -> Option<DnsName> {
        let NameTable { dirty, entries, .. } = &mut *self.names;
        dirty.pop(|name| entries.get(name).map(|it| &**it))
    }

    fn wake(&mut self, spec: &DnsName, again: Option<Timestamp>) {
        self.names.wake(spec, again, self.lead.leads(), self.now);
    }

    /// Adds writes of changed times, as far as the budget allows.
    fn add_refreshes(&mut self) {
        let mut refreshes = std::mem::take(&mut self.refreshes);
        // In turns of namespaces, so that thousands of names of one do not delay another's.
        refreshes.sort_by_cached_key(|it| {
            let (_, last) = self.objects.budget.last_times(&it.payers);
            (last, it.spec.clone())
        });
        let mut waiting = 0;
        for refresh in refreshes {
            let Refresh {
                spec,
                bytes,
                payers,
                write,
                ..
            } = refresh;
            // An eviction made the name dirty again, and its write is in flight already.
            if self.objects.in_flight.contains_key(&write.key()) {
                continue;
            }
            let cost = WriteCost {
                payers: &payers,
                bytes,
                since: self.now,
            };
            match self.objects.budget.take_times(&cost, waiting, self.now) {
                Ok(()) => {
                    self.objects.in_flight.insert(write.key(), VecDeque::new());
                    self.writes.push(write);
                }
                Err(later) => {
                    waiting += 1;
                    let entry = self.names.entries.get(&spec);
                    let wake = entry.and_then(|entry| entry.writes.wake);
                    self.wake(&spec, wake.into_iter().chain([later]).min());
                }
            }
        }
    }

    /// Returns the time of the next check, if no update comes before.
    fn of_name(&mut self, spec: &DnsName) -> Option<Timestamp> {
        let now = self.now;
        let entry = self.names.entries.get_mut(spec)?;
        if !entry.is_wanted() && entry.objects.is_empty() && entry.writes.creating.is_empty() {
            let until = entry.kept_until();
            if until > now {
                return Some(until);
            }
            self.names.remove(spec, now);
            return None;
        }
        if entry.writes.retry_at > now {
            return Some(entry.writes.retry_at);
        }
        // A standby writes nothing. A new leader checks every name.
        if !self.lead.leads() {
            return None;
        }
        let memory = &entry.memory;
        let is_full = memory.size().is_full(memory.list(), &entry.in_use.limits);
        let mut objects = entry.objects.iter();
        if self.objects.is_ending || objects.any(|it| it.may_be_written(is_full) <= now) {
            self.names.enforce(spec, now);
        }
        let before = self.writes.len();
        let created = self.creation_of(spec);
        let (again, waiting) = self.statuses_of(spec);
        let entry = self.names.entries.get_mut(spec)?;
        if self.writes.len() == before && !waiting {
            // The store has all updates already.
            (entry.writes.unwritten, entry.writes.turn) = (None, Timestamp::default());
        }
        created.into_iter().chain(again).min()
    }

    /// Creates the objects that a name lacks. Returns when that is allowed, if not now.
    fn creation_of(&mut self, spec: &DnsName) -> Option<Timestamp> {
        let sources = self.objects.policy.sources.len();
        let later = (0..sources).filter_map(|index| self.creation_for(spec, index));
        later.min()
    }

    /// Creates the object of a name for one source.
    fn creation_for(&mut self, spec: &DnsName, index: usize) -> Option<Timestamp> {
        let now = self.now;
        let policy = self.objects.policy.sources.get(index)?;
        let source = policy.source;
        let entry = self.names.entries.get_mut(spec)?;
        if !self.objects.manages(source)
            || !entry.in_use.by.has(source)
            || entry.objects.iter().any(|object| object.source == source)
            || entry.writes.creating.has(source)
        {
            return None;
        }
        let missing_since = entry.writes.missing_since;
        let create_at = match policy.manage {
            ManageObjects::Auto => missing_since + policy.create_after,
            _ => now,
        };
        if create_at > now {
            return Some(create_at);
        }
        let creation = WriteCost {
            payers: &entry.in_use.with_rule,
            bytes: CREATION,
            since: missing_since,
        };
        let budget = &mut self.objects.budget;
        if let Err(later) = budget.take(&creation, &mut entry.writes.turn, now) {
            return Some(later);
        }
        entry.writes.creating.insert(source);
        let object = new_object(spec, entry.writes.collisions, &policy.namespace);
        self.writes.push(Write::Create(Box::new(object)));
        None
    }

    /// Writes the statuses of a name's objects. Returns the time of the next check, and whether an
    /// update waits for it.
    fn statuses_of(&mut self, spec: &DnsName) -> (Option<Timestamp>, bool) {
        let now = self.now;
        let Some(entry) = self.names.entries.get_mut(spec) else {
            return (None, false);
        };
        let mut again: Vec<Timestamp> = Vec::new();
        // Without the rules or the objects, a missing rule means nothing.
        let mut known = SourceSet::default();
        for policy in &self.objects.policy.sources {
            let source = policy.source;
            if self.objects.manages(source) && self.in_use.is_in_sync(source) {
                known.insert(source);
            }
        }
        let mut waiting = false;
        let StoredObjects {
            policy,
            in_flight,
            budget,
            is_ending,
            ..
        } = &mut *self.objects;
        let (policy, is_ending) = (&*policy, *is_ending);
        let payers = entry.payers();
        let cost = WriteCost {
            payers: &payers,
            bytes: entry.memory.size().bytes(),
            since: entry.writes.unwritten.as_ref().map_or(now, |it| it.since),
        };
        // The turn may come from earlier updates of other namespaces.
        if budget.waits_for_nothing(&cost, now) {
            entry.writes.turn = Timestamp::default();
        }
        let is_turn = entry.writes.has_turn();
        let Entry {
            objects,
            memory,
            writes: state,
            in_use,
            ..
        } = &mut **entry;
        let limits = &in_use.limits;
        for object in objects.iter_mut() {
            let key = object.key(policy);
            if in_flight.contains_key(&key) {
                waiting = true;
                continue;
            }
            if object.is_ours && known.has(object.source) && !in_use.by.has(object.source) {
                let goes = *object.no_rule_since.get_or_insert(now) + UNUSED_FOR;
                if goes <= now {
                    self.writes.push(object.delete(key));
                    continue;
                }
                again.push(goes);
            } else {
                object.no_rule_since = None;
            }
            let is_dear = object.cost > DEAR && !is_ending;
            if is_dear
                && state.unwritten.is_some()
                && state.turn <= now
                && let Err(later) = budget.may_take(&cost, is_turn, now)
            {
                state.turn = later;
            }
            let paid = object
                .may_be_written(memory.size().is_full(memory.list(), limits))
                .max(state.turn);
            if paid > now && is_dear {
                waiting |= state.unwritten.is_some();
                again.push(paid);
                continue;
            }
            let render = match object.source.hides_failures() {
                true => StatusUpdate::without_failures,
                false => StatusUpdate::new,
            };
            let update = render(memory, &object.status, limits, now);
            let Some(update) = update else {
                continue;
            };
            let urgent = update.is_urgent();
            let at = match urgent {
                true => paid,
                false => paid.max(object.written + policy.times_interval),
            };
            if at > now && !(is_ending && urgent) {
                waiting |= urgent;
                again.push(at);
                continue;
            }
            // Names found by other namespaces leave a wildcard too, so a write with removals only
            // is charged to none.
            let only_leaves = state.unwritten.is_none() && spec.is_wildcard() && update.added == 0;
            let cost = match only_leaves {
                true => WriteCost {
                    payers: &[],
                    ..cost
                },
                false => cost,
            };
            if urgent
                && !is_ending
                && let Err(later) = budget.take(&cost, &mut state.turn, now)
            {
                waiting = true;
                state.unwritten.get_or_insert_with(|| {
                    Box::new(Unwritten {
                        is_without_rule: only_leaves,
                        ..Unwritten::since(now)
                    })
                });
                again.push(later);
                continue;
            }
            state.turn = Timestamp::default();
            let write = object.write(policy, spec, update.status());
            if urgent {
                self.writes.push(write);
            } else {
                self.refreshes.push(Refresh {
                    spec: spec.clone(),
                    bytes: cost.bytes,
                    payers: payers.clone(),
                    write,
                });
            }
        }
        (again.into_iter().min(), waiting)
    }
}
