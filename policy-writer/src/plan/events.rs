//! Events of the store.

use std::collections::BTreeSet;

use proto::api::{DnsName, DnsNameResolver, DnsResolver};
use runtime::store::{Event, ObjectKey};
use tracing::info;

use super::{DNS_NAME_RESOLVER, DNS_RESOLVER, Now, Observed, Output, Planner, Resolver, Written};
use crate::names::{Request, absent};

impl Planner {
    /// Applies an event about statuses of names.
    pub fn apply_names(&mut self, event: &Event<DnsNameResolver>, now: Now) {
        self.apply_reading(DNS_NAME_RESOLVER, event);
        for name in self.names.apply(event) {
            let Some(users) = self.users.get(&name) else {
                self.names.forget(&name);
                continue;
            };
            for key in users {
                if let Some(resolver) = self.resolvers.get_mut(key) {
                    resolver.touch(now.instant);
                }
            }
        }
    }

    /// Applies an event about `DNSResolver` objects.
    pub fn apply_resolvers(&mut self, event: &Event<DnsResolver>, now: Now) {
        self.apply_reading(DNS_RESOLVER, event);
        match event {
            Event::Synced(objects) => {
                let listed: BTreeSet<_> = objects.iter().map(ObjectKey::of).collect();
                for key in absent(self.resolvers.keys(), &listed, &self.unreadable) {
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

    /// Applies an event about objects of a kind that this program writes.
    pub fn apply_output<K: Written>(&mut self, event: &Event<K>, now: Now) {
        let output = K::OUTPUT;
        let is_known = self.is_read(output) || self.cannot_be_read(output);
        self.apply_reading(output.name(), event);
        let known = self.stored.of(output);
        match event {
            Event::Synced(objects) => {
                let listed: BTreeSet<_> = objects.iter().map(ObjectKey::of).collect();
                for key in absent(known.objects.keys(), &listed, &known.unreadable) {
                    self.change_output(output, &key, None, now);
                }
                for object in objects {
                    let (key, observed) = (ObjectKey::of(object), Observed::of(object));
                    self.change_output(output, &key, Some(observed), now);
                }
                for job in self.in_flight.values_mut() {
                    job.touched.insert(output);
                }
                // Plans before the first list lack the kind, and writes may have failed since it was not served.
                for resolver in self.resolvers.values_mut() {
                    resolver.failures.remove(&output);
                    resolver.touch(now.instant);
                }
            }
            Event::Applied(object) => {
                let (key, observed) = (ObjectKey::of(object), Observed::of(object));
                let known = known.objects.get(&key);
                if known.is_none_or(|known| !known.is_newer_than(&observed)) {
                    self.change_output(output, &key, Some(observed), now);
                }
            }
            Event::Deleted(key) => self.change_output(output, key, None, now),
            Event::Undecodable(keys) => {
                let unreadable = &mut self.stored.of_mut(output).unreadable;
                let before = std::mem::replace(unreadable, keys.clone());
                for key in before.symmetric_difference(keys) {
                    self.touch(key, now);
                }
            }
            Event::OutOfSync(_) if is_known => {}
            // The statuses name a kind that was never read.
            Event::OutOfSync(_) => {
                for resolver in self.resolvers.values_mut() {
                    resolver.touch(now.instant);
                }
            }
        }
    }

    fn apply_reading<K>(&mut self, kind: &'static str, event: &Event<K>) {
        let reading = self.readings.entry(kind).or_default();
        match event {
            Event::Synced(objects) => {
                info!(kind, objects = objects.len(), "objects were read");
                reading.is_read = true;
                reading.failure = None;
            }
            Event::OutOfSync(reason) => reading.failure = Some(reason.clone()),
            Event::Applied(_) | Event::Deleted(_) | Event::Undecodable(_) => {}
        }
    }

    fn touch(&mut self, key: &ObjectKey, now: Now) {
        if let Some(resolver) = self.resolvers.get_mut(key) {
            resolver.touch(now.instant);
        }
    }

    /// Takes in a stored object, or that there is none.
    fn change_output(
        &mut self,
        output: Output,
        key: &ObjectKey,
        observed: Option<Observed>,
        now: Now,
    ) {
        if let Some(job) = self.in_flight.get_mut(key) {
            job.touched.insert(output);
        }
        let known = self.stored.get(output, key);
        if known == observed.as_ref() {
            return;
        }
        let allows_dns = |it: Option<&Observed>| it.is_some_and(|it| it.allows_dns);
        let is_dns_changed = allows_dns(known) != allows_dns(observed.as_ref());
        self.stored.set(output, key, observed);
        self.touch(key, now);
        if is_dns_changed {
            // The policies of a namespace decide whether its pods reach DNS, which the statuses say.
            let from = ObjectKey::before_all_in(&key.namespace);
            let others = self.resolvers.range_mut(from..);
            for (_, resolver) in others.take_while(|(it, _)| it.namespace == key.namespace) {
                resolver.touch(now.instant);
            }
        }
    }

    fn put_resolver(&mut self, object: &DnsResolver, now: Now) {
        let (key, request) = (ObjectKey::of(object), Request::of(object));
        let known = self.resolvers.get(&key);
        if known.is_some_and(|known| known.request.uid != request.uid) {
            self.remove_resolver(&key);
        }
        let after = request.valid();
        let before = match self.resolvers.get_mut(&key) {
            Some(resolver) => {
                let before = resolver.request.valid();
                resolver.update(object, request, now.instant);
                before
            }
            None => {
                let resolver = Resolver::new(object, request, now.instant);
                self.resolvers.insert(key.clone(), resolver);
                BTreeSet::new()
            }
        };
        self.change_users(&key, &before, &after);
    }

    fn remove_resolver(&mut self, key: &ObjectKey) {
        if let Some(resolver) = self.resolvers.remove(key) {
            self.change_users(key, &resolver.request.valid(), &BTreeSet::new());
        }
    }

    /// The names of a `DNSResolver` are others than before.
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
            let users = self.users.entry(name.clone()).or_default();
            users.insert(key.clone());
        }
    }
}
