//! What the consumer of a watch keeps of each object.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use super::{Event, ObjectKey};

/// A value for each object, kept up to date by the events of a watch.
#[derive(Debug, Default)]
pub(crate) struct ObjectCache<V> {
    values: BTreeMap<ObjectKey, V>,
    /// Objects that are there and cannot be read: the last value of each holds.
    undecodable: BTreeSet<ObjectKey>,
    /// The watch has said something, if only that it can read nothing.
    pub(crate) has_begun: bool,
    /// The objects were listed, so that an object that is not here does not exist.
    pub(crate) was_listed: bool,
}

impl<V: Clone + PartialEq> ObjectCache<V> {
    /// The values of all objects.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.values.values()
    }

    /// Takes an event in, and returns whether it says anything new.
    pub(crate) fn take(&mut self, event: Event<(ObjectKey, V)>) -> bool {
        let is_new = match event {
            Event::Undecodable(keys) => {
                // Nothing is known by that alone: an event about the other objects follows.
                self.undecodable = keys;
                return false;
            }
            Event::Synced(objects) => {
                let before = self.values.clone();
                self.values.retain(|key, _| self.undecodable.contains(key));
                self.values.extend(objects);
                !mem::replace(&mut self.was_listed, true) | (before != self.values)
            }
            Event::Applied((key, value)) => {
                let before = self.values.insert(key, value.clone());
                before != Some(value)
            }
            Event::Deleted(key) => self.values.remove(&key).is_some(),
            Event::OutOfSync(_) => false,
        };
        !mem::replace(&mut self.has_begun, true) | is_new
    }
}
