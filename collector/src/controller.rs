//! The owner of all statuses: the one place that computes changes. Synchronous and without IO; [`task`] feeds it and
//! carries its writes and look-ups out.
//!
//! - `answers`: what answers bring.
//! - `absence`: names that no EgressFirewall has any more, and when that is believed.
//! - `entry`: what is kept of one name.
//! - `explain`, `view`: what there is to see of them.
//! - `guard_updates`: what goes when a guard comes.
//! - `newly_wanted`: what is known already of a name that is wanted from now on.
//! - `objects`: what the store has.
//! - `lookups`: when names are looked up, and what comes of it.
//! - `gap_backfill`: what is asked for again since events were lost.
//! - `standby`: what a collector writes that does not lead.
//! - `writes`: what is written when.

mod absence;
mod additions;
mod answers;
mod budget;
mod config;
mod dirty;
mod entry;
mod evictions;
mod explain;
mod gap_backfill;
mod guard_updates;
mod lookups;
mod metrics;
mod namespace_limits;
mod newly_wanted;
mod objects;
mod round_robin;
mod schedule;
mod standby;
pub mod task;
#[cfg(test)]
mod tests;
mod view;
mod write_results;
mod writes;

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use ::metrics::counter;
use proto::api::{DnsName, DnsNameResolver};
use runtime::{
    clock::Timestamp,
    store::{Event, ObjectKey},
};
use tracing::{debug, info};

use self::{
    absence::Absences,
    budget::Budget,
    dirty::Dirty,
    entry::{Entry, Object},
    gap_backfill::GapBackfill,
    namespace_limits::Shares,
    newly_wanted::NewlyWanted,
    schedule::Schedule,
    standby::Standby,
    writes::InFlightLimit,
};
pub use self::{
    budget::Rates,
    config::{Config, ManageObjects, Shared},
    evictions::{Evictions, Told},
    explain::{Facts, NameFacts, Question},
    metrics::METRICS,
    namespace_limits::{NamespaceLimits, NamespaceShare},
    view::{FailureView, NameView, View},
};
use crate::{
    event_history::{EventKind, HistoryEntry},
    hearing::Hearing,
    observation::Provenance,
    observe::names::NameIndex,
    rules::{Change, RetentionPolicy, Version, Wanted},
    state::{Limits, OwnLimits, UpdateEffect},
};

/// While a DNS server is not heard that was heard before, nothing is removed for so long.
const MAX_GAP: Duration = Duration::from_secs(600);

/// All that is known, by the name that an object wants.
#[derive(Debug)]
pub struct StatusController {
    config: Config,
    /// The limits of names on no terms of their own.
    limits: Arc<Limits>,
    entries: HashMap<DnsName, Box<Entry>>,
    /// Which name each object is of, by the object's own.
    objects: HashMap<Arc<str>, DnsName>,
    /// Whether every name in use is known, so that others are not in use.
    wanted_in_sync: bool,
    /// There are rules of which no name is known.
    unknown_rules: bool,
    absences: Absences,
    /// Whether every object of the store is known, so that what is not known does not exist.
    objects_in_sync: bool,
    /// They were known before, in this process.
    were_objects_in_sync: bool,
    /// Objects that are there and cannot be read.
    unreadable: BTreeSet<ObjectKey>,
    /// Objects that are being written, with what the watch said of them meanwhile.
    in_flight: HashMap<ObjectKey, VecDeque<Event<DnsNameResolver>>>,
    /// The store asked to be left alone until then.
    paused_until: Option<Timestamp>,
    window: InFlightLimit,
    /// Names to look at in [`StatusController::writes`].
    dirty: Dirty,
    wakes: BTreeSet<(Timestamp, DnsName)>,
    newly_wanted: NewlyWanted,
    repairs: GapBackfill,
    /// The names of all entries, as the readers see them.
    index: NameIndex,
    index_changed: bool,
    /// The names in use were looked at as they were then.
    wanted_seen: Version,
    /// Whether this collector looks names up, removes addresses, and makes and deletes objects.
    leader: bool,
    leads_since: Timestamp,
    standby: Standby,
    hearing: Hearing,
    /// Since when a DNS server that was heard is not, and nothing is removed; for [`MAX_GAP`] at most.
    gap_since: Option<Timestamp>,
    /// When names were last taken to be in use, as a DNS server was not heard.
    not_idle_at: Timestamp,
    /// Another program removes addresses by the times of statuses.
    foreign_gc_detected: bool,
    /// The program ends: what is not written now never is.
    ending: bool,
    schedule: Schedule,
    budget: Budget,
    shares: Shares,
    evictions: Evictions,
    /// Names whose evictions are still to be told of.
    untold: BTreeSet<DnsName>,
}

impl StatusController {
    /// Nothing is known yet, and this collector does not lead.
    pub fn new(config: Config) -> Self {
        Self {
            budget: Budget::new(config.rates),
            limits: Arc::new(config.limits.clone()),
            config,
            entries: HashMap::new(),
            objects: HashMap::new(),
            wanted_in_sync: false,
            unknown_rules: false,
            absences: Absences::default(),
            objects_in_sync: false,
            were_objects_in_sync: false,
            unreadable: BTreeSet::new(),
            in_flight: HashMap::new(),
            paused_until: None,
            window: InFlightLimit::default(),
            dirty: Dirty::default(),
            wakes: BTreeSet::new(),
            newly_wanted: NewlyWanted::default(),
            repairs: GapBackfill::default(),
            index: NameIndex::default(),
            index_changed: false,
            wanted_seen: Version::default(),
            leader: false,
            standby: Standby::default(),
            hearing: Hearing::default(),
            gap_since: None,
            not_idle_at: Timestamp::default(),
            foreign_gc_detected: false,
            leads_since: Timestamp::default(),
            ending: false,
            schedule: Schedule::default(),
            shares: Shares::default(),
            evictions: Evictions::default(),
            untold: BTreeSet::new(),
        }
    }

    /// Leads from now on, or no longer. A new leader looks every name up before it removes anything of it.
    pub fn lead(&mut self, leader: bool, now: Timestamp) {
        if leader == self.leader {
            return;
        }
        info!(leader, "leadership");
        (self.leader, self.leads_since) = (leader, now);
        for entry in self.entries.values_mut().filter(|_| leader) {
            // What a standby left out of its own memory is nothing that a status says.
            entry.memory.forget_left_out();
            let Entry {
                memory,
                objects,
                limits,
                ..
            } = &mut **entry;
            for object in objects.iter() {
                // What follows is looked at below.
                memory.take_over(&object.status, now, limits, &self.config.guards);
            }
            entry.additions = None;
        }
        self.take_over_left_out(now);
        self.gap(now);
    }

    /// Which DNS servers are heard from now on.
    pub fn hear(&mut self, hearing: Hearing, now: Timestamp) {
        let before = std::mem::replace(&mut self.hearing, hearing);
        match (hearing.is_broken, self.gap_since) {
            (true, None) => self.gap_since = Some(now),
            (false, Some(_)) => self.end_gap(now),
            _ => {}
        }
        if before.is_missing != hearing.is_missing {
            self.not_idle(now);
        }
    }

    /// Answers may have been missed until now.
    fn end_gap(&mut self, now: Timestamp) {
        self.gap_since = None;
        self.hold(now);
        // Nothing was to be removed meanwhile: when it is has to be found out again.
        self.dirty.extend(self.entries.keys().cloned());
    }

    fn hold(&mut self, now: Timestamp) {
        for entry in self.entries.values_mut() {
            entry.memory.hold(now, &entry.limits);
        }
    }

    /// Whether addresses are removed whose time is over.
    fn removes(&self) -> bool {
        self.leader && self.gap_since.is_none()
    }

    /// Clients of a DNS server that is not heard may use any name.
    fn not_idle(&mut self, now: Timestamp) {
        self.not_idle_at = now;
        for entry in self.entries.values_mut() {
            entry.memory.not_idle(now);
        }
        let names = self.entries.values().flat_map(|it| it.memory.names());
        for name in names.cloned().collect::<Vec<_>>() {
            self.reschedule(&name);
        }
    }

    /// The program ends: addresses that wait because their object was just written wait no longer.
    pub fn end(&mut self) {
        self.ending = true;
        let entries = self.entries.iter();
        let unwritten = entries.filter(|(_, entry)| entry.unwritten.is_some());
        self.dirty.extend(unwritten.map(|(name, _)| name).cloned());
    }

    /// Takes in the names in use.
    pub fn want(&mut self, wanted: &Wanted, now: Timestamp) {
        if wanted.in_sync != self.wanted_in_sync {
            self.wanted_in_sync = wanted.in_sync;
            self.dirty.extend(self.entries.keys().cloned());
        }
        self.unknown_rules = wanted.unknown_rules;
        // Few terms for many names.
        let mut shared: HashMap<RetentionPolicy, Arc<Limits>> = HashMap::new();
        let seen = std::mem::replace(&mut self.wanted_seen, wanted.changes.version());
        match wanted.changes.since(seen) {
            Some(changes) => {
                for change in changes {
                    match change {
                        Change::Name(name) => self.want_name(name, wanted, &mut shared, now),
                        Change::Order(namespace) => {
                            let order = wanted.order.get(namespace).cloned();
                            self.shares.set_order(*namespace, order);
                        }
                    }
                }
            }
            None => {
                self.shares.order.clone_from(&wanted.order);
                let known = self.entries.iter().filter(|(_, entry)| entry.wanted);
                let known = known.map(|(name, _)| name).chain(self.absences.names());
                let mut names: BTreeSet<DnsName> = known.cloned().collect();
                names.extend(wanted.names.keys().cloned());
                for name in names {
                    self.want_name(&name, wanted, &mut shared, now);
                }
            }
        }
    }

    /// Takes in what is known of a name.
    fn want_name(
        &mut self,
        name: &DnsName,
        wanted: &Wanted,
        shared: &mut HashMap<RetentionPolicy, Arc<Limits>>,
        now: Timestamp,
    ) {
        let absent = wanted.absent.get(name).copied();
        self.absences.update(name, absent, now);
        let terms = wanted.names.get(name);
        let Some(terms) = terms.filter(|_| !self.absences.is_believed(name)) else {
            if self.entries.get(name).is_some_and(|entry| entry.wanted) {
                self.release(name);
            }
            return;
        };
        if absent.is_none() {
            self.absences.remove(name);
        }
        let mut limits_on = |terms: &RetentionPolicy| {
            let limits = shared.entry(*terms);
            Arc::clone(limits.or_insert_with(|| Arc::new(terms.limits(&self.limits))))
        };
        let limits = limits_on(terms);
        let entry = self.entries.entry(name.clone()).or_insert_with(|| {
            self.index.insert(name);
            self.index_changed = true;
            Box::new(Entry::new(
                name.clone(),
                &limits,
                &self.config.shared.known,
                now,
            ))
        });
        (entry.allowed, entry.denied) = (terms.allowed, terms.denied);
        if let Some(namespaces) = wanted.namespaces.get(name) {
            if entry.with_rule != *namespaces {
                entry.with_rule.clone_from(namespaces);
            }
            let own = wanted.own_terms.get(name).into_iter();
            let own = own.flat_map(|it| it.iter()).map(|it| OwnLimits {
                limits: limits_on(&it.terms),
                namespaces: it.namespaces.clone(),
            });
            entry.own_limits = own.collect();
        }
        if entry.wanted && entry.limits == limits {
            return;
        }
        (entry.wanted, entry.released) = (true, false);
        entry.limits = limits;
        let fresh = std::mem::take(&mut entry.fresh);
        self.dirty.insert(name.clone());
        self.reschedule(name);
        if fresh {
            self.newly_wanted.insert(name);
        }
    }

    /// Forgets the addresses whose time is over, and asks again for what was missed.
    pub fn tick(&mut self, now: Timestamp) {
        if self.gap_since.is_some_and(|since| since + MAX_GAP <= now) {
            self.end_gap(now);
        }
        if self.hearing.is_missing && self.not_idle_at + self.config.limits.wildcard_idle / 8 <= now
        {
            self.not_idle(now);
        }
        self.backfill(now);
        self.look_at_absences(now);
        self.look_at_namespaces(now);
        let removes = self.removes();
        while let Some((at, spec)) = self.wakes.first().cloned() {
            if at > now {
                break;
            }
            self.wakes.pop_first();
            let Some(entry) = self.entries.get_mut(&spec) else {
                continue;
            };
            entry.wake = None;
            if removes {
                let expired = entry.memory.expire(now, &entry.limits);
                counter!("collector_addresses_expired_total").increment(expired.len() as u64);
                for (name, ip) in expired {
                    debug!(%name, %ip, "expired");
                    self.reschedule(&name);
                    self.note(name, Some(ip), EventKind::Expired, Provenance::STATUS, now);
                }
            }
            self.dirty.insert(spec);
        }
    }

    /// When [`StatusController::tick`] or [`StatusController::next_request`] has something to do.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let wake = self.wakes.first().map(|(at, _)| *at);
        let all = [
            wake,
            self.paused_until,
            self.next_repair(),
            self.next_absence(),
            self.schedule.next(),
        ];
        all.into_iter().flatten().min()
    }

    /// The index of wanted names, if it changed since the last call. It holds the names in use and those of all objects,
    /// so that an answer counts even before the object is there.
    pub fn take_index(&mut self) -> Option<NameIndex> {
        std::mem::take(&mut self.index_changed).then(|| self.index.clone())
    }

    /// Whether nothing waits to be written, or to come back from the store.
    pub fn is_settled(&self) -> bool {
        self.dirty.is_empty() && self.in_flight.is_empty()
    }

    /// How many names have something to write that the store did not take, and that is put off.
    pub fn unwritten(&self) -> usize {
        let entries = self.entries.values();
        entries.filter(|entry| entry.failures > 0).count()
    }

    fn learned(&mut self, spec: &DnsName, learned: UpdateEffect, now: Timestamp) {
        if learned.evicted_addresses + learned.evicted_names > 0 {
            self.evicted(spec, &learned, now);
        }
        for name in &learned.gone {
            self.reschedule(name);
            if !self.entries.contains_key(name) {
                self.schedule.discard(name);
            }
        }
        if learned.urgent || learned.times {
            self.dirty.insert(spec.clone());
        }
    }

    /// The same for what a status told.
    fn learned_from_status(&mut self, spec: &DnsName, learned: UpdateEffect, now: Timestamp) {
        if self.looks_up() {
            for name in &learned.from_others {
                self.schedule.ask(name, now);
                self.schedule.use_tcp(name);
            }
        }
        self.learned(spec, learned, now);
    }

    fn note(
        &self,
        name: DnsName,
        address: Option<IpAddr>,
        what: EventKind,
        source: Provenance,
        at: Timestamp,
    ) {
        self.config.shared.recent.note(HistoryEntry {
            name,
            address,
            what,
            source,
            at,
        });
    }

    fn entry_mut(&mut self, spec: &str) -> Option<&mut Entry> {
        Some(self.entries.get_mut(spec)?.as_mut())
    }

    fn object_mut(&mut self, key: &ObjectKey) -> Option<&mut Object> {
        let spec = self.objects.get(&*key.name)?;
        self.entries.get_mut(spec)?.object_mut(&key.name)
    }

    fn key(&self, name: &str) -> ObjectKey {
        ObjectKey {
            namespace: self.config.namespace.clone(),
            name: name.to_owned(),
        }
    }
}
