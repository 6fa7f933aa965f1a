//! What there is to see of the names, for people.

use std::iter::once;

use proto::api::DnsName;
use runtime::{clock::Timestamp, store::ObjectKey};
use serde::Serialize;

use super::{
    Evictions, NamespaceShare, StatusController,
    entry::{Entry, Object},
};
use crate::{failure::Failure, state::Failing};

/// How many failing names are named of each that is in use.
pub(super) const MAX_FAILING: usize = 10;

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
    pub(super) fn of(failing: Failing<'_>) -> Self {
        Self {
            name: failing.dns_name.clone(),
            failures: failing.failures,
            failure: failing.failure,
        }
    }
}

impl StatusController {
    /// What is known of all names.
    pub fn view(&self, now: Timestamp) -> View {
        let mut names: Vec<_> = self
            .entries
            .iter()
            .map(|(name, entry)| self.view_of(name, entry, now))
            .collect();
        names.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        View {
            at: now,
            leader: self.leader,
            evictions: self.evictions,
            lookups: self.schedule.len(),
            namespaces: self.shares_over(),
            names,
        }
    }

    fn view_of(&self, name: &DnsName, entry: &Entry, now: Timestamp) -> NameView {
        let key = |object: &Object| self.key(&object.name);
        let evicted = entry.evicted.as_deref().copied().unwrap_or_default();
        let due = once(name).chain(entry.memory.names());
        let due = due.filter_map(|name| self.schedule.due(name)).min();
        let failures = entry.memory.failing_names().take(MAX_FAILING);
        NameView {
            name: name.clone(),
            objects: entry.objects.iter().map(key).collect(),
            allowed: entry.allowed,
            denied: entry.denied,
            held: self.is_held(name),
            left_out: entry.left_out,
            full: entry.denied && evicted.evictions.addresses > 0,
            names: entry.memory.names().count(),
            addresses: entry.memory.addresses(),
            // What is overdue, or has no time because it was never looked up, is next.
            next_lookup: due.map(|due| due.max(now)),
            fruitless_lookups: self.schedule.barren(name),
            failing: entry.memory.failing_names().count(),
            failures: failures.map(FailureView::of).collect(),
            evictions: evicted.evictions,
            failed_writes: entry.failures,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{World, at, name};
    use super::*;
    use crate::{
        controller::ManageObjects,
        lookup::{FamilyOutcome, LookupResult},
    };

    fn fail(world: &mut World, asked: &str) {
        let failed = || FamilyOutcome::Failed(Failure::NXDOMAIN);
        let now = at(world.now);
        let round = LookupResult {
            name: name(asked),
            started: now,
            finished: now,
            v4: failed(),
            v6: failed(),
        };
        world.owner.next_request(now);
        world.owner.round(&round, now);
    }

    #[test]
    fn a_view_has_every_name_with_what_is_known_of_it_and_what_fails() {
        let mut world = World::with(ManageObjects::Auto, |config| config.limits.lookups = true);
        world.want(&["www.example.com", "*.example.net", "dead.example.com"]);
        world.observe("www.example.com", "192.0.2.1");
        world.observe("www.example.com", "192.0.2.2");
        world.observe("a.example.net", "192.0.2.3");
        world.observe("b.example.net", "192.0.2.3");
        world.settle();
        fail(&mut world, "dead.example.com");
        fail(&mut world, "a.example.net");
        let view = world.owner.view(at(world.now));
        assert!(view.leader);
        let [wildcard, dead, www] = view.names.as_slice() else {
            panic!("{view:?}");
        };
        assert_eq!(www.name, name("www.example.com"));
        assert_eq!((www.names, www.addresses, www.failing), (1, 2, 0));
        assert_eq!(www.objects.len(), 1);
        assert!(www.allowed && !www.denied);
        // When the first address expires, and a little later.
        let next = www.next_lookup.unwrap();
        assert!(next >= at(30_000) && next <= at(31_250), "{next:?}");

        assert_eq!(wildcard.name, name("*.example.net"));
        assert_eq!(
            (wildcard.names, wildcard.addresses, wildcard.failing),
            (2, 2, 1)
        );
        let failure = FailureView {
            name: name("a.example.net"),
            failures: 1,
            failure: Some(Failure::NXDOMAIN),
        };
        assert_eq!(wildcard.failures, [failure]);

        // It never had an address, so there is nothing that could be degraded.
        assert_eq!(
            (dead.addresses, dead.failing, dead.fruitless_lookups),
            (0, 0, 1)
        );
        assert_eq!(dead.next_lookup.unwrap().since(at(world.now)).as_secs(), 5);
    }
}
