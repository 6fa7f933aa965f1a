//! The objects of one name, and the progress of their writes.

use std::sync::Arc;

use names::{Namespace, Namespaces};
use runtime::clock::Timestamp;

use super::stored_object::StoredObject;
use crate::rules::{Source, SourceSet};

/// The most namespaces for each name; further ones are counted.
pub(super) const MOST_NAMESPACES: usize = 100;

/// The objects of one name.
#[derive(Debug, Default)]
pub(crate) struct NameObjects {
    /// The sources with a rule for it.
    pub(super) sources: SourceSet,
    /// Usually one; a foreign object of the same name is updated too.
    pub(super) objects: Vec<StoredObject>,
    /// Since when the object of some source is missing.
    pub(super) missing_since: Timestamp,
    /// The sources whose object is being created.
    pub(super) creating: SourceSet,
    /// The number of objects of other names that have the computed name.
    pub(super) collisions: u32,
    /// Failed writes since the last success.
    pub(super) failures: u32,
    pub(super) retry_at: Timestamp,
    /// Since when there are updates that are not in the store.
    pub(super) unwritten_since: Option<Timestamp>,
}

impl NameObjects {
    pub(super) fn object_mut(&mut self, source: Source, name: &str) -> Option<&mut StoredObject> {
        let mut objects = self.objects.iter_mut();
        objects.find(|object| object.source == source && *object.name == *name)
    }

    /// The clock was set: no time is in the future, and no long delay remains.
    pub(super) fn on_clock_jump(&mut self, now: Timestamp) {
        self.missing_since = self.missing_since.min(now);
        self.retry_at = self.retry_at.min(now);
        self.unwritten_since = self.unwritten_since.map(|since| since.min(now));
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
