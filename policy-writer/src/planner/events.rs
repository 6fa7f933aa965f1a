//! Events of the store.

use std::collections::BTreeSet;

use proto::api::{DnsName, DnsNameResolver, DnsResolver};
use runtime::store::{Event, ObjectKey};

use super::{Now, Planner};
use crate::{
    output::{Observed, Output, Written},
    resolver::Resolver,
};

impl Planner {
    /// Applies an event about statuses of names.
    pub fn apply_names(&mut self, event: &Event<DnsNameResolver>, now: Now) {
        // Only the names of the event: there may be many others. A deletion answers nothing.
        let objects = match event {
            Event::Applied(object) => std::slice::from_ref(object),
            Event::Synced(objects) => objects.as_slice(),
            Event::Deleted(_) | Event::Undecodable(_) | Event::OutOfSync(_) => &[],
        };
        let names = objects.iter().map(|it| DnsName::parse(&it.spec.name));
        let was_answered: BTreeSet<DnsName> = names
            .flatten()
            .filter(|name| self.names.is_answered(name))
            .collect();
        for name in self.names.apply(event) {
            let Some(users) = self.users.get(&name) else {
                self.names.forget(&name);
                continue;
            };
            for key in users {
                if let Some(resolver) = self.resolvers.get_mut(key) {
                    let is_new = resolver.new_names.contains(&name);
                    resolver.is_urgent |= !is_new || was_answered.contains(&name);
                    resolver.touch(now.instant);
                }
            }
        }
    }

    /// Applies an event about `DNSResolver` objects.
    pub fn apply_resolvers(&mut self, event: &Event<DnsResolver>, now: Now) {
        match event {
            Event::Synced(objects) => {
                self.resolvers_read = true;
                let listed: BTreeSet<_> = objects.iter().map(ObjectKey::of).collect();
                let is_there =
                    |key: &ObjectKey| listed.contains(key) || self.unreadable.contains(key);
                let gone: Vec<_> = self
                    .resolvers
                    .keys()
                    .filter(|key| !is_there(key))
                    .cloned()
                    .collect();
                for key in gone {
                    self.remove_resolver(&key);
                }
                for object in objects {
                    self.put_resolver(object, now);
                }
            }
            Event::Applied(object) => self.put_resolver(object, now),
            Event::Deleted(key) => self.remove_resolver(key),
            Event::Undecodable(keys) => self.unreadable.clone_from(keys),
            Event::OutOfSync(_) => {}
        }
    }

    fn put_resolver(&mut self, object: &DnsResolver, now: Now) {
        let key = ObjectKey::of(object);
        let uid = crate::ownership::uid_of(object);
        let known = self.resolvers.get(&key);
        if known.is_some_and(|known| known.request.uid != uid) {
            self.remove_resolver(&key);
        }
        self.status_due.insert(key.clone());
        let before = match self.resolvers.get_mut(&key) {
            Some(resolver) => match resolver.update(object, now.instant) {
                Some(before) => before.valid().cloned().collect(),
                None => return,
            },
            None => {
                let resolver = Resolver::new(object, now.instant);
                self.resolvers.insert(key.clone(), resolver);
                BTreeSet::new()
            }
        };
        let after: BTreeSet<DnsName> = self
            .resolvers
            .get(&key)
            .map(|resolver| resolver.request.valid().cloned().collect())
            .unwrap_or_default();
        self.change_users(&key, &before, &after);
    }

    fn remove_resolver(&mut self, key: &ObjectKey) {
        if let Some(resolver) = self.resolvers.remove(key) {
            let names = resolver.request.valid().cloned().collect();
            self.change_users(key, &names, &BTreeSet::new());
        }
        self.status_due.remove(key);
        self.has_orphans = true;
    }

    fn change_users(
        &mut self,
        key: &ObjectKey,
        before: &BTreeSet<DnsName>,
        after: &BTreeSet<DnsName>,
    ) {
        for name in before.difference(after) {
            if let Some(users) = self.users.get_mut(name) {
                users.remove(key);
                if users.is_empty() {
                    self.users.remove(name);
                    self.names.forget(name);
                }
            }
        }
        for name in after.difference(before) {
            self.users
                .entry(name.clone())
                .or_default()
                .insert(key.clone());
        }
    }

    /// Applies an event about objects of a kind that this program writes.
    pub fn apply_output<K: Written>(&mut self, event: &Event<K>, now: Now) {
        match event {
            Event::Synced(objects) => {
                let listed = objects.iter().map(ObjectKey::of).collect();
                let outputs = self.outputs_mut(K::OUTPUT);
                outputs.has_been_read = true;
                for key in outputs.missing(&listed) {
                    self.output_removed(K::OUTPUT, &key, now);
                }
                for object in objects {
                    self.output_changed(
                        K::OUTPUT,
                        ObjectKey::of(object),
                        Observed::of(object),
                        now,
                    );
                }
            }
            Event::Applied(object) => {
                self.output_changed(K::OUTPUT, ObjectKey::of(object), Observed::of(object), now);
            }
            Event::Deleted(key) => self.output_removed(K::OUTPUT, key, now),
            Event::Undecodable(keys) => self.outputs_mut(K::OUTPUT).set_unreadable(keys),
            Event::OutOfSync(_) => {}
        }
    }

    fn output_changed(&mut self, output: Output, key: ObjectKey, observed: Observed, now: Now) {
        let fingerprint = observed.fingerprint;
        self.in_flight(output, &key, false);
        let allowed_dns = self.policies.allows_dns(&key.namespace);
        if self
            .outputs_mut(output)
            .put(key.clone(), observed)
            .is_none()
        {
            return;
        }
        self.has_orphans = true;
        self.compare_dns(&key.namespace, allowed_dns);
        if let Some(resolver) = self.resolvers.get_mut(&key) {
            let written = resolver.written.get(&output);
            // While a job is under way the event may tell of its own write.
            if written.is_some_and(|written| *written != fingerprint) && !resolver.in_flight {
                resolver.undone(output, now.instant);
                self.undone += 1;
            } else {
                resolver.touch(now.instant);
            }
            self.status_due.insert(key);
        }
    }

    /// Remembers an event for the result of the job that is under way.
    fn in_flight(&mut self, output: Output, key: &ObjectKey, is_removal: bool) {
        let resolver = self.resolvers.get_mut(key);
        if let Some(resolver) = resolver.filter(|resolver| resolver.in_flight) {
            resolver.meanwhile.insert(output, is_removal);
        }
    }

    /// Takes in what a job has stored, unless it may be gone or changed since. Then it is read again, since its creation
    /// fails if it exists.
    pub(super) fn stored(&mut self, output: Output, key: &ObjectKey, observed: Observed) {
        let resolver = self.resolvers.get_mut(key);
        let meanwhile = resolver.and_then(|it| it.meanwhile.remove(&output));
        let outputs = self.outputs_mut(output);
        let is_unsure = match (meanwhile, outputs.get(key)) {
            (None, _) => false,
            (Some(true), _) | (Some(false), None) => true,
            (Some(false), Some(known)) => {
                known.version != observed.version
                    && !known.is_newer_than(&observed)
                    && !observed.is_newer_than(known)
            }
        };
        if is_unsure {
            outputs.remove(key);
        } else {
            outputs.put(key.clone(), observed);
        }
    }

    fn output_removed(&mut self, output: Output, key: &ObjectKey, now: Now) {
        self.in_flight(output, key, true);
        let allowed_dns = self.policies.allows_dns(&key.namespace);
        if self.outputs_mut(output).remove(key).is_none() {
            return;
        }
        self.compare_dns(&key.namespace, allowed_dns);
        if let Some(resolver) = self.resolvers.get_mut(key) {
            if resolver.written.contains_key(&output) && resolver.request.wants(output) {
                resolver.undone(output, now.instant);
                self.undone += 1;
            } else {
                resolver.touch(now.instant);
            }
            self.status_due.insert(key.clone());
        }
    }

    /// The policies of a namespace decide whether its pods reach DNS. If that has changed, all statuses there may.
    pub(super) fn compare_dns(&mut self, namespace: &str, allowed_dns: bool) {
        if self.policies.allows_dns(namespace) == allowed_dns {
            return;
        }
        let from = self.resolvers.range(ObjectKey::before_all_in(namespace)..);
        let inside = from.take_while(|(key, _)| key.namespace == namespace);
        self.status_due.extend(inside.map(|(key, _)| key.clone()));
    }
}
