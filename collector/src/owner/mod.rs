//! The owner of all statuses: the one place that computes changes. Synchronous and without IO; [`task`] feeds it and
//! carries its writes and look-ups out.
//!
//! - `entry`: what is kept of one name.
//! - `lookups`: when names are looked up, and what comes of it.
//! - `writes`: what is written when.

mod budget;
mod dirty;
mod entry;
mod evictions;
#[cfg(test)]
mod lookup_tests;
mod lookups;
#[cfg(test)]
mod replica_tests;
mod schedule;
pub mod task;
#[cfg(test)]
mod tests;
mod view;
mod writes;

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

use self::{
    budget::Budget,
    dirty::Dirty,
    entry::{Entry, Object},
    schedule::Schedule,
};
pub use self::{
    budget::Rates,
    evictions::{Evictions, Told},
    view::{FailureView, NameView, View},
};
use crate::{
    args::ManageObjects,
    guards::Guards,
    names::NameIndex,
    observation::Observation,
    policy::Wanted,
    publish::{Outcome, Write},
    remember::Remembered,
    state::{Learned, Limits},
};

/// The longest wait after a write that failed.
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// The longest wait that the store is granted if it asks for one.
const MAX_ASKED: Duration = Duration::from_secs(60);

/// How the owner does its work.
#[derive(Clone, Debug)]
pub struct Config {
    /// The namespace of the DNSNameResolver objects.
    pub namespace: String,
    /// Who makes and deletes objects.
    pub manage_objects: ManageObjects,
    /// How long a name in use is left to others to make an object for, where objects are managed automatically.
    pub create_after: Duration,
    /// The bounds of what is believed.
    pub limits: Limits,
    /// Which addresses may stand in a status.
    pub guards: Guards,
    /// Nothing but times is written for an object more often than this (`--status-times-interval`).
    pub times_interval: Duration,
    /// How much of that is written in all.
    pub rates: Rates,
    /// Answers that nobody wanted when they came.
    pub remembered: Remembered,
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
    dirty: Dirty,
    /// Those of them that have no object: it is made when nothing else is to be written.
    unmade: Dirty,
    wakes: BTreeSet<(Timestamp, DnsName)>,
    names_changed: bool,
    /// Whether this replica looks names up, removes addresses, and makes and deletes objects.
    leader: bool,
    /// The program ends: what is not written now never is.
    ending: bool,
    schedule: Schedule,
    budget: Budget,
    evictions: Evictions,
    /// Names whose evictions are still to be told of.
    untold: BTreeSet<DnsName>,
}

impl Owner {
    /// Nothing is known yet, and this replica does not lead.
    pub fn new(config: Config) -> Self {
        Self {
            budget: Budget::new(config.rates),
            config,
            entries: HashMap::new(),
            objects: BTreeMap::new(),
            wanted: Wanted::default(),
            objects_in_sync: false,
            in_flight: HashMap::new(),
            dirty: Dirty::default(),
            unmade: Dirty::default(),
            wakes: BTreeSet::new(),
            names_changed: false,
            leader: false,
            ending: false,
            schedule: Schedule::default(),
            evictions: Evictions::default(),
            untold: BTreeSet::new(),
        }
    }

    /// Leads from now on, or no longer. Who begins to lead looks every name up before it removes anything.
    pub fn lead(&mut self, leader: bool, now: Timestamp) {
        if leader != self.leader {
            info!(leader, "leadership");
            self.leader = leader;
            self.gap(now);
            self.dirty.extend(self.entries.keys().cloned());
        }
    }

    /// The program ends: addresses that wait because their object was just written wait no longer.
    pub fn end(&mut self) {
        self.ending = true;
        self.dirty.extend(self.entries.keys().cloned());
    }

    /// Takes in an answer: for the name itself, and for the wildcard above it.
    pub fn observe(&mut self, observation: &Observation) {
        let wildcard = observation.name.wildcard();
        for spec in std::iter::once(&observation.name).chain(wildcard.as_ref()) {
            let Some(entry) = self.entries.get_mut(spec) else {
                continue;
            };
            let learned = entry.memory.observe(observation, &entry.limits);
            if learned.urgent {
                entry.unwritten_since.get_or_insert(observation.at);
            }
            self.learned(spec, learned);
        }
        if observation.client.is_some() {
            self.schedule.answered(&observation.name);
        }
        self.reschedule(&observation.name);
        // Of our own look-ups only the datagram is cut off: TCP has brought the rest.
        if observation.truncated && observation.client.is_some() && self.looks_up() {
            self.schedule.hurry(&observation.name, observation.at);
        }
    }

    /// Takes in the names in use.
    pub fn want(&mut self, wanted: Wanted, now: Timestamp) {
        if wanted.in_sync != self.wanted.in_sync {
            self.dirty.extend(self.entries.keys().cloned());
        }
        let gone = self
            .wanted
            .names
            .keys()
            .filter(|name| !wanted.names.contains_key(*name));
        self.dirty.extend(gone.cloned());
        for (name, terms) in &wanted.names {
            if self.wanted.names.get(name) == Some(terms) {
                continue;
            }
            let entry = self.entries.entry(name.clone()).or_insert_with(|| {
                self.names_changed = true;
                Entry::new(name.clone(), &self.config.limits, now)
            });
            entry.limits = terms.limits(&self.config.limits);
            let fresh = std::mem::take(&mut entry.fresh);
            self.dirty.insert(name.clone());
            self.reschedule(name);
            if fresh {
                self.recall(name, now);
            }
        }
        self.wanted = wanted;
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
                let known = self.objects.keys();
                let gone: Vec<ObjectKey> =
                    known.filter(|key| !listed.contains(key)).cloned().collect();
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
            // Making such an object is refused, and nothing is deleted that is not known.
            Event::Undecodable(_) => {}
            Event::Applied(object) => {
                let key = ObjectKey::of(&object);
                if let Some(later) = self.in_flight.get_mut(&key) {
                    later.push_back(Event::Applied(object));
                } else if !self
                    .object_mut(&key)
                    .is_some_and(|known| known.is_late(&object))
                {
                    self.apply(key, object, now);
                }
            }
            Event::Deleted(key) => match self.in_flight.get_mut(&key) {
                Some(later) => later.push_back(Event::Deleted(key)),
                None => self.remove(&key, now),
            },
        }
    }

    /// Takes in what came of a write.
    pub fn written(&mut self, key: &ObjectKey, write: &Write, outcome: Outcome, now: Timestamp) {
        let later = self.in_flight.remove(key).unwrap_or_default();
        match outcome {
            Outcome::Stored(object) => {
                let of_status = matches!(write, Write::Status(_));
                if of_status {
                    self.record_lag(&object, now);
                }
                self.stored(key, *object, now);
                if let Some(object) = self.object_mut(key).filter(|_| of_status) {
                    object.was_written(now);
                }
            }
            Outcome::Stale(object) => self.taken(key, write, *object, now),
            // What stood in its place has gone again, or there is no such namespace.
            Outcome::Gone if matches!(write, Write::Create(_)) => {
                self.failed(key, write, Duration::ZERO, now);
            }
            Outcome::Gone => self.remove(key, now),
            Outcome::Refused => self.failed(key, write, Duration::ZERO, now),
            Outcome::Failed(wait) => self.failed(key, write, wait.unwrap_or_default(), now),
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
            if self.leader {
                let expired = entry.memory.expire(now, &entry.limits);
                counter!("collector_addresses_expired_total").increment(expired.len() as u64);
                for (name, ip) in &expired {
                    debug!(%name, %ip, "expired");
                    self.reschedule(name);
                }
            }
            self.dirty.insert(spec);
        }
    }

    /// When [`Owner::tick`] or [`Owner::next_request`] has something to do.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let wake = self.wakes.first().map(|(at, _)| *at);
        wake.into_iter().chain(self.schedule.next()).min()
    }

    /// The index of wanted names, if it changed since the last call. It holds the names in use and those of all objects,
    /// so that an answer counts even before the object is there.
    pub fn take_index(&mut self) -> Option<NameIndex> {
        std::mem::take(&mut self.names_changed).then(|| self.entries.keys().collect())
    }

    /// Whether nothing waits to be written, or to come back from the store.
    pub fn is_settled(&self) -> bool {
        self.dirty.is_empty() && self.unmade.is_empty() && self.in_flight.is_empty()
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
        gauge!("collector_lookup_names").set(self.schedule.len() as f64);
        gauge!("collector_leader").set(if self.leader { 1.0 } else { 0.0 });
    }

    fn apply(&mut self, key: ObjectKey, object: DnsNameResolver, now: Timestamp) {
        let spec = match DnsName::parse(&object.spec.name) {
            Ok(spec) if spec.as_str() == object.spec.name => spec,
            _ => {
                counter!("collector_objects_ignored_total").increment(1);
                warn!(object = %key, name = ?object.spec.name, "object ignored: its spec.name is no lower-case fully qualified name");
                self.remove(&key, now);
                return;
            }
        };
        if self.objects.get(&key).is_some_and(|known| *known != spec) {
            self.remove(&key, now);
        }
        let entry = self.entries.entry(spec.clone()).or_insert_with(|| {
            self.names_changed = true;
            Entry::new(spec.clone(), &self.config.limits, now)
        });
        let status = object.status.clone().unwrap_or_default();
        let learned = entry
            .memory
            .absorb(&status, now, &entry.limits, &self.config.guards);
        if !self.leader {
            entry.memory.follow(&status, now);
        }
        match entry.objects.get_mut(&key) {
            Some(known) => known.replace(object),
            None => {
                entry.objects.insert(key.clone(), Object::new(object));
            }
        }
        let fresh = std::mem::take(&mut entry.fresh);
        let names: Vec<DnsName> = entry.memory.names().chain([&spec]).cloned().collect();
        self.objects.insert(key, spec.clone());
        self.learned(&spec, learned);
        for name in names {
            self.reschedule(&name);
        }
        if fresh {
            self.recall(&spec, now);
        }
        self.dirty.insert(spec);
    }

    /// Takes in what pods were told of the name before anybody wanted it.
    fn recall(&mut self, name: &DnsName, now: Timestamp) {
        let remembered = self
            .config
            .remembered
            .recall(name, now, self.config.limits.min_ttl);
        if !remembered.is_empty() {
            counter!("collector_recalled_total").increment(remembered.len() as u64);
        }
        for observation in &remembered {
            self.observe(observation);
        }
    }

    fn stored(&mut self, key: &ObjectKey, object: DnsNameResolver, now: Timestamp) {
        if let Some(entry) = self.entry_mut(&object.spec.name) {
            entry.creating = false;
            entry.failures = 0;
            entry.retry_at = Timestamp::default();
        }
        self.apply(key.clone(), object, now);
    }

    /// Somebody else's object stands there: one of the same name is used, one of another name has taken the key by chance.
    fn taken(&mut self, key: &ObjectKey, write: &Write, object: DnsNameResolver, now: Timestamp) {
        if let Write::Create(wanted) = write
            && wanted.spec.name != object.spec.name
            && let Some(entry) = self.entry_mut(&wanted.spec.name)
        {
            entry.creating = false;
            entry.collisions += 1;
            self.dirty.extend(DnsName::parse(&wanted.spec.name));
        }
        self.stored(key, object, now);
    }

    fn remove(&mut self, key: &ObjectKey, now: Timestamp) {
        let Some(spec) = self.objects.remove(key) else {
            return;
        };
        if let Some(entry) = self.entries.get_mut(&spec) {
            entry.objects.remove(key);
            entry.missing_since = now;
        }
        self.dirty.insert(spec);
    }

    /// It is tried again, each time later, and not before what the store asks for.
    fn failed(&mut self, key: &ObjectKey, write: &Write, asked: Duration, now: Timestamp) {
        let spec = match write {
            Write::Create(object) => DnsName::parse(&object.spec.name).ok(),
            _ => self.objects.get(key).cloned(),
        };
        let Some(spec) = spec else {
            return;
        };
        if let Some(entry) = self.entries.get_mut(&spec) {
            entry.creating = false;
            entry.failures = entry.failures.saturating_add(1);
            let backoff = Duration::from_millis(100) * 2_u32.pow(entry.failures.min(7) - 1);
            let wait = backoff.min(MAX_BACKOFF).max(asked.min(MAX_ASKED));
            entry.retry_at = now + wait;
        }
        self.dirty.insert(spec);
    }

    fn record_lag(&mut self, object: &DnsNameResolver, now: Timestamp) {
        let entry = self.entry_mut(&object.spec.name);
        if let Some(since) = entry.and_then(|entry| entry.unwritten_since.take()) {
            histogram!("collector_status_lag_seconds").record(now.since(since));
        }
    }

    fn learned(&mut self, spec: &DnsName, learned: Learned) {
        if learned.evicted_addresses + learned.evicted_names > 0 {
            self.evicted(spec, &learned);
        }
        if learned.urgent || learned.times {
            self.dirty.insert(spec.clone());
        }
    }

    fn entry_mut(&mut self, spec: &str) -> Option<&mut Entry> {
        self.entries.get_mut(&DnsName::parse(spec).ok()?)
    }

    fn object_mut(&mut self, key: &ObjectKey) -> Option<&mut Object> {
        let spec = self.objects.get(key)?;
        self.entries.get_mut(spec)?.objects.get_mut(key)
    }
}
