//! The jobs under way, by namespace. A namespace whose writes hang leaves places to the others.

use std::collections::{HashMap, HashSet};

use runtime::store::ObjectKey;

/// The most jobs of one namespace at once.
pub(super) const OF_A_NAMESPACE: usize = 4;

/// The jobs under way.
#[derive(Debug, Default)]
pub(super) struct Flights {
    jobs: HashSet<ObjectKey>,
    by_namespace: HashMap<String, usize>,
}

impl Flights {
    /// Whether a job of the namespace may begin.
    pub(super) fn has_room(&self, namespace: &str) -> bool {
        let of_it = self.by_namespace.get(namespace).copied().unwrap_or(0);
        of_it < OF_A_NAMESPACE
    }

    /// Whether the object has a job.
    pub(super) fn has_job(&self, key: &ObjectKey) -> bool {
        self.jobs.contains(key)
    }

    /// Whether a job of the object may begin.
    pub(super) fn may_begin(&self, key: &ObjectKey) -> bool {
        !self.has_job(key) && self.has_room(&key.namespace)
    }

    /// Begins a job, if there is room.
    pub(super) fn begin(&mut self, key: &ObjectKey) -> bool {
        if !self.may_begin(key) {
            return false;
        }
        self.jobs.insert(key.clone());
        *self.by_namespace.entry(key.namespace.clone()).or_default() += 1;
        true
    }

    /// Ends a job.
    pub(super) fn end(&mut self, key: &ObjectKey) {
        if !self.jobs.remove(key) {
            return;
        }
        if let Some(count) = self.by_namespace.get_mut(&key.namespace) {
            *count -= 1;
            if *count == 0 {
                self.by_namespace.remove(&key.namespace);
            }
        }
    }
}
