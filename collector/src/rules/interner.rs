//! One copy of equal values.

use std::{collections::HashSet, hash::Hash, sync::Arc};

/// Values that were shared so far. A process has a hundred thousand names, and few different values.
#[derive(Debug)]
pub(crate) struct Interner<T>(HashSet<Arc<T>>);

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self(HashSet::new())
    }
}

impl<T: Eq + Hash> Interner<T> {
    /// An equal value of before, or this one.
    pub(crate) fn share(&mut self, value: T) -> Arc<T> {
        if let Some(known) = self.0.get(&value) {
            return Arc::clone(known);
        }
        let value = Arc::new(value);
        self.0.insert(Arc::clone(&value));
        value
    }
}
