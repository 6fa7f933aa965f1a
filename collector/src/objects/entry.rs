//! One wanted name: its state and its objects.

use std::{sync::Arc, time::Duration};

use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::{evictions::Evicted, name_use::NameUse, stored_object::StoredObject};
use crate::{
    clients::{Clients, Namespace},
    new_names::KnownNames,
    rules::{Source, SourceSet},
    state::{Crowd, Kept, Limits, NameState},
};

/// The most namespaces for each name; further ones are counted.
pub(super) const MOST_NAMESPACES: usize = 100;

/// How long a name and its objects stay after its last rule went, since the rule may come back: an
/// edit that replaces objects, a CustomResourceDefinition that is deleted, or a store during a restore.
pub(super) const UNUSED_FOR: Duration = Duration::from_secs(600);

/// The most namespaces that share the cost of a write.
const MOST_PAYERS: usize = 1_024;

/// A process has a hundred thousand of these, so rare fields are boxed and common values shared.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) memory: NameState,
    /// How rules use it.
    pub(crate) in_use: Arc<NameUse>,
    /// Since when no rule has it, if one had. It is kept for [`UNUSED_FOR`].
    pub(crate) unused_since: Option<Timestamp>,
    /// Its namespaces exceed their quotas, so no address of it is kept.
    pub(crate) left_out: bool,
    /// Usually one; a foreign object of the same name is updated too.
    pub(crate) objects: Vec<StoredObject>,
    /// Cached answers for it are not applied yet.
    pub(crate) fresh: bool,
    pub(crate) writes: WriteState,
    /// `None` for most names.
    pub(crate) evicted: Option<Box<Evicted>>,
}

/// The progress of the writes of a name.
#[derive(Debug, Default)]
pub(crate) struct WriteState {
    /// Since when the object of some source is missing.
    pub(crate) missing_since: Timestamp,
    /// The sources whose object is being created.
    pub(crate) creating: SourceSet,
    /// The number of objects of other names that have the computed name.
    pub(crate) collisions: u32,
    /// Failed writes since the last success.
    pub(crate) failures: u32,
    pub(crate) retry_at: Timestamp,
    /// Updates that are not in the store.
    pub(crate) unwritten: Option<Box<Unwritten>>,
    /// The turn of its next write, or zero if it does not wait.
    pub(crate) turn: Timestamp,
    /// Its time in the table's [`Wakes`](super::names::Wakes).
    pub(crate) wake: Option<Timestamp>,
}

impl WriteState {
    /// Whether the turn of its next write has come.
    pub(crate) fn has_turn(&self) -> bool {
        self.turn > Timestamp::default()
    }

    /// The clock was set: no time is in the future, and no long delay remains.
    fn gap(&mut self, now: Timestamp) {
        self.missing_since = self.missing_since.min(now);
        self.retry_at = self.retry_at.min(now);
        self.turn = self.turn.min(now);
        if let Some(unwritten) = &mut self.unwritten {
            unwritten.since = unwritten.since.min(now);
        }
    }
}

/// Updates that are not in the store.
#[derive(Debug)]
pub(crate) struct Unwritten {
    /// The time of the first one.
    pub(crate) since: Timestamp,
    /// Under a wildcard, the namespaces with a rule whose pods caused them, at most
    /// [`MOST_PAYERS`].
    pub(crate) by: Vec<Namespace>,
    /// All of them are names of namespaces without a rule, or removals.
    pub(crate) is_without_rule: bool,
}

impl Unwritten {
    pub(crate) fn since(since: Timestamp) -> Self {
        Self {
            since,
            by: Vec::new(),
            is_without_rule: true,
        }
    }

    /// Adds namespaces whose pods caused the updates.
    pub(crate) fn add(&mut self, namespaces: &[Namespace]) {
        for namespace in namespaces {
            if self.by.len() < MOST_PAYERS && !self.by.contains(namespace) {
                self.by.push(*namespace);
            }
        }
    }
}

impl Entry {
    pub(crate) fn new(
        spec: DnsName,
        in_use: &Arc<NameUse>,
        known: &KnownNames,
        now: Timestamp,
    ) -> Self {
        Self {
            memory: NameState::new(spec).telling(known),
            in_use: Arc::clone(in_use),
            unused_since: None,
            left_out: false,
            fresh: true,
            objects: Vec::new(),
            writes: WriteState {
                missing_since: now,
                ..WriteState::default()
            },
            evicted: None,
        }
    }

    /// Whether a rule uses the name.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.in_use.by.is_empty()
    }

    /// Replaces how rules use it. Returns whether the sources changed.
    pub(super) fn set_use(&mut self, next: Arc<NameUse>) -> bool {
        let was = std::mem::replace(&mut self.in_use, next);
        self.in_use.by != was.by
    }

    /// Its last rule has ended.
    pub(super) fn release(&mut self, unused: Arc<NameUse>, now: Timestamp) {
        self.in_use = unused;
        self.unused_since = Some(now);
    }

    /// Until when it is kept although it has no rule and no object.
    pub(super) fn kept_until(&self) -> Timestamp {
        self.unused_since
            .map_or(Timestamp::default(), |since| since + UNUSED_FOR)
    }

    /// Its state, with the limits and clients that updates need.
    pub(crate) fn parts<'a>(
        &'a mut self,
        clients: &'a Clients,
    ) -> (&'a mut NameState, &'a Limits, Crowd<'a>) {
        let crowd = crowd(clients, &self.in_use);
        (&mut self.memory, &self.in_use.limits, crowd)
    }

    /// Its state, with the data for charging names that leave it.
    pub(crate) fn charged_parts<'a>(
        &'a mut self,
        clients: &'a Clients,
        now: Timestamp,
    ) -> (&'a mut NameState, Crowd<'a>, Kept<'a>) {
        let kept = kept(&self.in_use, now);
        let crowd = crowd(clients, &self.in_use);
        (&mut self.memory, crowd, kept)
    }

    /// The clients that queried it, and the namespaces with a rule.
    pub(crate) fn crowd<'a>(&'a self, clients: &'a Clients) -> Crowd<'a> {
        crowd(clients, &self.in_use)
    }

    /// The namespaces that its next write is charged to. These are the ones whose pods caused the
    /// news, or else those with a rule, of which at most [`MOST_PAYERS`] pay. None pays for names
    /// that pods of namespaces without a rule queried.
    pub(crate) fn payers(&self) -> Vec<Namespace> {
        let payers = match self.writes.unwritten.as_deref() {
            Some(unwritten) if !unwritten.by.is_empty() || unwritten.is_without_rule => {
                &*unwritten.by
            }
            _ => &*self.in_use.with_rule,
        };
        let step = payers.len().div_ceil(MOST_PAYERS).max(1);
        payers.iter().copied().step_by(step).collect()
    }

    /// The retention under which its addresses are kept.
    pub(crate) fn kept(&self, now: Timestamp) -> Kept<'_> {
        kept(&self.in_use, now)
    }

    pub(crate) fn object_mut(&mut self, source: Source, name: &str) -> Option<&mut StoredObject> {
        let mut objects = self.objects.iter_mut();
        objects.find(|object| object.source == source && *object.name == *name)
    }

    /// Records the namespaces of the clients that queried a name: they pay for the write.
    pub(crate) fn learned_for(&mut self, name: &DnsName, clients: &Clients, at: Timestamp) {
        let askers = match self.memory.list().spec().is_wildcard() {
            true => self.memory.list().askers_of(name),
            false => &[],
        };
        let crowd = crowd(clients, &self.in_use);
        let (by, is_without_rule) = (crowd.namespaces(askers), crowd.are_without_rule(askers));
        let new = || Box::new(Unwritten::since(at));
        let unwritten = self.writes.unwritten.get_or_insert_with(new);
        unwritten.add(&by);
        unwritten.is_without_rule &= is_without_rule;
    }

    /// The clock was set: no time is in the future, and no long delay remains.
    pub(crate) fn gap(&mut self, now: Timestamp) {
        self.memory.gap(now, &self.in_use.limits);
        self.writes.gap(now);
        self.unused_since = self.unused_since.map(|_| now);
        if let Some(evicted) = &mut self.evicted {
            evicted.told_at = evicted.told_at.min(now);
        }
        for object in &mut self.objects {
            object.written = object.written.min(now);
            object.no_rule_since = None;
        }
    }
}

fn crowd<'a>(clients: &'a Clients, in_use: &'a NameUse) -> Crowd<'a> {
    Crowd {
        clients: Some(clients),
        with_rule: &in_use.with_rule,
        policy: in_use.policy,
    }
}

fn kept(in_use: &NameUse, now: Timestamp) -> Kept<'_> {
    Kept {
        limits: &in_use.limits,
        own: &in_use.own_limits,
        now,
    }
}

/// The names of namespaces, sorted.
pub(super) fn names_of(
    clients: &Clients,
    namespaces: impl Iterator<Item = Namespace>,
) -> Vec<Arc<str>> {
    let namespaces = namespaces.take(MOST_NAMESPACES);
    let mut names: Vec<_> = namespaces.map(|it| clients.name(it)).collect();
    names.sort_unstable();
    names
}
