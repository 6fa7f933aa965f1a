//! A look at all that is known, for people. Nothing changes by it.

use super::{
    in_use::NamesInUse, leadership::Leadership, names::NameTable,
    namespace_limits::NamespaceShares, stored_objects::StoredObjects,
};

/// What there is to look at.
#[derive(Clone, Copy)]
pub(crate) struct Inspection<'a> {
    pub(crate) names: &'a NameTable,
    pub(crate) objects: &'a StoredObjects,
    pub(crate) in_use: &'a NamesInUse,
    pub(crate) shares: &'a NamespaceShares,
    pub(crate) lead: &'a Leadership,
}

impl Inspection<'_> {
    /// Whether nothing waits to be written, or to come back from the store.
    pub(crate) fn is_settled(&self) -> bool {
        self.names.dirty.is_empty() && self.objects.is_settled()
    }

    /// How many names have something to write that the store did not take, and that is put off.
    pub(crate) fn unwritten(&self) -> usize {
        let entries = self.names.entries.values();
        entries.filter(|entry| entry.writes.failures > 0).count()
    }
}
