//! One wanted name: what is known of it, and the objects that bear it.

use std::collections::{BTreeMap, VecDeque};

use kube::{ResourceExt, core::ObjectMeta};
use proto::api::{DnsName, DnsNameResolver, DnsNameResolverSpec, object_name};
use runtime::{
    clock::Timestamp,
    store::{ObjectKey, Precondition},
};

use super::{evictions::Evictions, writes};
use crate::{
    publish::Write,
    state::{Limits, Memory},
};

/// The label and its value by which objects are known as the collector's own.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "collector");

/// Versions of an object that are known to be old.
const SUPERSEDED: usize = 8;

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) spec: DnsName,
    pub(super) memory: Memory,
    /// The bounds for this name: the flags, and what its EgressFirewalls say.
    pub(super) limits: Limits,
    /// Usually one; a foreign one of the same name is kept up too.
    pub(super) objects: BTreeMap<ObjectKey, Object>,
    /// What was remembered of it is not taken in yet.
    pub(super) fresh: bool,
    /// Since when there is none.
    pub(super) missing_since: Timestamp,
    /// An object is being made.
    pub(super) creating: bool,
    /// How many objects of other names had the computed name.
    pub(super) collisions: u64,
    /// Failed writes since the last that worked, and when to try again.
    pub(super) failures: u32,
    pub(super) retry_at: Timestamp,
    /// The first observation that is not in the store.
    pub(super) unwritten_since: Option<Timestamp>,
    /// When there may be something to write, if nothing is learned until then.
    pub(super) look_again_at: Option<Timestamp>,
    /// When it stands in the owner's wakes.
    pub(super) wake: Option<Timestamp>,
    pub(super) evictions: Evictions,
    pub(super) evictions_told_at: Timestamp,
}

impl Entry {
    pub(super) fn new(spec: DnsName, limits: &Limits, now: Timestamp) -> Self {
        Self {
            memory: Memory::new(spec.clone()),
            limits: limits.clone(),
            fresh: true,
            missing_since: now,
            spec,
            objects: BTreeMap::new(),
            creating: false,
            collisions: 0,
            failures: 0,
            retry_at: Timestamp::default(),
            unwritten_since: None,
            look_again_at: None,
            wake: None,
            evictions: Evictions::default(),
            evictions_told_at: Timestamp::default(),
        }
    }

    pub(super) fn look_again(&mut self, at: Timestamp) {
        self.look_again_at = self.look_again_at.into_iter().chain([at]).min();
    }

    /// The object to make for the name.
    pub(super) fn object(&self, namespace: &str) -> DnsNameResolver {
        let (label, value) = MANAGED_BY;
        DnsNameResolver {
            metadata: ObjectMeta {
                name: Some(object_name(&self.spec, self.collisions)),
                namespace: Some(namespace.to_owned()),
                labels: Some([(label.to_owned(), value.to_owned())].into()),
                ..ObjectMeta::default()
            },
            spec: DnsNameResolverSpec {
                name: self.spec.as_str().to_owned(),
            },
            status: None,
        }
    }
}

/// An object as the store was last known to have it.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) stored: DnsNameResolver,
    /// When this process last wrote it, and how large it then was.
    pub(super) written: Timestamp,
    pub(super) bytes: usize,
    /// Versions that it had before: a late watch event of one of them says nothing.
    superseded: VecDeque<String>,
}

impl Object {
    pub(super) fn new(stored: DnsNameResolver) -> Self {
        Self {
            stored,
            written: Timestamp::default(),
            bytes: 0,
            superseded: VecDeque::new(),
        }
    }

    /// It was just written as it stands.
    pub(super) fn was_written(&mut self, now: Timestamp) {
        self.written = now;
        self.bytes = writes::size(&self.stored);
    }

    pub(super) fn replace(&mut self, stored: DnsNameResolver) {
        if self.stored.metadata.uid != stored.metadata.uid {
            self.superseded.clear();
        } else if let Some(old) = self
            .stored
            .resource_version()
            .filter(|old| Some(old) != stored.resource_version().as_ref())
        {
            self.superseded.push_back(old);
            if self.superseded.len() > SUPERSEDED {
                self.superseded.pop_front();
            }
        }
        self.stored = stored;
    }

    /// Whether `seen` is an earlier state of the same object, as a late watch event delivers it. Once the watch has come
    /// to the newest state there are no more of them.
    pub(super) fn is_late(&mut self, seen: &DnsNameResolver) -> bool {
        if self.stored.metadata.uid != seen.metadata.uid {
            return false;
        }
        let version = &seen.metadata.resource_version;
        if *version == self.stored.metadata.resource_version {
            self.superseded.clear();
        }
        version
            .as_ref()
            .is_some_and(|version| self.superseded.contains(version))
    }

    /// Whether the collector made it.
    pub(super) fn is_ours(&self) -> bool {
        let (label, value) = MANAGED_BY;
        self.stored
            .labels()
            .get(label)
            .is_some_and(|found| found == value)
    }

    pub(super) fn delete(&self, key: &ObjectKey) -> Write {
        let precondition = Precondition {
            uid: self.stored.uid(),
            resource_version: self.stored.resource_version(),
        };
        Write::Delete(key.clone(), precondition)
    }
}
