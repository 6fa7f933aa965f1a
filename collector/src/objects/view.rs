//! A summary of all names, for the status page.

use std::iter::once;

use proto::api::DnsName;
use runtime::{clock::Timestamp, store::ObjectKey};
use serde::Serialize;

use super::{
    Evictions, NamespaceAtCap, entry::Entry, inspection::Inspection, stored_object::StoredObject,
};
use crate::state::{FailureView, failing_names};

/// The most failing names listed for each name in use.
pub(crate) const MAX_FAILING: usize = 10;

/// A summary of all names.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct View {
    /// The time of the snapshot.
    pub at: Timestamp,
    /// Whether this replica looks names up, removes addresses, and creates and deletes objects.
    pub leader: bool,
    /// Evictions since the start of the process.
    pub evictions: Evictions,
    /// Names that wait for a look-up or are being looked up, including those found under wildcards.
    pub lookups: usize,
    /// The namespaces at a cap, whose names or addresses are left out in part.
    #[serde(rename = "namespacesAtCap")]
    pub namespaces: Vec<NamespaceAtCap>,
    /// The names in use, and those of objects, sorted by name.
    pub names: Vec<NameView>,
}

/// The summary of one name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NameView {
    pub name: DnsName,
    /// Its objects: usually one.
    pub objects: Vec<ObjectKey>,
    /// An Allow rule uses it.
    pub allowed: bool,
    /// A Deny rule uses it.
    pub denied: bool,
    /// It is left out because its namespaces have too many names.
    pub left_out: bool,
    /// It is in a Deny rule, and its object is full: the latest addresses were left out, and
    /// traffic to them is not blocked.
    pub full: bool,
    /// The number of names with addresses: more than one only for a wildcard.
    pub names: usize,
    /// The number of known addresses; an address of two names counts twice.
    pub addresses: usize,
    /// Its next look-up, or that of the first name found under it.
    pub next_lookup: Option<Timestamp>,
    /// Look-ups of the name itself in a row that found no address.
    pub fruitless_lookups: u32,
    /// The number of these names whose look-ups fail.
    pub failing: usize,
    /// At most ten of them.
    pub failures: Vec<FailureView>,
    /// Evictions since the start of the process.
    pub evictions: Evictions,
    /// Failed writes of its object since the last success.
    pub failed_writes: u32,
}

impl Inspection<'_> {
    pub(crate) fn view(&self, now: Timestamp) -> View {
        let mut names: Vec<_> = self
            .names
            .entries
            .iter()
            .map(|(name, entry)| self.view_of(name, entry, now))
            .collect();
        names.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        View {
            at: now,
            leader: self.lead.leads(),
            evictions: self.names.evictions.all,
            lookups: self.names.lookups.len(),
            namespaces: self.namespaces.at_cap(self.names),
            names,
        }
    }

    fn view_of(&self, name: &DnsName, entry: &Entry, now: Timestamp) -> NameView {
        let key = |object: &StoredObject| object.key(self.objects.policy());
        let evicted = entry.evicted.as_deref().copied().unwrap_or_default();
        let due = once(name).chain(entry.memory.list().names());
        let due = due.filter_map(|name| self.names.lookups.due(name)).min();
        NameView {
            name: name.clone(),
            objects: entry.objects.iter().map(key).collect(),
            allowed: entry.in_use.allowed,
            denied: entry.in_use.denied,
            left_out: entry.left_out,
            full: entry.in_use.denied && evicted.addresses > 0,
            names: entry.memory.list().names().count(),
            addresses: entry.memory.list().addresses(),
            // An overdue name, or one without a time because it was never looked up, is next.
            next_lookup: due.map(|due| due.max(now)),
            fruitless_lookups: self.names.lookups.barren(name),
            failing: failing_names(&entry.memory).count(),
            failures: failing_names(&entry.memory).take(MAX_FAILING).collect(),
            evictions: evicted,
            failed_writes: entry.writes.failures,
        }
    }
}
