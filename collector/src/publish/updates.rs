//! Applies watch events of the objects and their statuses.

use std::{collections::HashSet, sync::Arc};

use metrics::counter;
use names::reserve_one;
use proto::api::{DnsName, DnsNameResolver};
use runtime::{
    clock::Timestamp,
    store::{Event, ObjectKey},
};
use tracing::{info, warn};

use super::{publisher::Publisher, stored_object::StoredObject};
use crate::rules::Source;

impl Publisher {
    /// Applies an event of the watch of a source's objects.
    pub fn apply_event(&mut self, source: Source, event: Event<DnsNameResolver>, now: Timestamp) {
        match event {
            Event::Synced(objects) => self.apply_list(source, objects, now),
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
                let known = self.stored_object(&key);
                if !known.is_some_and(|known| known.is_late(&object)) {
                    self.apply_object(&key, &object, now);
                }
            }
            Event::Deleted(key) => match self.objects.in_flight.get_mut(&key) {
                Some(later) => later.push_back(Event::Deleted(key)),
                None => self.remove_object(&key, now),
            },
        }
    }

    fn apply_list(&mut self, source: Source, objects: Vec<DnsNameResolver>, now: Timestamp) {
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
            self.apply_event(source, Event::Deleted(key), now);
        }
        for object in objects {
            self.apply_event(source, Event::Applied(object), now);
        }
        if let Some(known) = self.objects.of_mut(source) {
            known.are_in_sync = true;
        }
        self.names.mark_all();
    }

    /// Applies the store's version of an object.
    pub(super) fn apply_object(
        &mut self,
        key: &ObjectKey,
        object: &DnsNameResolver,
        now: Timestamp,
    ) {
        let Some(name) = self.name_of(object) else {
            counter!("egress_collector_objects_ignored_total").increment(1);
            warn!(object = %key, name = ?object.spec.name, "ignoring the object: its spec.name must be a lower-case fully qualified name");
            self.remove_object(key, now);
            return;
        };
        let Some(source) = self.objects.policy.source_in(&key.namespace) else {
            return;
        };
        let known = self.objects.name_of(key);
        if known.is_some_and(|(_, known)| *known != name) {
            self.remove_object(key, now);
        }
        let admit = |ip| self.guards.admit(ip);
        let of_name = self.by_name.entry(name.clone()).or_default();
        let before = of_name.object_mut(source, &key.name);
        let before = before.map(|known| &known.status);
        let status = object.status.as_ref();
        let status = self.names.apply_stored(&name, status, before, admit, now);
        let object = StoredObject::new(source, object, status);
        match of_name.object_mut(source, &key.name) {
            Some(known) => known.replace(object),
            None => {
                if let Some(objects) = self.objects.of_mut(source) {
                    objects.by_name.insert(Arc::clone(&object.name), name);
                }
                reserve_one(&mut of_name.objects);
                of_name.objects.push(object);
            }
        }
        if let Some((_, name)) = self.objects.name_of(key) {
            self.settle_held(&name.clone());
        }
    }

    /// The object's name, if it is a valid one.
    fn name_of(&self, object: &DnsNameResolver) -> Option<DnsName> {
        if let Some(known) = self.names.known(&object.spec.name) {
            return Some(known.clone());
        }
        let name = DnsName::parse(&object.spec.name).ok()?;
        (name.as_str() == object.spec.name).then_some(name)
    }

    pub(super) fn stored_object(&mut self, key: &ObjectKey) -> Option<&mut StoredObject> {
        let (source, name) = self.objects.name_of(key)?;
        self.by_name.get_mut(name)?.object_mut(source, &key.name)
    }

    pub(super) fn remove_object(&mut self, key: &ObjectKey, now: Timestamp) {
        let Some(source) = self.objects.policy.source_in(&key.namespace) else {
            return;
        };
        let known = self.objects.of_mut(source);
        let Some(name) = known.and_then(|known| known.by_name.remove(&*key.name)) else {
            return;
        };
        if let Some(of_name) = self.by_name.get_mut(&name) {
            of_name
                .objects
                .retain(|object| object.source != source || *object.name != *key.name);
            of_name.missing_since = now;
        }
        self.dirty.insert(name);
    }
}
