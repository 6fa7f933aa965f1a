//! Events of the store.

use std::collections::BTreeSet;

use proto::api::{DnsName, DnsNameResolver, DnsResolver};
use runtime::store::{Event, ObjectKey};

use super::{Now, Planner};
use crate::{
    output::{Observed, Output, Written, covers},
    resolver::{Meanwhile, Resolver},
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
            let is_answered = self.names.is_answered(&name);
            for key in users {
                if let Some(resolver) = self.resolvers.get_mut(key) {
                    if is_answered {
                        resolver.unanswered.remove(&name);
                    }
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
                    |key: &ObjectKey| listed.contains(key) || covers(&self.unreadable, key);
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
        self.seen_namespaces.insert(key.namespace.clone());
        let before = match self.resolvers.get_mut(&key) {
            Some(resolver) => match resolver.update(object, now.instant) {
                Some(before) => before.valid().cloned().collect(),
                None => return,
            },
            None => {
                let mut resolver = Resolver::new(object, now.instant);
                if self.flights.has_job(&key) {
                    // A job of the object before is under way, and events since then were not kept for it.
                    resolver.begin_job();
                    let all = Output::ALL.map(|output| (output, Meanwhile::Listed));
                    resolver.meanwhile.extend(all);
                }
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
        if let Some(resolver) = self.resolvers.get_mut(&key) {
            let mut unanswered = after;
            unanswered.retain(|name| !self.names.is_answered(name));
            resolver.unanswered = unanswered;
        }
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
            Event::Synced(objects) => self.apply_list(objects, now),
            Event::Applied(object) => {
                let (key, observed) = (ObjectKey::of(object), Observed::of(object));
                self.output_changed(K::OUTPUT, key, observed, false, now);
            }
            Event::Deleted(key) => self.output_removed(K::OUTPUT, key, now),
            Event::Undecodable(keys) => self.outputs_mut(K::OUTPUT).set_unreadable(keys),
            Event::OutOfSync(_) => {
                let outputs = self.outputs_mut(K::OUTPUT);
                outputs.is_out_of_sync = true;
                if !outputs.has_been_read {
                    self.mark_users_of(K::OUTPUT);
                }
            }
        }
    }

    fn apply_list<K: Written>(&mut self, objects: &[K], now: Now) {
        let output = K::OUTPUT;
        for resolver in self.resolvers.values_mut().filter(|it| it.in_flight) {
            resolver.meanwhile.insert(output, Meanwhile::Listed);
        }
        let listed = objects.iter().map(ObjectKey::of).collect();
        for key in self.outputs(output).missing(&listed) {
            self.output_removed(output, &key, now);
        }
        for object in objects {
            let (key, observed) = (ObjectKey::of(object), Observed::of(object));
            self.output_changed(output, key, observed, true, now);
        }
        let outputs = self.outputs_mut(output);
        outputs.is_out_of_sync = false;
        let is_first = !std::mem::replace(&mut outputs.has_been_read, true);
        for resolver in self.resolvers.values_mut() {
            // Plans before the first list lack the kind, and failed writes may have waited for any list.
            if resolver.failures.remove(&output).is_some() || is_first {
                resolver.touch(now.instant);
            }
        }
    }

    /// The statuses of DNSResolvers that want such an object may change.
    pub(super) fn mark_users_of(&mut self, output: Output) {
        let users = self.resolvers.iter();
        let users = users.filter(|(_, resolver)| resolver.request.wants(output));
        for (key, _) in users {
            self.status_due.insert(key.clone());
        }
    }

    fn output_changed(
        &mut self,
        output: Output,
        key: ObjectKey,
        observed: Observed,
        is_listed: bool,
        now: Now,
    ) {
        let fingerprint = observed.fingerprint;
        let controller = observed.controller.clone();
        self.in_flight(output, &key, Meanwhile::Changed);
        let allowed_dns = self.policies.allows_dns(&key.namespace);
        let outputs = self.outputs_mut(output);
        let has_changed = match is_listed {
            true => outputs.replace(key.clone(), observed),
            false => outputs.put(key.clone(), observed),
        };
        if !has_changed {
            return;
        }
        self.has_orphans = true;
        self.compare_dns(&key.namespace, allowed_dns);
        if let Some(resolver) = self.resolvers.get_mut(&key) {
            let written = resolver.written.get(&output);
            // While a job writes objects the event may tell of its own write.
            let is_foreign = !resolver.is_writing_objects;
            if is_foreign && written.is_some_and(|written| *written != fingerprint) {
                resolver.undone(output, now.instant);
                self.undone += 1;
            } else if resolver.is_controller_of(controller.as_deref()) {
                // An object of another owner is left alone, so it is no reason for a plan.
                resolver.touch(now.instant);
            }
            self.status_due.insert(key);
        }
    }

    /// Remembers an event for the result of the job that is under way.
    fn in_flight(&mut self, output: Output, key: &ObjectKey, event: Meanwhile) {
        let resolver = self.resolvers.get_mut(key);
        if let Some(resolver) = resolver.filter(|resolver| resolver.in_flight) {
            let known = resolver.meanwhile.entry(output).or_insert(event);
            if *known != Meanwhile::Listed {
                *known = event;
            }
        }
    }

    fn output_removed(&mut self, output: Output, key: &ObjectKey, now: Now) {
        self.in_flight(output, key, Meanwhile::Removed);
        let allowed_dns = self.policies.allows_dns(&key.namespace);
        if self.outputs_mut(output).remove(key).is_none() {
            return;
        }
        self.compare_dns(&key.namespace, allowed_dns);
        if let Some(resolver) = self.resolvers.get_mut(key) {
            if resolver.request.wants(output) {
                if resolver.written.contains_key(&output) {
                    resolver.undone(output, now.instant);
                    self.undone += 1;
                } else {
                    resolver.touch(now.instant);
                }
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
        for (key, _) in inside {
            self.status_due.insert(key.clone());
        }
    }
}
