//! What there is to see of all names, for people.

use std::iter::once;

use proto::api::DnsName;
use runtime::{clock::Timestamp, store::ObjectKey};
use serde::Serialize;

use super::{
    Evictions, NamespaceShare, entry::Entry, inspection::Inspection, stored_object::StoredObject,
};
use crate::{
    failure::Failure,
    state::{Failing, failing_names},
};

/// How many failing names are named of each that is in use.
pub(crate) const MAX_FAILING: usize = 10;

/// What is known of all names.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct View {
    /// When this was so.
    pub at: Timestamp,
    /// Whether this replica looks names up, removes addresses, and makes and deletes objects.
    pub leader: bool,
    /// What went because a limit was reached, in this process's life.
    pub evictions: Evictions,
    /// How many names wait to be looked up, or are being looked up; those found under wildcards among them.
    pub lookups: usize,
    /// The namespaces that have too much, so that something of theirs is left out.
    #[serde(rename = "namespacesOverLimit")]
    pub namespaces: Vec<NamespaceShare>,
    /// The names in use, and those of objects, in the order of their names.
    pub names: Vec<NameView>,
}

/// What is known of one of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NameView {
    /// The name.
    pub name: DnsName,
    /// Its objects: one, if all is well.
    pub objects: Vec<ObjectKey>,
    /// It stands in an Allow rule.
    pub allowed: bool,
    /// It stands in a Deny rule.
    pub denied: bool,
    /// It is kept although no EgressFirewall has it any more, until that is believed.
    pub held: bool,
    /// It is left out, as the namespaces that use it have too much.
    pub left_out: bool,
    /// It stands in a Deny rule, and its object had no room for all addresses: those that came last were left out, and are open.
    pub full: bool,
    /// How many names have addresses: more than one only for a wildcard.
    pub names: usize,
    /// How many addresses are known, each name's counted for itself.
    pub addresses: usize,
    /// When it, or the first of the names found under it, is looked up next.
    pub next_lookup: Option<Timestamp>,
    /// Look-ups of the name itself in a row that gave no address.
    pub fruitless_lookups: u32,
    /// How many of these names cannot be looked up.
    pub failing: usize,
    /// At most ten of them.
    pub failures: Vec<FailureView>,
    /// What went because a limit was reached, in this process's life.
    pub evictions: Evictions,
    /// Writes of its object that failed since the last that worked.
    pub failed_writes: u32,
}

/// A name that cannot be looked up.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureView {
    /// The name.
    pub name: DnsName,
    /// How many look-ups failed since the last answer.
    pub failures: i32,
    /// How the last one failed, as the condition `Degraded` says it; not known if that was before this process's life.
    #[serde(rename = "degraded")]
    pub failure: Option<Failure>,
}

impl FailureView {
    pub(crate) fn of(failing: Failing<'_>) -> Self {
        Self {
            name: failing.dns_name.clone(),
            failures: failing.failures,
            failure: failing.failure,
        }
    }
}

impl Inspection<'_> {
    /// What is known of all names.
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
            evictions: self.names.evictions.all(),
            lookups: self.names.lookups.len(),
            namespaces: self.shares.over(),
            names,
        }
    }

    fn view_of(&self, name: &DnsName, entry: &Entry, now: Timestamp) -> NameView {
        let key = |object: &StoredObject| self.objects.key(&object.name);
        let evicted = entry.evicted.as_deref().copied().unwrap_or_default();
        let due = once(name).chain(entry.memory.list().names());
        let due = due.filter_map(|name| self.names.lookups.due(name)).min();
        let failures = failing_names(&entry.memory).take(MAX_FAILING);
        NameView {
            name: name.clone(),
            objects: entry.objects.iter().map(key).collect(),
            allowed: entry.allowed,
            denied: entry.denied,
            held: self.in_use.is_held(name),
            left_out: entry.left_out,
            full: entry.denied && evicted.evictions.addresses > 0,
            names: entry.memory.list().names().count(),
            addresses: entry.memory.list().addresses(),
            // What is overdue, or has no time because it was never looked up, is next.
            next_lookup: due.map(|due| due.max(now)),
            fruitless_lookups: self.names.lookups.barren(name),
            failing: failing_names(&entry.memory).count(),
            failures: failures.map(FailureView::of).collect(),
            evictions: evicted.evictions,
            failed_writes: entry.writes.failures,
        }
    }
}
