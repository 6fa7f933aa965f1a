//! One wanted name: its state and its objects.

use std::{sync::Arc, time::Duration};

use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::{eviction_log::Evictions, name_use::NameUse, stored_object::StoredObject};
use crate::{
    namespaces::{Namespace, Namespaces},
    rules::{Source, SourceSet},
    state::NameState,
};

/// The most namespaces for each name; further ones are counted.
pub(super) const MOST_NAMESPACES: usize = 100;

/// How long a name and its objects stay after its last rule went, since the rule may come back: an
/// edit that replaces objects, a CustomResourceDefinition that is deleted, or a store during a restore.
pub(super) const UNUSED_FOR: Duration = Duration::from_secs(600);

/// A process has a hundred thousand of these, so rare fields are boxed and common values shared.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) memory: NameState,
    /// How rules use it.
    pub(crate) in_use: Arc<NameUse>,
    /// Since when no rule has it, if one had. It is kept for [`UNUSED_FOR`].
    pub(crate) unused_since: Option<Timestamp>,
    /// Its namespaces have too many names, so no address of it is kept.
    pub(crate) left_out: bool,
    /// Usually one; a foreign object of the same name is updated too.
    pub(crate) objects: Vec<StoredObject>,
    /// Cached answers for it are not applied yet.
    pub(crate) fresh: bool,
    pub(crate) writes: WriteState,
    /// `None` for most names.
    pub(crate) evicted: Option<Box<Evictions>>,
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
    /// Since when there are updates that are not in the store.
    pub(crate) unwritten_since: Option<Timestamp>,
    /// Its time in the table's [`Wakes`](super::names::Wakes).
    pub(crate) wake: Option<Timestamp>,
}

impl WriteState {
    /// The clock was set: no time is in the future, and no long delay remains.
    fn gap(&mut self, now: Timestamp) {
        self.missing_since = self.missing_since.min(now);
        self.retry_at = self.retry_at.min(now);
        self.unwritten_since = self.unwritten_since.map(|since| since.min(now));
    }
}

impl Entry {
    pub(crate) fn new(spec: DnsName, in_use: &Arc<NameUse>, now: Timestamp) -> Self {
        Self {
            memory: NameState::new(spec),
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

    /// Whether an object of it has addresses.
    pub(super) fn has_status(&self) -> bool {
        let mut objects = self.objects.iter();
        objects.any(|object| object.status.count().1 > 0)
    }

    pub(crate) fn object_mut(&mut self, source: Source, name: &str) -> Option<&mut StoredObject> {
        let mut objects = self.objects.iter_mut();
        objects.find(|object| object.source == source && *object.name == *name)
    }

    /// The clock was set: no time is in the future, and no long delay remains.
    pub(crate) fn gap(&mut self, now: Timestamp) {
        self.memory.gap(now, &self.in_use.limits);
        self.writes.gap(now);
        self.unused_since = self.unused_since.map(|_| now);
        for object in &mut self.objects {
            object.written = object.written.min(now);
            object.no_rule_since = None;
        }
    }
}

/// The names of namespaces, sorted.
pub(super) fn names_of(
    all: &Namespaces,
    namespaces: impl Iterator<Item = Namespace>,
) -> Vec<Arc<str>> {
    let namespaces = namespaces.take(MOST_NAMESPACES);
    let mut names: Vec<_> = namespaces.map(|it| all.name(it)).collect();
    names.sort_unstable();
    names
}
