//! Read-only access to the whole state, for the status page and metrics.

use super::{
    leadership::Leadership, names::NameTable, namespace_caps::NamespaceUse,
    stored_objects::StoredObjects,
};

#[derive(Clone, Copy)]
pub(crate) struct Inspection<'a> {
    pub(crate) names: &'a NameTable,
    pub(crate) objects: &'a StoredObjects,
    pub(crate) namespaces: &'a NamespaceUse,
    pub(crate) lead: &'a Leadership,
}

impl Inspection<'_> {
    /// Whether no write waits or is in flight.
    pub(crate) fn is_settled(&self) -> bool {
        self.names.dirty.is_empty() && self.objects.is_settled()
    }

    /// The number of names whose write failed and is put off.
    pub(crate) fn unwritten(&self) -> usize {
        let entries = self.names.entries.values();
        entries.filter(|entry| entry.writes.failures > 0).count()
    }
}
