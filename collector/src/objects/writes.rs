//! Decides which objects are written now: new addresses at once, changed times later.

use std::{collections::VecDeque, time::Duration};

use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::{
    dirty::payer,
    entry::{Entry, UNUSED_FOR},
    in_use::NamesInUse,
    leadership::Leadership,
    names::NameTable,
    object_policy::{ManageObjects, OBJECT_RATE},
    publish::Write,
    stored_object::{StoredObject, new_object},
    stored_objects::StoredObjects,
};
use crate::{rules::SourceSet, state::StatusUpdate};

/// A write that only changes times goes this long after the last one of its object.
const TIMES_INTERVAL: Duration = Duration::from_secs(600);

/// A write that only changes times leaves this part of the saved bytes to new addresses.
const LEFT_BY_TIMES: f64 = 0.5;

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
        }
    }

    /// The writes to start now: at most one for each object, and first those of the namespaces that wrote fewest bytes.
    pub(crate) fn make(mut self) -> Vec<Write> {
        if self.objects.paused_until > Some(self.now) {
            return self.writes;
        }
        self.objects.paused_until = None;
        self.objects.written.forget(self.now);
        let most = self.objects.in_flight_limit.size();
        while self.objects.in_flight.len() < most
            && self.has_bytes()
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
        self.writes
    }

    /// Whether all objects together may write. If not, the plan is made again when they may.
    fn has_bytes(&mut self) -> bool {
        if self.names.dirty.is_empty() || self.objects.is_ending {
            return true;
        }
        let rate = self.objects.policy.rate();
        self.objects.paused_until = self.objects.bucket.wait_for(0.0, rate, self.now);
        self.objects.paused_until.is_none()
    }

    fn next_dirty(&mut self) -> Option<DnsName> {
        let NameTable { dirty, entries, .. } = &mut *self.names;
        let written = &self.objects.written;
        dirty.pop(written, |name| entries.get(name).map(|it| &**it))
    }

    fn wake(&mut self, spec: &DnsName, again: Option<Timestamp>) {
        self.names.wake(spec, again, self.lead.leads(), self.now);
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
        let may_write =
            |object: &mut StoredObject| object.bucket.wait_for(0.0, OBJECT_RATE, now).is_none();
        if self.objects.is_ending || entry.objects.iter_mut().any(may_write) {
            self.names.enforce(spec, now);
        }
        let before = self.writes.len();
        let created = self.creation_of(spec);
        let (again, waiting) = self.statuses_of(spec);
        let entry = self.names.entries.get_mut(spec)?;
        if self.writes.len() == before && !waiting {
            // The store has all updates already.
            entry.writes.unwritten_since = None;
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
        let payer = payer(&self.objects.written, &entry.in_use.with_rule);
        let rate = self.objects.policy.rate();
        self.objects.bucket.withdraw(CREATION, rate, now);
        self.objects.written.add(payer, CREATION, now);
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
            bucket,
            written,
            is_ending,
            ..
        } = &mut *self.objects;
        let (policy, rate, is_ending) = (&*policy, policy.rate(), *is_ending);
        let Entry {
            objects,
            memory,
            writes: state,
            in_use,
            ..
        } = &mut **entry;
        let payer = payer(written, &in_use.with_rule);
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
            if let Some(wait) = object.bucket.wait_for(0.0, OBJECT_RATE, now)
                && !is_ending
            {
                waiting |= state.unwritten_since.is_some();
                again.push(wait);
                continue;
            }
            let render = match object.source.hides_failures() {
                true => StatusUpdate::without_failures,
                false => StatusUpdate::new,
            };
            let Some(update) = render(memory, &object.status, &in_use.limits, now) else {
                continue;
            };
            if !update.is_urgent() {
                let due = object.written + TIMES_INTERVAL;
                let paid = bucket.wait_for(LEFT_BY_TIMES, rate, now);
                let at = paid.map_or(due, |paid| paid.max(due));
                if at > now {
                    again.push(at);
                    continue;
                }
            }
            let bytes = update.bytes();
            object.bucket.withdraw(bytes, OBJECT_RATE, now);
            bucket.withdraw(bytes, rate, now);
            written.add(payer, bytes, now);
            self.writes
                .push(object.write(policy, spec, update.status()));
        }
        (again.into_iter().min(), waiting)
    }
}
