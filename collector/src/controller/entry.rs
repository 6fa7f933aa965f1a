//! One wanted name: what is known of it, and the objects that bear it.

use std::{sync::Arc, time::Duration};

use kube::{ResourceExt, core::ObjectMeta};
use proto::api::{
    DnsName, DnsNameResolver, DnsNameResolverSpec, DnsNameResolverStatus, object_name,
};
use runtime::{
    clock::Timestamp,
    store::{ObjectKey, Precondition},
};

use super::{additions::Additions, evictions::Evicted};
use crate::{
    clients::{Clients, Namespace},
    new_names::KnownNames,
    publish::Write,
    state::{Crowd, Kept, Limits, NameState, OwnLimits, Stored},
};

/// The label and its value by which objects are known as the collector's own.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "collector");

/// Writes of addresses of one object are spaced by its size: a second for each of so many bytes.
const BYTES_A_SECOND: f64 = 1e6;

/// Versions of an object that are known to be old.
const SUPERSEDED: usize = 8;

/// So many namespaces pay for a write at most.
const MOST_PAYERS: usize = 64;

/// A hundred thousand of these are kept: what is rare is boxed, what is the same for many is shared.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) memory: NameState,
    /// The bounds for this name: the flags, and what its EgressFirewalls say.
    pub(super) limits: Arc<Limits>,
    /// Whether an EgressFirewall uses the name, or did and its absence is not believed yet; and in which rules.
    pub(super) wanted: bool,
    pub(super) allowed: bool,
    pub(super) denied: bool,
    /// Its namespaces have too much: nothing of it is kept.
    pub(super) left_out: bool,
    /// The namespaces with a rule for it, in order.
    pub(super) with_rule: Box<[Namespace]>,
    /// The bounds of those of them that others have longer ones than.
    pub(super) own_limits: Box<[OwnLimits]>,
    /// Its last rule has ended: the collector's own objects of it are deleted.
    pub(super) released: bool,
    /// Usually one; a foreign one of the same name is kept up too.
    pub(super) objects: Vec<Object>,
    /// What was remembered of it is not taken in yet.
    pub(super) fresh: bool,
    /// Since when there is none.
    pub(super) missing_since: Timestamp,
    /// An object is being made.
    pub(super) creating: bool,
    /// How many objects of other names had the computed name.
    pub(super) collisions: u32,
    /// Failed writes since the last that worked, and when to try again.
    pub(super) failures: u32,
    pub(super) retry_at: Timestamp,
    /// What is not in the store.
    pub(super) unwritten: Option<Box<Unwritten>>,
    /// The turn of its next write, if that waits for one; zero if not.
    pub(super) turn: Timestamp,
    /// When it stands in the owner's wakes.
    pub(super) wake: Option<Timestamp>,
    /// Nothing in most.
    pub(super) evicted: Option<Box<Evicted>>,
    /// What a standby finds missing in the status; nothing in most.
    pub(super) additions: Option<Box<Additions>>,
}

/// What was learned and is not in the store.
#[derive(Debug)]
pub(super) struct Unwritten {
    /// When the first of it was.
    pub(super) since: Timestamp,
    /// Under a wildcard the namespaces with a rule whose pods asked for it, at most [`MOST_PAYERS`].
    pub(super) by: Vec<Namespace>,
    /// It is all that pods of namespaces without a rule found under a wildcard, or what left one.
    pub(super) is_without_rule: bool,
}

impl Unwritten {
    pub(super) fn since(since: Timestamp) -> Self {
        Self {
            since,
            by: Vec::new(),
            is_without_rule: true,
        }
    }

    /// Pods of these namespaces asked for it, too.
    pub(super) fn add(&mut self, namespaces: &[Namespace]) {
        for namespace in namespaces {
            if self.by.len() < MOST_PAYERS && !self.by.contains(namespace) {
                self.by.push(*namespace);
            }
        }
    }
}

impl Entry {
    pub(super) fn new(
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
            missing_since: now,
            objects: Vec::new(),
            creating: false,
            collisions: 0,
            failures: 0,
            retry_at: Timestamp::default(),
            unwritten: None,
            turn: Timestamp::default(),
            wake: None,
            evicted: None,
            additions: None,
        }
    }

    /// Its memory, and what that goes by.
    pub(super) fn parts<'a>(
        &'a mut self,
        clients: &'a Clients,
    ) -> (&'a mut NameState, &'a Limits, Crowd<'a>) {
        let crowd = crowd(clients, &self.with_rule);
        (&mut self.memory, &self.limits, crowd)
    }

    /// Its memory, and what names that leave it cost their namespaces.
    pub(super) fn charged_parts<'a>(
        &'a mut self,
        clients: &'a Clients,
        now: Timestamp,
    ) -> (&'a mut NameState, Crowd<'a>, Kept<'a>) {
        let kept = kept(&self.limits, &self.own_limits, now);
        let crowd = crowd(clients, &self.with_rule);
        (&mut self.memory, crowd, kept)
    }

    /// The clients that asked, and the namespaces with a rule.
    pub(super) fn crowd<'a>(&'a self, clients: &'a Clients) -> Crowd<'a> {
        crowd(clients, &self.with_rule)
    }

    /// Whether the turn that its next write waited for has come, where it is no later.
    pub(super) fn has_turn(&self) -> bool {
        self.turn > Timestamp::default()
    }

    /// The namespaces that its next write is for: those whose pods asked for what is new, if they are known, or those with a rule; none if
    /// it is for pods of namespaces without a rule. Of thousands that have a rule some pay.
    pub(super) fn payers(&self) -> Vec<Namespace> {
        let payers = match self.unwritten.as_deref() {
            Some(unwritten) if !unwritten.by.is_empty() || unwritten.is_without_rule => {
                &*unwritten.by
            }
            _ => &*self.with_rule,
        };
        let step = payers.len().div_ceil(MOST_PAYERS).max(1);
        payers.iter().copied().step_by(step).collect()
    }

    /// On which terms its addresses are kept.
    pub(super) fn kept(&self, now: Timestamp) -> Kept<'_> {
        kept(&self.limits, &self.own_limits, now)
    }

    /// The object of that name.
    pub(super) fn object_mut(&mut self, name: &str) -> Option<&mut Object> {
        self.objects.iter_mut().find(|object| *object.name == *name)
    }

    /// The clock was set: nothing was later than now, and nothing is put off for long.
    pub(super) fn gap(&mut self, now: Timestamp) {
        self.memory.gap(now, &self.limits);
        self.missing_since = self.missing_since.min(now);
        self.retry_at = self.retry_at.min(now);
        self.turn = self.turn.min(now);
        if let Some(unwritten) = &mut self.unwritten {
            unwritten.since = unwritten.since.min(now);
        }
        if let Some(evicted) = &mut self.evicted {
            evicted.told_at = evicted.told_at.min(now);
        }
        for object in &mut self.objects {
            object.written = object.written.min(now);
            object.no_rule_since = object.no_rule_since.map(|since| since.min(now));
        }
    }

    /// The object to make for the name.
    pub(super) fn new_object(&self, namespace: &str) -> DnsNameResolver {
        let (label, value) = MANAGED_BY;
        let spec = self.memory.spec();
        DnsNameResolver {
            metadata: ObjectMeta {
                name: Some(object_name(spec, self.collisions.into())),
                namespace: Some(namespace.to_owned()),
                labels: Some([(label.to_owned(), value.to_owned())].into()),
                ..ObjectMeta::default()
            },
            spec: DnsNameResolverSpec {
                name: spec.as_str().to_owned(),
            },
            status: None,
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

/// What matters of an object, as the store was last known to have it.
#[derive(Debug)]
pub(super) struct Object {
    /// `metadata.name`.
    pub(super) name: Arc<str>,
    uid: Box<str>,
    version: Box<str>,
    /// Whether the collector made it.
    pub(super) is_ours: bool,
    pub(super) status: Stored,
    /// Since when the status tells of the end of the last rule.
    pub(super) no_rule_since: Option<Timestamp>,
    /// When this process last wrote it, and what that cost the API server.
    pub(super) written: Timestamp,
    pub(super) cost: usize,
    /// Versions that it had before: a late watch event of one of them says nothing.
    superseded: Vec<Box<str>>,
}

impl Object {
    /// The object, whose status says `status`.
    pub(super) fn new(object: &DnsNameResolver, status: Stored) -> Self {
        let (label, value) = MANAGED_BY;
        Self {
            name: object.name_any().into(),
            uid: uid(object).into(),
            version: version(object).into(),
            is_ours: object.labels().get(label).is_some_and(|it| it == value),
            status,
            no_rule_since: None,
            written: Timestamp::default(),
            cost: 0,
            superseded: Vec::new(),
        }
    }

    /// It was just written as it stands.
    pub(super) fn was_written(&mut self, now: Timestamp) {
        self.written = now;
        self.cost = cost(&self.status);
    }

    /// When the last write has been paid for by its size.
    pub(super) fn spaced(&self) -> Timestamp {
        self.written + Duration::from_secs_f64(self.cost as f64 / BYTES_A_SECOND)
    }

    /// The store has another version of it now, or another object of its name.
    pub(super) fn replace(&mut self, new: Self) {
        let old = std::mem::replace(self, new);
        self.name = old.name;
        (self.written, self.cost) = (old.written, old.cost);
        if self.uid != old.uid {
            return;
        }
        self.superseded = old.superseded;
        if self.no_rule_since.is_some() && old.no_rule_since.is_some() {
            self.no_rule_since = old.no_rule_since;
        }
        if self.version != old.version {
            self.superseded.push(old.version);
            if self.superseded.len() > SUPERSEDED {
                self.superseded.remove(0);
            }
        }
    }

    /// Whether both are versions of one object, and not another one in its place.
    pub(super) fn is_version_of(&self, other: &DnsNameResolver) -> bool {
        *self.uid == *uid(other)
    }

    /// Whether `seen` is an earlier state of the same object, as a late watch event delivers it. Once the watch has come
    /// to the newest state there are no more of them.
    pub(super) fn is_late(&mut self, seen: &DnsNameResolver) -> bool {
        if !self.is_version_of(seen) {
            return false;
        }
        let version = version(seen);
        if *self.version == *version {
            self.superseded = Vec::new();
        }
        self.superseded.iter().any(|old| **old == *version)
    }

    /// The object without its status, and without what nobody needs of it.
    pub(super) fn bare(&self, namespace: &str, spec: &DnsName) -> DnsNameResolver {
        DnsNameResolver {
            metadata: ObjectMeta {
                name: Some(self.name.as_ref().to_owned()),
                namespace: Some(namespace.to_owned()),
                uid: some(&self.uid),
                resource_version: some(&self.version),
                ..ObjectMeta::default()
            },
            spec: DnsNameResolverSpec {
                name: spec.as_str().to_owned(),
            },
            status: None,
        }
    }

    /// The write that replaces its status.
    pub(super) fn write(
        &self,
        namespace: &str,
        spec: &DnsName,
        status: DnsNameResolverStatus,
    ) -> Write {
        Write::Status(Box::new(DnsNameResolver {
            status: Some(status),
            ..self.bare(namespace, spec)
        }))
    }

    pub(super) fn delete(&self, key: ObjectKey) -> Write {
        let precondition = Precondition {
            uid: some(&self.uid),
            resource_version: some(&self.version),
        };
        Write::Delete(key, precondition)
    }
}

fn uid(object: &DnsNameResolver) -> &str {
    object.metadata.uid.as_deref().unwrap_or_default()
}

fn version(object: &DnsNameResolver) -> &str {
    object
        .metadata
        .resource_version
        .as_deref()
        .unwrap_or_default()
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// What writing an object costs the API server. It takes 150 to 250 ms for a thousand addresses, which counts as half a
/// megabyte; the object itself is a third of that.
fn cost(status: &Stored) -> usize {
    let (names, addresses) = status.count();
    1_000 + 600 * names + 500 * addresses
}
