//! The owner of all statuses: the one place that computes changes. Synchronous and without IO; [`task`] feeds it and
//! carries its writes out.

mod entry;
pub mod task;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    time::Duration,
};

use metrics::{counter, gauge, histogram};
use proto::api::{DnsName, DnsNameResolver};
use runtime::{
    clock::Timestamp,
    store::{Event, ObjectKey},
};
use tracing::{debug, info, warn};

use self::entry::{Entry, Object};
use crate::{
    args::ManageObjects,
    guards::Guards,
    names::NameIndex,
    observation::Observation,
    policy::Wanted,
    publish::{Outcome, Write},
    state::{Learned, Limits},
};

/// How the owner does its work.
#[derive(Clone, Debug)]
pub struct Config {
    /// The namespace of the DNSNameResolver objects.
    pub namespace: String,
    /// Who makes and deletes objects.
    pub manage_objects: ManageObjects,
    /// The bounds of what is believed.
    pub limits: Limits,
    /// Which addresses may stand in a status.
    pub guards: Guards,
}

/// All that is known, by the name that an object wants.
#[derive(Debug)]
pub struct Owner {
    config: Config,
    entries: HashMap<DnsName, Entry>,
    /// Which name each object is of.
    objects: BTreeMap<ObjectKey, DnsName>,
    wanted: Wanted,
    /// Whether every object of the store is known, so that what is not known does not exist.
    objects_in_sync: bool,
    /// Objects that are being written, with what the watch said of them meanwhile.
    in_flight: HashMap<ObjectKey, VecDeque<Event<DnsNameResolver>>>,
    /// Names to look at in [`Owner::writes`].
    dirty: BTreeSet<DnsName>,
    wakes: BTreeSet<(Timestamp, DnsName)>,
    names_changed: bool,
}

impl Owner {
    /// Nothing is known yet.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            entries: HashMap::new(),
            objects: BTreeMap::new(),
            wanted: Wanted::default(),
            objects_in_sync: false,
            in_flight: HashMap::new(),
            dirty: BTreeSet::new(),
            wakes: BTreeSet::new(),
            names_changed: false,
        }
    }

    /// Takes in an answer: for the name itself, and for the wildcard above it.
    pub fn observe(&mut self, observation: &Observation) {
        let wildcard = observation.name.wildcard();
        for spec in std::iter::once(&observation.name).chain(wildcard.as_ref()) {
            let Some(entry) = self.entries.get_mut(spec) else {
                continue;
            };
            let learned = entry.memory.observe(observation, &self.config.limits);
            count(spec, learned);
            if learned.changed {
                entry.unwritten_since.get_or_insert(observation.at);
                self.dirty.insert(spec.clone());
            }
        }
    }

    /// Takes in the names in use.
    pub fn want(&mut self, wanted: Wanted) {
        let differing: Vec<DnsName> = match wanted.in_sync == self.wanted.in_sync {
            true => wanted
                .names
                .symmetric_difference(&self.wanted.names)
                .cloned()
                .collect(),
            false => wanted
                .names
                .union(&self.wanted.names)
                .chain(self.entries.keys())
                .cloned()
                .collect(),
        };
        for name in &wanted.names {
            if !self.entries.contains_key(name) {
                self.entries.insert(name.clone(), Entry::new(name.clone()));
                self.names_changed = true;
            }
        }
        self.wanted = wanted;
        self.dirty.extend(differing);
    }

    /// Takes in what the watch of the objects says.
    pub fn event(&mut self, event: Event<DnsNameResolver>, now: Timestamp) {
        match event {
            Event::Synced(objects) => {
                info!(
                    objects = objects.len(),
                    "DNSNameResolver objects are in sync"
                );
                let listed: BTreeSet<ObjectKey> = objects.iter().map(ObjectKey::of).collect();
                let gone: Vec<ObjectKey> = self
                    .objects
                    .keys()
                    .filter(|key| !listed.contains(key))
                    .cloned()
                    .collect();
                for key in gone {
                    self.event(Event::Deleted(key), now);
                }
                for object in objects {
                    self.event(Event::Applied(object), now);
                }
                self.objects_in_sync = true;
                self.dirty.extend(self.entries.keys().cloned());
            }
            Event::OutOfSync(reason) => {
                warn!(%reason, "DNSNameResolver objects cannot be read; nothing is made or deleted meanwhile");
                self.objects_in_sync = false;
            }
            Event::Applied(object) => {
                let key = ObjectKey::of(&object);
                if let Some(later) = self.in_flight.get_mut(&key) {
                    later.push_back(Event::Applied(object));
                } else if !self.is_late(&key, &object) {
                    self.apply(key, object, now);
                }
            }
            Event::Deleted(key) => match self.in_flight.get_mut(&key) {
                Some(later) => later.push_back(Event::Deleted(key)),
                None => self.remove(&key),
            },
        }
    }

    /// Takes in what came of a write.
    pub fn written(&mut self, key: &ObjectKey, write: &Write, outcome: Outcome, now: Timestamp) {
        let later = self.in_flight.remove(key).unwrap_or_default();
        match outcome {
            Outcome::Stored(object) => {
                if let Write::Status(_) = write {
                    self.record_lag(&object, now);
                }
                self.stored(key, *object, now);
            }
            Outcome::Stale(object) => self.taken(key, write, *object, now),
            Outcome::Gone => self.remove(key),
            Outcome::Failed => self.failed(key, write, now),
        }
        for event in later {
            self.event(event, now);
        }
    }

    /// Forgets the addresses whose time is over.
    pub fn tick(&mut self, now: Timestamp) {
        while let Some((at, spec)) = self.wakes.first().cloned() {
            if at > now {
                break;
            }
            self.wakes.pop_first();
            let Some(entry) = self.entries.get_mut(&spec) else {
                continue;
            };
            entry.wake = None;
            let expired = entry.memory.expire(now, &self.config.limits);
            if expired > 0 {
                debug!(name = %spec, addresses = expired, "expired");
                counter!("collector_addresses_expired_total").increment(expired as u64);
            }
            self.dirty.insert(spec);
        }
    }

    /// The writes to start now: at most one for each object at a time.
    pub fn writes(&mut self, now: Timestamp) -> Vec<Write> {
        let mut writes = Vec::new();
        for spec in std::mem::take(&mut self.dirty) {
            let Some(entry) = self.entries.get_mut(&spec) else {
                continue;
            };
            let wanted = self.wanted.names.contains(&spec);
            if !wanted && entry.objects.is_empty() && !entry.creating {
                self.entries.remove(&spec);
                self.names_changed = true;
                continue;
            }
            if entry.retry_at > now {
                self.wake(&spec, now);
                continue;
            }
            let before = writes.len();
            let manage = self.config.manage_objects != ManageObjects::Never && self.objects_in_sync;
            if manage && wanted && entry.objects.is_empty() && !entry.creating {
                entry.creating = true;
                writes.push(Write::Create(Box::new(
                    entry.object(&self.config.namespace),
                )));
            }
            let unused = manage && self.wanted.in_sync && !wanted;
            for (key, object) in &entry.objects {
                if self.in_flight.contains_key(key) {
                    continue;
                }
                if unused && object.is_ours() {
                    writes.push(object.delete(key));
                    continue;
                }
                let stored = object.stored.status.clone().unwrap_or_default();
                if let Some(change) = entry.memory.render(&stored, now) {
                    let mut object = object.stored.clone();
                    object.status = Some(change.status);
                    writes.push(Write::Status(Box::new(object)));
                }
            }
            if writes.len() == before
                && !entry
                    .objects
                    .keys()
                    .any(|key| self.in_flight.contains_key(key))
            {
                // What was learned needs no write.
                entry.unwritten_since = None;
            }
            self.wake(&spec, now);
        }
        for write in &writes {
            self.in_flight.insert(write.key(), VecDeque::new());
        }
        writes
    }

    /// When [`Owner::tick`] has something to do.
    pub fn next_wake(&self) -> Option<Timestamp> {
        self.wakes.first().map(|(at, _)| *at)
    }

    /// The index of wanted names, if it changed since the last call. It holds the names in use and those of all objects, so that an answer counts even before the object is there.
    pub fn take_index(&mut self) -> Option<NameIndex> {
        std::mem::take(&mut self.names_changed).then(|| self.entries.keys().collect())
    }

    /// Whether nothing waits to be written, or to come back from the store.
    pub fn is_settled(&self) -> bool {
        self.dirty.is_empty() && self.in_flight.is_empty()
    }

    /// Sets the gauges.
    pub fn report(&self) {
        gauge!("collector_names").set(self.entries.len() as f64);
        gauge!("collector_objects").set(self.objects.len() as f64);
        let addresses: usize = self
            .entries
            .values()
            .map(|entry| entry.memory.addresses())
            .sum();
        gauge!("collector_addresses").set(addresses as f64);
    }

    /// Whether the watch delivers an earlier state of an object than a write has returned.
    fn is_late(&mut self, key: &ObjectKey, object: &DnsNameResolver) -> bool {
        let entry = self
            .objects
            .get(key)
            .and_then(|spec| self.entries.get_mut(spec));
        entry
            .and_then(|entry| entry.objects.get_mut(key))
            .is_some_and(|known| known.is_late(object))
    }

    fn apply(&mut self, key: ObjectKey, object: DnsNameResolver, now: Timestamp) {
        let spec = match DnsName::parse(&object.spec.name) {
            Ok(spec) if spec.as_str() == object.spec.name => spec,
            _ => {
                counter!("collector_objects_ignored_total").increment(1);
                warn!(object = %key, name = ?object.spec.name, "object ignored: its spec.name is no lower-case fully qualified name");
                self.remove(&key);
                return;
            }
        };
        if self.objects.get(&key).is_some_and(|known| *known != spec) {
            self.remove(&key);
        }
        let entry = self.entries.entry(spec.clone()).or_insert_with(|| {
            self.names_changed = true;
            Entry::new(spec.clone())
        });
        if let Some(status) = &object.status {
            let learned =
                entry
                    .memory
                    .absorb(status, now, &self.config.limits, &self.config.guards);
            count(&spec, learned);
        }
        entry
            .objects
            .entry(key.clone())
            .and_modify(|known| known.replace(object.clone()))
            .or_insert_with(|| Object::new(object));
        self.objects.insert(key, spec.clone());
        self.dirty.insert(spec);
    }

    fn stored(&mut self, key: &ObjectKey, object: DnsNameResolver, now: Timestamp) {
        self.succeeded(&object);
        self.apply(key.clone(), object, now);
    }

    /// Somebody else's object stands there: one of the same name is used, one of another name has taken the key by chance.
    fn taken(&mut self, key: &ObjectKey, write: &Write, object: DnsNameResolver, now: Timestamp) {
        if let Write::Create(wanted) = write
            && wanted.spec.name != object.spec.name
            && let Some(entry) = DnsName::parse(&wanted.spec.name)
                .ok()
                .and_then(|name| self.entries.get_mut(&name))
        {
            entry.creating = false;
            entry.collisions += 1;
            self.dirty.extend(DnsName::parse(&wanted.spec.name));
        }
        self.stored(key, object, now);
    }

    fn remove(&mut self, key: &ObjectKey) {
        let Some(spec) = self.objects.remove(key) else {
            return;
        };
        if let Some(entry) = self.entries.get_mut(&spec) {
            entry.objects.remove(key);
        }
        self.dirty.insert(spec);
    }

    fn failed(&mut self, key: &ObjectKey, write: &Write, now: Timestamp) {
        let spec = match write {
            Write::Create(object) => DnsName::parse(&object.spec.name).ok(),
            _ => self.objects.get(key).cloned(),
        };
        let Some(spec) = spec else { return };
        if let Some(entry) = self.entries.get_mut(&spec) {
            entry.creating = false;
            entry.failures = entry.failures.saturating_add(1);
            let backoff = Duration::from_millis(100) * 2_u32.pow(entry.failures.min(7) - 1);
            entry.retry_at = now + backoff.min(Duration::from_secs(10));
        }
        self.dirty.insert(spec);
    }

    fn succeeded(&mut self, object: &DnsNameResolver) {
        if let Some(entry) = DnsName::parse(&object.spec.name)
            .ok()
            .and_then(|name| self.entries.get_mut(&name))
        {
            entry.creating = false;
            entry.failures = 0;
            entry.retry_at = Timestamp::default();
        }
    }

    fn record_lag(&mut self, object: &DnsNameResolver, now: Timestamp) {
        let entry = DnsName::parse(&object.spec.name)
            .ok()
            .and_then(|name| self.entries.get_mut(&name));
        if let Some(since) = entry.and_then(|entry| entry.unwritten_since.take()) {
            histogram!("collector_status_lag_seconds").record(now.since(since));
        }
    }

    fn wake(&mut self, spec: &DnsName, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(spec) else {
            return;
        };
        let retry = (entry.retry_at > now).then_some(entry.retry_at);
        let wake = entry
            .memory
            .next_removal(&self.config.limits)
            .into_iter()
            .chain(retry)
            .min();
        if wake == entry.wake {
            return;
        }
        if let Some(old) = entry.wake.take() {
            self.wakes.remove(&(old, spec.clone()));
        }
        entry.wake = wake;
        self.wakes.extend(wake.map(|at| (at, spec.clone())));
    }
}

fn count(spec: &DnsName, learned: Learned) {
    if learned.evicted_addresses > 0 {
        counter!("collector_evictions_total", "what" => "address")
            .increment(learned.evicted_addresses as u64);
        debug!(name = %spec, addresses = learned.evicted_addresses, "evicted: a limit is reached");
    }
    if learned.evicted_names > 0 {
        counter!("collector_evictions_total", "what" => "name")
            .increment(learned.evicted_names as u64);
        debug!(wildcard = %spec, names = learned.evicted_names, "evicted: a limit is reached");
    }
}
