//! Applies watch events of the objects and their statuses.

use std::{collections::HashSet, sync::Arc};

use metrics::counter;
use proto::api::{DnsName, DnsNameResolver};
use runtime::{
    clock::Timestamp,
    store::{Event, ObjectKey},
};
use tracing::{info, warn};

use super::{
    leadership::Leadership, names::NameTable, stored_object::StoredObject,
    stored_objects::StoredObjects,
};
use crate::rules::Source;
use crate::state::{Stored, UpdateEffect, make_room};

/// A change of objects, with all the state that it affects.
pub(crate) struct ObjectUpdate<'a> {
    pub(crate) objects: &'a mut StoredObjects,
    pub(crate) names: &'a mut NameTable,
    pub(crate) lead: &'a mut Leadership,
    pub(crate) now: Timestamp,
}

impl ObjectUpdate<'_> {
    /// Applies an event of the watch of a source's objects.
    pub(crate) fn event(&mut self, source: Source, event: Event<DnsNameResolver>) {
        match event {
            Event::Synced(objects) => self.synced(source, objects),
            Event::OutOfSync(reason) => {
                warn!(%source, %reason, "cannot read DNSNameResolver objects: the collector creates and deletes none until it can");
                if let Some(objects) = self.objects.of_mut(source) {
                    (objects.are_in_sync, objects.have_failed) = (false, true);
                }
            }
            // The collector deletes only objects that it can decode, and the store refuses to
            // create one that exists.
            Event::Undecodable(keys) => {
                if let Some(objects) = self.objects.of_mut(source) {
                    objects.unreadable = keys;
                }
            }
            Event::Applied(object) => {
                let key = ObjectKey::of(&object);
                if let Some(later) = self.objects.in_flight.get_mut(&key) {
                    later.push_back(Event::Applied(object));
                    return;
                }
                let known = self.objects.find(&key, self.names);
                if !known.is_some_and(|known| known.is_late(&object)) {
                    self.apply(&key, &object);
                }
            }
            Event::Deleted(key) => match self.objects.in_flight.get_mut(&key) {
                Some(later) => later.push_back(Event::Deleted(key)),
                None => self.remove(&key),
            },
        }
    }

    fn synced(&mut self, source: Source, objects: Vec<DnsNameResolver>) {
        info!(
            %source,
            objects = objects.len(),
            "DNSNameResolver objects are in sync"
        );
        let listed = objects.iter().filter_map(|it| it.metadata.name.as_deref());
        let Some(known) = self.objects.of(source) else {
            return;
        };
        let unreadable = known.unreadable.iter().map(|key| &*key.name);
        let listed: HashSet<&str> = listed.chain(unreadable).collect();
        let gone = known.by_name.keys();
        let gone = gone.filter(|name| !listed.contains(&***name));
        let gone: Vec<ObjectKey> = gone.map(|name| self.objects.key(source, name)).collect();
        for key in gone {
            self.event(source, Event::Deleted(key));
        }
        for object in objects {
            self.event(source, Event::Applied(object));
        }
        if let Some(known) = self.objects.of_mut(source) {
            known.are_in_sync = true;
        }
        self.names.look_at_all();
    }

    /// Applies the store's version of an object.
    pub(super) fn apply(&mut self, key: &ObjectKey, object: &DnsNameResolver) {
        let Some(spec) = self.read_spec(object) else {
            counter!("egress_collector_objects_ignored_total").increment(1);
            warn!(object = %key, name = ?object.spec.name, "ignoring the object: its spec.name must be a lower-case fully qualified name");
            self.remove(key);
            return;
        };
        let Some(source) = self.objects.policy.source_in(&key.namespace) else {
            return;
        };
        let known = self.objects.spec_of(key);
        if known.is_some_and(|(_, known)| *known != spec) {
            self.remove(key);
        }
        let learned = self.absorb(source, &spec, key, object);
        let Some(entry) = self.names.entries.get_mut(&spec) else {
            return;
        };
        let fresh = std::mem::take(&mut entry.fresh);
        let names: Vec<DnsName> = entry
            .memory
            .list()
            .names()
            .chain([&spec])
            .cloned()
            .collect();
        self.names.learned(&spec, &learned, self.now);
        for name in names {
            self.names.reschedule(&name);
        }
        if fresh {
            self.names.newly_wanted.insert(spec.clone());
        }
        self.names.dirty.insert(spec);
    }

    /// The object's name, if it is a valid one.
    fn read_spec(&self, object: &DnsNameResolver) -> Option<DnsName> {
        if let Some(entry) = self.names.entries.get(object.spec.name.as_str()) {
            return Some(entry.memory.list().spec().clone());
        }
        let spec = DnsName::parse(&object.spec.name).ok()?;
        (spec.as_str() == object.spec.name).then_some(spec)
    }

    /// Applies the status of an object of the name.
    fn absorb(
        &mut self,
        source: Source,
        spec: &DnsName,
        key: &ObjectKey,
        object: &DnsNameResolver,
    ) -> UpdateEffect {
        let now = self.now;
        self.names.entry_or_new(spec, now);
        let names = &mut *self.names;
        let Some(entry) = names.entries.get_mut(spec) else {
            return UpdateEffect::default();
        };
        let status = match &object.status {
            Some(status) => Stored::new(status, &entry.memory),
            None => Stored::default(),
        };
        let learned = match entry.left_out {
            true => UpdateEffect::default(),
            false => {
                let (memory, limits) = (&mut entry.memory, &entry.in_use.limits);
                memory.absorb(&status, now, limits, &names.guards)
            }
        };
        if !self.lead.leads() {
            entry.memory.follow(&status, now, &entry.in_use.limits);
        }
        let object = StoredObject::new(source, object, status);
        match entry.object_mut(source, &key.name) {
            Some(known) => known.replace(object),
            None => {
                if let Some(objects) = self.objects.of_mut(source) {
                    let by_name = &mut objects.by_name;
                    by_name.insert(Arc::clone(&object.name), spec.clone());
                }
                make_room(&mut entry.objects);
                entry.objects.push(object);
            }
        }
        learned
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        let Some(source) = self.objects.policy.source_in(&key.namespace) else {
            return;
        };
        let known = self.objects.of_mut(source);
        let Some(spec) = known.and_then(|known| known.by_name.remove(&*key.name)) else {
            return;
        };
        if let Some(entry) = self.names.entries.get_mut(&spec) {
            entry
                .objects
                .retain(|object| object.source != source || *object.name != *key.name);
            entry.writes.missing_since = self.now;
        }
        self.names.dirty.insert(spec);
    }
}
