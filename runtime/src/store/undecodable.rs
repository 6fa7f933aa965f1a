//! The existing objects that cannot be read, and the order in which a watch reports them.

use std::collections::BTreeSet;

use super::{Event, ObjectKey};

/// The objects as last reported.
#[derive(Debug, Default)]
pub(crate) struct Undecodable(BTreeSet<ObjectKey>);

impl Undecodable {
    /// Whether the object was reported.
    pub(crate) fn has(&self, key: &ObjectKey) -> bool {
        self.0.contains(key)
    }

    /// Adds [`Event::Undecodable`] around events after which these objects cannot be read. New ones are named before
    /// the event that lacks them. A resolved one is removed after the event that has it.
    ///
    /// `is_there` tells which objects exist. A deleted object is dropped only before a list that lacks it, which says
    /// that it is deleted.
    pub(crate) fn around<K>(
        &mut self,
        events: &mut Vec<Event<K>>,
        now: BTreeSet<ObjectKey>,
        is_there: impl Fn(&ObjectKey) -> bool,
    ) {
        let mut both = self.0.clone();
        if events.iter().any(|event| matches!(event, Event::Synced(_))) {
            both.retain(is_there);
        }
        both.extend(now.iter().cloned());
        if both != self.0 {
            events.insert(0, Event::Undecodable(both.clone()));
        }
        if both != now {
            events.push(Event::Undecodable(now.clone()));
        }
        self.0 = now;
    }
}
