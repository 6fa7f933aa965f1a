//! What the store has: the objects and their statuses, as the watch and the replies to writes tell.

use std::{collections::HashSet, sync::Arc};

use metrics::counter;
use proto::api::{DnsName, DnsNameResolver};
use runtime::{
    clock::Timestamp,
    leader::LEASE_DURATION,
    store::{Event, ObjectKey},
};
use tracing::{info, warn};

use super::{
    StatusController,
    budget::WriteCost,
    entry::{Entry, Object},
};
use crate::state::{After, Stored, UpdateEffect, make_room};

/// Which process wrote a state of an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Writer {
    /// This one.
    This,
    /// Perhaps another one.
    Other,
}

impl StatusController {
    /// Takes in what the watch of the objects says.
    pub fn event(&mut self, event: Event<DnsNameResolver>, now: Timestamp) {
        match event {
            Event::Synced(objects) => {
                info!(
                    objects = objects.len(),
                    "DNSNameResolver objects are in sync"
                );
                let listed = objects.iter().filter_map(|it| it.metadata.name.as_deref());
                let listed: HashSet<&str> = listed
                    .chain(self.unreadable.iter().map(|key| &*key.name))
                    .collect();
                let gone = self
                    .objects
                    .keys()
                    .filter(|name| !listed.contains(&***name));
                let gone: Vec<ObjectKey> = gone.map(|name| self.key(name)).collect();
                for key in gone {
                    self.event(Event::Deleted(key), now);
                }
                for object in objects {
                    self.event(Event::Applied(object), now);
                }
                (self.objects_in_sync, self.were_objects_in_sync) = (true, true);
                self.dirty.extend(self.entries.keys().cloned());
            }
            Event::OutOfSync(reason) => {
                warn!(%reason, "DNSNameResolver objects cannot be read; nothing is made or deleted meanwhile");
                self.objects_in_sync = false;
            }
            // Making such an object is refused, and nothing is deleted that is not known.
            Event::Undecodable(keys) => self.unreadable = keys,
            Event::Applied(object) => {
                let key = ObjectKey::of(&object);
                if let Some(later) = self.in_flight.get_mut(&key) {
                    later.push_back(Event::Applied(object));
                } else if !self
                    .object_mut(&key)
                    .is_some_and(|known| known.is_late(&object))
                {
                    self.apply(key, &object, Writer::Other, now);
                }
            }
            Event::Deleted(key) => match self.in_flight.get_mut(&key) {
                Some(later) => later.push_back(Event::Deleted(key)),
                None => self.remove(&key, now),
            },
        }
    }

    pub(super) fn apply(
        &mut self,
        key: ObjectKey,
        object: &DnsNameResolver,
        writer: Writer,
        now: Timestamp,
    ) {
        let known = self.entries.get(object.spec.name.as_str());
        let spec = known.map(|entry| entry.memory.spec().clone());
        let parsed = || DnsName::parse(&object.spec.name).ok();
        let spec = spec.or_else(|| parsed().filter(|spec| spec.as_str() == object.spec.name));
        let Some(spec) = spec else {
            counter!("collector_objects_ignored_total").increment(1);
            warn!(object = %key, name = ?object.spec.name, "object ignored: its spec.name is no lower-case fully qualified name");
            self.remove(&key, now);
            return;
        };
        if self
            .objects
            .get(&*key.name)
            .is_some_and(|known| *known != spec)
        {
            self.remove(&key, now);
        }
        let entry = self.entries.entry(spec.clone()).or_insert_with(|| {
            self.index.insert(&spec);
            self.index_changed = true;
            Box::new(Entry::new(
                spec.clone(),
                &self.limits,
                &self.config.shared.known,
                now,
            ))
        });
        let status = match &object.status {
            Some(status) => Stored::new(status, &entry.memory),
            None => Stored::default(),
        };
        let is_no_rule = status.is_no_rule(&spec);
        // One that was made again has lost nothing.
        let known = entry.object_mut(&key.name);
        let known = known.filter(|known| known.is_version_of(object));
        let before = known.map(|known| std::mem::take(&mut known.status));
        if before.is_none()
            && let Some(additions) = &mut entry.additions
        {
            additions.forget_made();
        }
        let before = before.unwrap_or_default();
        let guards = &self.config.guards;
        let after = match self.objects_in_sync {
            true => After::Change,
            false => After::Gap,
        };
        // A leader that goes on after a gap knows itself what it leaves out.
        let knows = self.leader && self.were_objects_in_sync;
        let goes_on_left_out =
            after == After::Gap && !knows && !entry.left_out && status.is_over_limit(&spec);
        entry.left_out |= goes_on_left_out;
        let taken = match writer {
            Writer::Other => self.shares.without_refused(entry, &status),
            Writer::This => None,
        };
        let taken = taken.as_ref().unwrap_or(&status);
        let learned = match entry.left_out {
            true => UpdateEffect::default(),
            false => entry
                .memory
                .absorb(taken, now, &entry.limits, guards, after),
        };
        if !self.leader {
            entry.memory.follow(&status, now, &entry.limits);
        } else if !self.foreign_gc_detected
            // Until then the last writes of the collector that led before may still come.
            && self.leads_since + LEASE_DURATION <= now
            && writer == Writer::Other
            && !is_no_rule
            && before.was_reaped(&status, &entry.memory, now)
        {
            self.foreign_gc_detected = true;
            info!(object = %key, "another program removes addresses by the times of statuses: they are kept up to date from now on");
        }
        if writer == Writer::Other && after == After::Change && before != status {
            // Otherwise two collectors would write twice as much together.
            let cost = WriteCost {
                payers: &entry.with_rule,
                bytes: entry.memory.size(),
                since: now,
            };
            self.budget.charge(&cost, now);
        }
        let mut object = Object::new(object, status);
        object.no_rule_since = is_no_rule.then_some(now);
        match entry.object_mut(&key.name) {
            Some(known) => known.replace(object),
            None => {
                self.objects.insert(Arc::clone(&object.name), spec.clone());
                make_room(&mut entry.objects);
                entry.objects.push(object);
            }
        }
        let fresh = std::mem::take(&mut entry.fresh);
        if goes_on_left_out {
            entry.memory.leave_out(now);
            self.goes_on_left_out(spec.clone());
        }
        let Some(entry) = self.entries.get(&spec) else {
            return;
        };
        let names: Vec<DnsName> = entry.memory.names().chain([&spec]).cloned().collect();
        self.learned_from_status(&spec, learned, now);
        self.follow_status(&spec, now);
        for name in names {
            self.reschedule(&name);
        }
        if fresh {
            self.newly_wanted.insert(&spec);
        }
        self.note_unused(&spec, now);
        self.dirty.insert(spec);
    }

    pub(super) fn remove(&mut self, key: &ObjectKey, now: Timestamp) {
        let Some(spec) = self.objects.remove(&*key.name) else {
            return;
        };
        if let Some(entry) = self.entries.get_mut(&spec) {
            entry.objects.retain(|object| *object.name != *key.name);
            entry.missing_since = now;
            if !entry.wanted && entry.objects.is_empty() {
                self.absences.remove(&spec);
            }
        }
        self.dirty.insert(spec);
    }
}
