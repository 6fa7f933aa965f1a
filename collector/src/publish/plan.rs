//! Decides which objects are written now: new addresses at once, changed times later.

use std::{collections::VecDeque, time::Duration};

use names::UNUSED_FOR;
use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::{
    name_objects::NameObjects,
    objects::{MAX_IN_FLIGHT, Objects},
    policy::{ManageObjects, OBJECT_RATE},
    publisher::Publisher,
    queue::tenant_of,
    stored_object::{StoredObject, new_object},
    write::Write,
};
use crate::rules::SourceSet;

/// A write that only changes times goes this long after the last one of its object.
const TIMES_INTERVAL: Duration = Duration::from_secs(600);

/// A write that only changes times leaves this part of the saved bytes to new addresses.
const LEFT_BY_TIMES: f64 = 0.5;

/// The bytes that creating and deleting an object takes in etcd's history, without its addresses.
const CREATION: usize = 3_000;

impl Publisher {
    /// The writes to start now: at most one for each object, and first those of the namespaces that wrote fewest bytes.
    pub fn writes(&mut self, now: Timestamp) -> Vec<Write> {
        let mut writes = Vec::new();
        self.apply_changes();
        if self.objects.paused_until > Some(now) {
            return writes;
        }
        self.objects.paused_until = None;
        self.objects.written.forget(now);
        while self.objects.in_flight.len() < MAX_IN_FLIGHT
            && self.has_bytes(now)
            && let Some(name) = self.next_dirty()
        {
            let before = writes.len();
            let again = self.plan(&name, now, &mut writes);
            // Marked as in flight at once: an eviction makes the name dirty again, and must not start a second write.
            let begun = writes.iter().skip(before).map(Write::key);
            let begun = begun.map(|key| (key, VecDeque::new()));
            self.objects.in_flight.extend(begun);
            self.names.set_wake(&name, again, now);
            self.apply_changes();
        }
        writes
    }

    /// Whether all objects together may write. If not, the plan is made again when they may.
    fn has_bytes(&mut self, now: Timestamp) -> bool {
        if self.dirty.is_empty() || self.objects.is_ending {
            return true;
        }
        let rate = self.objects.policy.rate();
        self.objects.paused_until = self.objects.bucket.wait_for(0.0, rate, now);
        self.objects.paused_until.is_none()
    }

    fn next_dirty(&mut self) -> Option<DnsName> {
        let Self {
            dirty,
            names,
            objects,
            ..
        } = self;
        dirty.pop(&objects.written, |name| names.get(name))
    }

    /// Plans the writes of one name. Returns the time of the next check, if no update comes before.
    fn plan(
        &mut self,
        name: &DnsName,
        now: Timestamp,
        writes: &mut Vec<Write>,
    ) -> Option<Timestamp> {
        let entry = self.names.get(name)?;
        let of_name = self.by_name.entry(name.clone()).or_default();
        if !entry.is_used() && of_name.objects.is_empty() && of_name.creating.is_empty() {
            let until = entry.kept_until();
            if until > now {
                return Some(until);
            }
            self.names.remove(name);
            self.by_name.remove(name);
            return None;
        }
        if of_name.retry_at > now {
            return Some(of_name.retry_at);
        }
        // A standby writes nothing. A new leader checks every name.
        if !self.names.leads() {
            return None;
        }
        let may_write =
            |object: &mut StoredObject| object.bucket.wait_for(0.0, OBJECT_RATE, now).is_none();
        if self.objects.is_ending || of_name.objects.iter_mut().any(may_write) {
            self.names.enforce(name, now);
        }
        let before = writes.len();
        let sources = self.objects.policy.sources.len();
        let created = (0..sources).filter_map(|index| self.plan_creation(name, index, now, writes));
        let created = created.min();
        let (again, is_waiting) = self.plan_statuses(name, now, writes);
        if writes.len() == before
            && !is_waiting
            && let Some(of_name) = self.by_name.get_mut(name)
        {
            // The store has all updates already.
            of_name.unwritten_since = None;
        }
        created.into_iter().chain(again).min()
    }

    /// Creates the object of a name for one source, if it lacks one. Returns when that is allowed, if not now.
    fn plan_creation(
        &mut self,
        name: &DnsName,
        index: usize,
        now: Timestamp,
        writes: &mut Vec<Write>,
    ) -> Option<Timestamp> {
        let policy = self.objects.policy.sources.get(index)?;
        let source = policy.source;
        let of_name = self.by_name.get_mut(name)?;
        if !self.objects.manages(source)
            || !of_name.sources.has(source)
            || of_name.objects.iter().any(|object| object.source == source)
            || of_name.creating.has(source)
        {
            return None;
        }
        let create_at = match policy.manage {
            ManageObjects::Auto => of_name.missing_since + policy.create_after,
            _ => now,
        };
        if create_at > now {
            return Some(create_at);
        }
        let entry = self.names.get(name)?;
        let tenant = tenant_of(&self.objects.written, &entry.rule_use().namespaces);
        let rate = self.objects.policy.rate();
        of_name.creating.insert(source);
        let object = new_object(name, of_name.collisions, &policy.namespace);
        writes.push(Write::Create(Box::new(object)));
        self.objects.bucket.withdraw(CREATION, rate, now);
        self.objects.written.add(tenant, CREATION, now);
        None
    }

    /// Writes the statuses of a name's objects, and deletes those without a rule. Returns the time of the next check, and
    /// whether an update waits for it.
    fn plan_statuses(
        &mut self,
        name: &DnsName,
        now: Timestamp,
        writes: &mut Vec<Write>,
    ) -> (Option<Timestamp>, bool) {
        let mut again: Vec<Timestamp> = Vec::new();
        // Without the rules or the objects, a missing rule means nothing.
        let mut known = SourceSet::default();
        for policy in &self.objects.policy.sources {
            let source = policy.source;
            if self.objects.manages(source) && self.rules.is_in_sync(source) {
                known.insert(source);
            }
        }
        let mut is_waiting = false;
        let Self {
            names,
            by_name,
            objects,
            ..
        } = self;
        let (Some(entry), Some(of_name)) = (names.get(name), by_name.get_mut(name)) else {
            return (None, false);
        };
        let tenant = tenant_of(&objects.written, &entry.rule_use().namespaces);
        let Objects {
            policy,
            in_flight,
            bucket,
            written,
            is_ending,
            ..
        } = objects;
        let rate = policy.rate();
        let NameObjects {
            objects,
            sources,
            unwritten_since,
            ..
        } = &mut **of_name;
        for object in objects.iter_mut() {
            let key = object.key(policy);
            if in_flight.contains_key(&key) {
                is_waiting = true;
                continue;
            }
            if object.is_ours && known.has(object.source) && !sources.has(object.source) {
                let delete_at = *object.no_rule_since.get_or_insert(now) + UNUSED_FOR;
                if delete_at <= now {
                    writes.push(object.delete(key));
                    continue;
                }
                again.push(delete_at);
            } else {
                object.no_rule_since = None;
            }
            if let Some(wait) = object.bucket.wait_for(0.0, OBJECT_RATE, now)
                && !*is_ending
            {
                is_waiting |= unwritten_since.is_some();
                again.push(wait);
                continue;
            }
            let hides_failures = object.source.hides_failures();
            let Some(update) = names.status_of(name, &object.status, hides_failures, now) else {
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
            written.add(tenant, bytes, now);
            writes.push(object.write(policy, name, update.status()));
        }
        (again.into_iter().min(), is_waiting)
    }
}
