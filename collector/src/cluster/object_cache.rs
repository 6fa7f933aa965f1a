//! A cache of values for the consumer of a watch.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use runtime::store::{Event, ObjectKey};

/// A value for each object, kept up to date by the events of a watch.
#[derive(Debug, Default)]
pub(crate) struct ObjectCache<V> {
    values: BTreeMap<ObjectKey, V>,
    /// Existing objects that cannot be read: the last value of each stays valid.
    undecodable: BTreeSet<ObjectKey>,
    /// The watch has sent an event, even if only an error.
    pub(crate) has_begun: bool,
    /// The objects were listed, so an object that is not here does not exist.
    pub(crate) was_listed: bool,
}

impl<V: Clone + PartialEq> ObjectCache<V> {
    /// The values of all objects.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.values.values()
    }

    /// Applies an event, and returns whether it changes anything.
    pub(crate) fn take(&mut self, event: Event<(ObjectKey, V)>) -> bool {
        let is_new = match event {
            Event::Undecodable(keys) => {
                // The event alone changes no value: an event about the other objects follows.
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
