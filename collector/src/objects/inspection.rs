//! A look at all that is known, for people. Nothing changes by it.

use runtime::{clock::Timestamp, inspect::Subject};
use tokio::sync::oneshot;

use super::{
    facts::Facts, in_use::NamesInUse, leadership::Leadership, names::NameTable,
    namespace_limits::NamespaceShares, stored_objects::StoredObjects, view::View,
};

/// What somebody wants to know, and where to send it.
#[derive(Debug)]
pub enum InspectRequest {
    /// All names, in short.
    View(oneshot::Sender<View>),
    /// All about one.
    Facts(Subject, oneshot::Sender<Facts>),
}

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
    /// Answers a request. The other end may be gone.
    pub(crate) fn answer(&self, request: InspectRequest, now: Timestamp) {
        match request {
            InspectRequest::View(sender) => {
                let _gone = sender.send(self.view(now));
            }
            InspectRequest::Facts(subject, sender) => {
                let _gone = sender.send(self.facts(&subject, now));
            }
        }
    }

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
