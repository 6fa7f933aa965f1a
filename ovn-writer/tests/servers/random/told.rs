//! The store events that the writers received, over time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use proto::api::{DEGRADED, DnsNameResolver};
use runtime::store::{Event, ObjectKey};
use tokio::time::Instant;

/// The collector's reason for an ended rule.
pub(super) const NO_RULE: &str = "NoRule";

/// The statement of a status.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Statement {
    /// None.
    Nothing,
    /// The full list of addresses, possibly empty.
    Addresses(BTreeSet<String>),
    /// The rule ended, and the object will be deleted.
    RuleEnded,
}

impl Statement {
    fn of(object: &DnsNameResolver) -> Self {
        let entries = object
            .status
            .iter()
            .flat_map(|status| &status.resolved_names);
        let addresses: BTreeSet<String> = entries
            .clone()
            .flat_map(|entry| &entry.resolved_addresses)
            .map(|address| address.ip.to_string())
            .collect();
        if !addresses.is_empty() {
            return Self::Addresses(addresses);
        }
        let own = entries.filter(|entry| entry.dns_name == object.spec.name);
        let mut conditions = own.flat_map(|entry| &entry.conditions);
        match conditions.find(|it| it.type_ == DEGRADED && it.status == "True") {
            None => Self::Nothing,
            Some(condition) if condition.reason == NO_RULE => Self::RuleEnded,
            Some(_) => Self::Addresses(BTreeSet::new()),
        }
    }
}

/// A writer's knowledge of the store at a moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// The number of earlier writers.
    pub(super) life: usize,
    /// Since when the store has been in sync without a break.
    in_sync_since: Option<Instant>,
    /// The name of each object, and its last statement.
    objects: BTreeMap<ObjectKey, (String, Statement)>,
    unreadable: BTreeSet<ObjectKey>,
    /// When names without an object left, and whether their rule had ended.
    gone: BTreeMap<String, (Instant, bool)>,
    /// The last statement of each name's addresses, to any writer.
    stated: BTreeMap<String, BTreeSet<String>>,
}

impl Known {
    fn apply(&mut self, event: &Event<DnsNameResolver>, now: Instant) {
        match event {
            Event::Synced(objects) => {
                let mut there: BTreeSet<_> = objects.iter().map(ObjectKey::of).collect();
                there.extend(self.unreadable.iter().cloned());
                let known: Vec<_> = self.objects.keys().cloned().collect();
                for key in known.iter().filter(|key| !there.contains(key)) {
                    self.deleted(key, now);
                }
                for object in objects {
                    self.applied(object);
                }
                self.in_sync_since.get_or_insert(now);
            }
            Event::Applied(object) => self.applied(object),
            Event::Deleted(key) => self.deleted(key, now),
            Event::Undecodable(keys) => self.unreadable.clone_from(keys),
            Event::OutOfSync(_) => self.in_sync_since = None,
        }
    }

    fn applied(&mut self, object: &DnsNameResolver) {
        let (name, statement) = (object.spec.name.clone(), Statement::of(object));
        if let Statement::Addresses(addresses) = &statement {
            self.stated.insert(name.clone(), addresses.clone());
        }
        self.gone.remove(&name);
        self.objects
            .insert(ObjectKey::of(object), (name, statement));
    }

    fn deleted(&mut self, key: &ObjectKey, now: Instant) {
        if let Some((name, statement)) = self.objects.remove(key) {
            self.gone
                .insert(name, (now, statement == Statement::RuleEnded));
        }
    }

    /// A new writer starts without knowledge.
    fn restart(&mut self) {
        *self = Self {
            life: self.life + 1,
            stated: std::mem::take(&mut self.stated),
            ..Self::default()
        };
    }

    /// Whether the last statement of the name had this address.
    pub(super) fn had(&self, name: &str, address: &str) -> bool {
        let stated = self.stated.get(name);
        stated.is_some_and(|addresses| addresses.contains(address))
    }

    /// How long the name has been absent at this time, and whether its rule had ended; `None` if it is present.
    pub(super) fn away(&self, name: &str, now: Instant) -> Option<(Duration, bool)> {
        let in_sync = self.in_sync_since?;
        if self.has(name) {
            return None;
        }
        let (since, rule_ended) = self.gone.get(name).copied().unwrap_or((in_sync, false));
        Some((
            now.saturating_duration_since(since.max(in_sync)),
            rule_ended,
        ))
    }

    /// The knowledge of the name, as text.
    pub(super) fn of(&self, name: &str, now: Instant) -> String {
        let Self {
            life, unreadable, ..
        } = self;
        let (has, stated) = (self.has(name), self.stated.get(name));
        let away = self.away(name, now);
        format!(
            "writer {life}, object: {has}, away: {away:?}, said: {stated:?}, unreadable: {unreadable:?}"
        )
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.objects.values().any(|(other, _)| other == name)
    }

    /// Whether this writer saw an object of the name.
    pub(super) fn has_seen(&self, name: &str) -> bool {
        self.has(name) || self.gone.contains_key(name)
    }

    /// Whether there is an unreadable object of an unknown name.
    pub(super) fn has_unknown(&self) -> bool {
        self.unreadable
            .iter()
            .any(|key| !self.objects.contains_key(key))
    }
}

/// All events, in order.
#[derive(Clone, Default)]
pub(super) struct Told(Arc<Mutex<Vec<(Instant, Known)>>>);

impl Told {
    /// Records an event for the writer.
    pub(super) fn tell(&self, event: &Event<DnsNameResolver>) {
        self.change(|known, now| known.apply(event, now));
    }

    /// Records the end of the writer.
    pub(super) fn restart(&self) {
        self.change(|known, _| known.restart());
    }

    fn change(&self, change: impl FnOnce(&mut Known, Instant)) {
        let (now, mut all) = (Instant::now(), self.0.lock().unwrap());
        let mut known = all
            .last()
            .map(|(_, known)| known.clone())
            .unwrap_or_default();
        change(&mut known, now);
        all.push((now, known));
    }

    pub(super) fn now(&self) -> Known {
        let all = self.0.lock().unwrap();
        all.last()
            .map(|(_, known)| known.clone())
            .unwrap_or_default()
    }

    /// The knowledge over time, each with its start and end.
    pub(super) fn history(&self) -> Vec<(Instant, Instant, Known)> {
        let all = self.0.lock().unwrap();
        let ends = all.iter().skip(1).map(|(at, _)| *at);
        let ends = ends.chain([Instant::now()]);
        let spans = all.iter().zip(ends);
        spans
            .map(|((from, known), to)| (*from, to, known.clone()))
            .collect()
    }
}
