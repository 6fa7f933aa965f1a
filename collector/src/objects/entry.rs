//! One wanted name: what is known of it, and the objects that bear it.

use std::sync::Arc;

use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::{
    additions::{Additions, MissingAddress},
    evictions::Evicted,
    stored_object::StoredObject,
};
use crate::{
    clients::{Clients, Namespace},
    new_names::KnownNames,
    observation::{Observation, Provenance},
    state::{Crowd, Kept, Limits, NameState, OwnLimits},
};

/// So many namespaces pay for a write at most.
const MOST_PAYERS: usize = 1_024;

/// A hundred thousand of these are kept: what is rare is boxed, what is the same for many is shared.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) memory: NameState,
    /// The bounds for this name: the flags, and what its EgressFirewalls say.
    pub(crate) limits: Arc<Limits>,
    /// Whether an EgressFirewall uses the name, or did and its absence is not believed yet; and in which rules.
    pub(crate) wanted: bool,
    pub(crate) allowed: bool,
    pub(crate) denied: bool,
    /// Its namespaces have too much: nothing of it is kept.
    pub(crate) left_out: bool,
    /// The namespaces with a rule for it, in order.
    pub(crate) with_rule: Box<[Namespace]>,
    /// The bounds of those of them that others have longer ones than.
    pub(crate) own_limits: Box<[OwnLimits]>,
    /// Its last rule has ended: the collector's own objects of it are deleted.
    pub(crate) released: bool,
    /// Usually one; a foreign one of the same name is kept up too.
    pub(crate) objects: Vec<StoredObject>,
    /// What was remembered of it is not taken in yet.
    pub(crate) fresh: bool,
    pub(crate) writes: WriteState,
    /// Nothing in most.
    pub(crate) evicted: Option<Box<Evicted>>,
    /// What a standby finds missing in the status; nothing in most.
    pub(crate) additions: Option<Box<Additions>>,
}

/// What is still to be written of a name.
#[derive(Debug)]
pub(crate) struct WriteState {
    /// Since when there is no object.
    pub(crate) missing_since: Timestamp,
    /// An object is being made.
    pub(crate) creating: bool,
    /// How many objects of other names had the computed name.
    pub(crate) collisions: u32,
    /// Failed writes since the last that worked, and when to try again.
    pub(crate) failures: u32,
    pub(crate) retry_at: Timestamp,
    /// What is not in the store.
    pub(crate) unwritten: Option<Box<Unwritten>>,
    /// The turn of its next write, if that waits for one; zero if not.
    pub(crate) turn: Timestamp,
    /// When it stands in the wakes of the table.
    pub(crate) wake: Option<Timestamp>,
}

impl WriteState {
    fn new(now: Timestamp) -> Self {
        Self {
            missing_since: now,
            creating: false,
            collisions: 0,
            failures: 0,
            retry_at: Timestamp::default(),
            unwritten: None,
            turn: Timestamp::default(),
            wake: None,
        }
    }

    /// Whether the turn that its next write waited for has come, where it is no later.
    pub(crate) fn has_turn(&self) -> bool {
        self.turn > Timestamp::default()
    }

    /// The clock was set: nothing was later than now, and nothing is put off for long.
    fn gap(&mut self, now: Timestamp) {
        self.missing_since = self.missing_since.min(now);
        self.retry_at = self.retry_at.min(now);
        self.turn = self.turn.min(now);
        if let Some(unwritten) = &mut self.unwritten {
            unwritten.since = unwritten.since.min(now);
        }
    }
}

/// What was learned and is not in the store.
#[derive(Debug)]
pub(crate) struct Unwritten {
    /// When the first of it was.
    pub(crate) since: Timestamp,
    /// Under a wildcard the namespaces with a rule whose pods asked for it, at most [`MOST_PAYERS`].
    pub(crate) by: Vec<Namespace>,
    /// It is all that pods of namespaces without a rule found under a wildcard, or what left one.
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

    /// Pods of these namespaces asked for it, too.
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
        limits: &Arc<Limits>,
        known: &KnownNames,
        now: Timestamp,
    ) -> Self {
        Self {
            memory: NameState::new(spec).telling(known),
            limits: Arc::clone(limits),
            wanted: false,
            allowed: false,
            denied: false,
            left_out: false,
            with_rule: Box::default(),
            own_limits: Box::default(),
            released: false,
            fresh: true,
            objects: Vec::new(),
            writes: WriteState::new(now),
            evicted: None,
            additions: None,
        }
    }

    /// Its memory, and what that goes by.
    pub(crate) fn parts<'a>(
        &'a mut self,
        clients: &'a Clients,
    ) -> (&'a mut NameState, &'a Limits, Crowd<'a>) {
        let crowd = crowd(clients, &self.with_rule);
        (&mut self.memory, &self.limits, crowd)
    }

    /// Its memory, and what names that leave it cost their namespaces.
    pub(crate) fn charged_parts<'a>(
        &'a mut self,
        clients: &'a Clients,
        now: Timestamp,
    ) -> (&'a mut NameState, Crowd<'a>, Kept<'a>) {
        let kept = kept(&self.limits, &self.own_limits, now);
        let crowd = crowd(clients, &self.with_rule);
        (&mut self.memory, crowd, kept)
    }

    /// The clients that asked, and the namespaces with a rule.
    pub(crate) fn crowd<'a>(&'a self, clients: &'a Clients) -> Crowd<'a> {
        crowd(clients, &self.with_rule)
    }

    /// The namespaces that its next write is for: those whose pods asked for what is new, if they are known, or those with a rule; none if
    /// it is for pods of namespaces without a rule. Of thousands that have a rule some pay.
    pub(crate) fn payers(&self) -> Vec<Namespace> {
        let payers = match self.writes.unwritten.as_deref() {
            Some(unwritten) if !unwritten.by.is_empty() || unwritten.is_without_rule => {
                &*unwritten.by
            }
            _ => &*self.with_rule,
        };
        let step = payers.len().div_ceil(MOST_PAYERS).max(1);
        payers.iter().copied().step_by(step).collect()
    }

    /// On which terms its addresses are kept.
    pub(crate) fn kept(&self, now: Timestamp) -> Kept<'_> {
        kept(&self.limits, &self.own_limits, now)
    }

    /// The object of that name.
    pub(crate) fn object_mut(&mut self, name: &str) -> Option<&mut StoredObject> {
        self.objects.iter_mut().find(|object| *object.name == *name)
    }

    /// Pods of these clients' namespaces asked for what was learned of a name: they pay for the write.
    pub(crate) fn learned_for(&mut self, name: &DnsName, clients: &Clients, at: Timestamp) {
        let askers = match self.memory.list().spec().is_wildcard() {
            true => self.memory.list().askers_of(name),
            false => &[],
        };
        let crowd = crowd(clients, &self.with_rule);
        let (by, is_without_rule) = (crowd.namespaces(askers), crowd.are_without_rule(askers));
        let new = || Box::new(Unwritten::since(at));
        let unwritten = self.writes.unwritten.get_or_insert_with(new);
        unwritten.add(&by);
        unwritten.is_without_rule &= is_without_rule;
    }

    /// Notes what a client was told and the status lacks. Returns whether there is something.
    pub(crate) fn compare_with_status(&mut self, observation: &Observation) -> bool {
        let Some(client) = observation.client else {
            return false;
        };
        if observation.source == Provenance::REMEMBERED {
            return false;
        }
        let mut is_missing = false;
        for (ip, ttl) in &observation.addresses {
            if StoredObject::all_have(&self.objects, *ip) {
                continue;
            }
            let missing = MissingAddress {
                observation,
                client,
                ip: *ip,
                ttl: self.limits.clamp(*ttl),
            };
            let additions = self.additions.get_or_insert_default();
            is_missing |= additions.add(self.memory.list().spec(), &missing);
        }
        is_missing
    }

    /// The clock was set: nothing was later than now, and nothing is put off for long.
    pub(crate) fn gap(&mut self, now: Timestamp) {
        self.memory.gap(now, &self.limits);
        self.writes.gap(now);
        if let Some(evicted) = &mut self.evicted {
            evicted.told_at = evicted.told_at.min(now);
        }
        for object in &mut self.objects {
            object.written = object.written.min(now);
            object.no_rule_since = object.no_rule_since.map(|since| since.min(now));
        }
    }
}

fn crowd<'a>(clients: &'a Clients, with_rule: &'a [Namespace]) -> Crowd<'a> {
    Crowd {
        clients: Some(clients),
        with_rule,
    }
}

fn kept<'a>(limits: &'a Limits, own: &'a [OwnLimits], now: Timestamp) -> Kept<'a> {
    Kept { limits, own, now }
}
