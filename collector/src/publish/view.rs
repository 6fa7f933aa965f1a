//! A summary of all names, for `/status.json`, and the requests of other tasks for this and other views.

use std::iter::once;

use proto::{
    api::DnsName,
    facts::{CapFacts, FailingName, NameList, SubjectFacts},
};
use runtime::{clock::Timestamp, inspect::Subject, store::ObjectKey};
use serde::Serialize;
use tokio::sync::oneshot;

use super::{listing::NamesQuery, publisher::Publisher};
use names::{Entry, Evictions, NamespaceAtCap, Namespaces, failing_names};

/// The most failing names listed for each name in use.
pub(crate) const MAX_FAILING: usize = 10;

/// A request, with the channel for the answer.
#[derive(Debug)]
pub enum InspectRequest {
    /// A summary of all names.
    View(oneshot::Sender<View>),
    /// The details of one subject.
    Facts(Subject, oneshot::Sender<SubjectFacts>),
    /// Names with their addresses.
    Names(NamesQuery, oneshot::Sender<NameList>),
}

impl InspectRequest {
    /// Answers the request. The receiver may be gone.
    pub(crate) fn answer(self, publisher: &Publisher, now: Timestamp) {
        match self {
            Self::View(sender) => {
                let _gone = sender.send(publisher.view(now));
            }
            Self::Facts(subject, sender) => {
                let _gone = sender.send(publisher.facts(&subject, now));
            }
            Self::Names(query, sender) => {
                let _gone = sender.send(publisher.list_names(&query, now));
            }
        }
    }
}

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
    pub namespaces: Vec<CapFacts>,
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
    pub failures: Vec<FailingName>,
    /// Evictions since the start of the process.
    pub evictions: Evictions,
    /// Failed writes of its object since the last success.
    pub failed_writes: u32,
}

pub(super) fn cap_facts(at_cap: &NamespaceAtCap, namespaces: &Namespaces) -> CapFacts {
    CapFacts {
        namespace: namespaces.name(at_cap.namespace).to_string(),
        names_left_out: at_cap.names_left_out,
        addresses: at_cap.addresses,
    }
}

impl Publisher {
    /// A summary of all names.
    pub fn view(&self, now: Timestamp) -> View {
        let names = self.names.iter();
        let mut names: Vec<_> = names
            .map(|(name, entry)| self.view_of(name, entry, now))
            .collect();
        names.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let at_cap = self.names.at_cap();
        View {
            at: now,
            leader: self.names.leads(),
            evictions: self.names.evictions(),
            lookups: self.names.scheduled(),
            namespaces: at_cap.map(|it| cap_facts(&it, &self.namespaces)).collect(),
            names,
        }
    }

    fn view_of(&self, name: &DnsName, entry: &Entry, now: Timestamp) -> NameView {
        let of_name = self.by_name.get(name);
        let objects = of_name.into_iter().flat_map(|it| &it.objects);
        let due = once(name).chain(entry.list().names());
        let due = due.filter_map(|name| self.names.due(name)).min();
        let denied = entry.is_used() && entry.rule_use().denied;
        NameView {
            name: name.clone(),
            objects: objects.map(|it| it.key(self.objects.policy())).collect(),
            allowed: entry.is_used() && entry.rule_use().allowed,
            denied,
            left_out: entry.is_left_out(),
            full: denied && entry.evicted().addresses > 0,
            names: entry.list().names().count(),
            addresses: entry.list().addresses(),
            // An overdue name, or one without a time because it was never looked up, is next.
            next_lookup: due.map(|due| due.max(now)),
            fruitless_lookups: self.names.fruitless_lookups(name),
            failing: failing_names(entry.state()).count(),
            failures: failing_names(entry.state()).take(MAX_FAILING).collect(),
            evictions: entry.evicted(),
            failed_writes: of_name.map_or(0, |it| it.failures),
        }
    }
}
