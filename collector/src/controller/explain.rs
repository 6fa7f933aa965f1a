//! What is known of one name or one address, for who asks why.

use std::net::IpAddr;

use proto::api::DnsName;
use runtime::{clock::Timestamp, inspect::Subject, store::ObjectKey};
use serde::Serialize;
use tokio::sync::oneshot;

use super::{FailureView, NamespaceShare, StatusController, View, entry::Entry, view};
use crate::state::AddressFacts;

/// So many addresses are told of, and of so many names; the others are counted.
const MOST: usize = 1_000;

/// What somebody wants to know of the owner, and where to send it.
#[derive(Debug)]
pub enum Question {
    /// All names, in short.
    View(oneshot::Sender<View>),
    /// All about one.
    Facts(Subject, oneshot::Sender<Facts>),
}

/// What is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// When this was so.
    pub at: Timestamp,
    /// Whether this replica looks names up, and removes addresses.
    pub leader: bool,
    /// Whether names are looked up at all.
    pub lookups: bool,
    /// Why the guards refuse the address, if it is one that they do.
    pub guarded: Option<&'static str>,
    /// What concerns it: the name in use itself, the wildcard above it, or whatever has the address. At most 1,000.
    pub names: Vec<NameFacts>,
    /// How many more there are.
    pub more_names: usize,
}

/// A name in use, or of an object, and what it knows of the subject.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NameFacts {
    /// The name, as a rule or an object has it.
    pub name: DnsName,
    /// Whether a rule uses it.
    pub wanted: bool,
    /// Whether it is kept although no EgressFirewall has it any more, until that is believed.
    pub held: bool,
    /// It is left out, as the namespaces that use it have too much.
    pub over_limit: bool,
    /// Some of these namespaces; of a wildcard that is not left out, those whose pods' new names are.
    #[serde(skip)]
    pub shares: Vec<NamespaceShare>,
    /// Its objects.
    pub objects: Vec<ObjectKey>,
    /// The addresses that the question is about, at most 1,000; with each whether it stands in an object.
    #[serde(skip)]
    pub addresses: Vec<(AddressFacts, bool)>,
    /// How many more there are.
    pub more_addresses: usize,
    /// When the subject, or the first name found under it, is looked up next.
    pub next_lookup: Option<Timestamp>,
    /// Look-ups of the name in a row that gave no address.
    pub fruitless_lookups: u32,
    /// Those of its names that the question is about and that cannot be looked up, at most ten.
    pub failures: Vec<FailureView>,
    /// It stands in a Deny rule, and its object had no room for so many addresses, which are open.
    pub left_out: u64,
    /// Writes of its object that failed since the last that worked.
    pub failed_writes: u32,
}

impl StatusController {
    /// Answers a question. Who asked may be gone.
    pub fn answer(&self, question: Question, now: Timestamp) {
        match question {
            Question::View(sender) => {
                let _gone = sender.send(self.view(now));
            }
            Question::Facts(subject, sender) => {
                let _gone = sender.send(self.facts(&subject, now));
            }
        }
    }

    /// What is known of a name or an address.
    pub fn facts(&self, subject: &Subject, now: Timestamp) -> Facts {
        let mut facts = Facts {
            at: now,
            leader: self.leader,
            lookups: self.config.limits.lookups,
            guarded: None,
            names: Vec::new(),
            more_names: 0,
        };
        match subject {
            Subject::Name(name) => {
                let specs = [Some(name.clone()), name.wildcard()];
                for spec in specs.into_iter().flatten() {
                    if let Some(entry) = self.entries.get(&spec) {
                        let of_name = |found: &DnsName, _| spec == *name || found == name;
                        let asked = (!name.is_wildcard()).then_some(name);
                        facts
                            .names
                            .push(self.name_facts(&spec, entry, asked, now, of_name));
                    }
                }
            }
            Subject::Address(address) => {
                facts.guarded = self.config.guards.admit(*address).err();
                let entries = self.entries.iter();
                let mut names_with_address: Vec<_> = entries
                    .filter(|(_, entry)| entry.memory.has_address(*address))
                    .collect();
                names_with_address.sort_unstable_by_key(|(spec, _)| *spec);
                facts.more_names = names_with_address.len().saturating_sub(MOST);
                let names_with_address = names_with_address.into_iter().take(MOST);
                let of_spec = names_with_address.map(|(spec, entry)| {
                    self.name_facts(spec, entry, None, now, |_, ip| ip == *address)
                });
                facts.names = of_spec.collect();
            }
        }
        facts
    }

    /// `asked`: of the names under a wildcard only this one counts.
    fn name_facts(
        &self,
        spec: &DnsName,
        entry: &Entry,
        asked: Option<&DnsName>,
        now: Timestamp,
        asked_for: impl Fn(&DnsName, IpAddr) -> bool,
    ) -> NameFacts {
        let stands = |facts: &AddressFacts| {
            let mut objects = entry.objects.iter();
            objects.any(|object| object.status.has(&facts.name, facts.ip))
        };
        let mut addresses = entry.memory.address_stats(&entry.limits, asked_for);
        let told = addresses.by_ref().take(MOST);
        let told = told.map(|facts| {
            let stands = stands(&facts);
            (facts, stands)
        });
        let told: Vec<_> = told.collect();
        let more_addresses = addresses.count();
        let is_asked = |name: &DnsName| asked.is_none_or(|asked| asked == name);
        let names = std::iter::once(spec).chain(entry.memory.names());
        let due = names.chain(asked).filter(|name| is_asked(name));
        let due = due.filter_map(|name| self.schedule.due(name)).min();
        let failing = entry.memory.failing_names();
        let failing = failing.filter(|failing| is_asked(failing.dns_name));
        NameFacts {
            name: spec.clone(),
            wanted: entry.wanted,
            held: self.is_held(spec),
            over_limit: entry.left_out,
            shares: self.shares_of(entry),
            objects: entry.objects.iter().map(|it| self.key(&it.name)).collect(),
            addresses: told,
            more_addresses,
            next_lookup: due.map(|due| due.max(now)),
            fruitless_lookups: self.schedule.barren(asked.unwrap_or(spec)),
            failures: failing
                .take(view::MAX_FAILING)
                .map(FailureView::of)
                .collect(),
            left_out: match &entry.evicted {
                Some(evicted) if entry.denied => evicted.evictions.addresses,
                _ => 0,
            },
            failed_writes: entry.failures,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{World, answer, at, name};
    use super::*;
    use crate::{
        controller::ManageObjects,
        event_history::EventKind,
        failure::Failure,
        lookup::{FamilyOutcome, LookupResult},
        observation::Provenance,
    };

    const WWW: &str = "www.example.com";

    fn of_name(world: &World, text: &str) -> Facts {
        world.owner.facts(&Subject::Name(name(text)), at(world.now))
    }

    #[test]
    fn a_name_has_its_addresses_and_those_that_a_wildcard_knows_of_it() {
        let mut world = World::new(ManageObjects::Auto);
        world.want(&[WWW, "*.example.com"]);
        world.observe(WWW, "192.0.2.1");
        world.observe("mail.example.com", "192.0.2.2");
        let facts = of_name(&world, WWW);
        let [exact, wildcard] = facts.names.as_slice() else {
            panic!("{facts:?}");
        };
        for (found, spec) in [(exact, WWW), (wildcard, "*.example.com")] {
            assert_eq!(found.name, name(spec));
            let [(address, in_object)] = found.addresses.as_slice() else {
                panic!("{found:?}");
            };
            assert_eq!(address.ip.to_string(), "192.0.2.1");
            assert!(!in_object);
        }
        world.settle();
        assert!(of_name(&world, WWW).names[0].addresses[0].1);
        let all = of_name(&world, "*.example.com");
        assert_eq!(all.names[0].addresses.len(), 2);
        assert_eq!(of_name(&world, "www.example.org").names, []);
    }

    #[test]
    fn an_address_is_where_it_was_seen_last_and_a_status_only_repeats_that() {
        let mut world = World::new(ManageObjects::Auto);
        world.want(&[WWW]);
        let seen = |millis, source| crate::observation::Observation {
            source,
            ..answer(WWW, "192.0.2.1", millis)
        };
        let source = |world: &World| of_name(world, WWW).names[0].addresses[0].0.source;
        world.owner.observe(&seen(0, Provenance::peer(7)));
        world.settle();
        assert_eq!(source(&world), Provenance::peer(7));
        world.now = 1_000;
        world.owner.observe(&seen(1_000, Provenance::LOOKUP));
        assert_eq!(source(&world), Provenance::LOOKUP);
        world.owner.observe(&seen(500, Provenance::peer(7)));
        assert_eq!(source(&world), Provenance::LOOKUP);
    }

    #[test]
    fn an_address_is_found_under_every_name_and_a_guard_that_refuses_it_is_named() {
        let mut world = World::new(ManageObjects::Auto);
        world.want(&[WWW, "*.example.net"]);
        for asked in [WWW, "a.example.net", "b.example.net"] {
            world.observe(asked, "192.0.2.1");
        }
        let of_address = |text: &str| {
            let subject = Subject::Address(text.parse().unwrap());
            world.owner.facts(&subject, at(world.now))
        };
        let facts = of_address("192.0.2.1");
        let found: Vec<_> = facts
            .names
            .iter()
            .map(|it| (it.name.as_str(), it.addresses.len()))
            .collect();
        assert_eq!(found, [("*.example.net.", 2), ("www.example.com.", 1)]);
        assert_eq!((facts.more_names, facts.guarded), (0, None));
        let loopback = of_address("127.0.0.1");
        assert_eq!(
            (loopback.names.len(), loopback.guarded),
            (0, Some("loopback"))
        );
    }

    #[test]
    fn what_expires_is_thrown_out_or_fails_is_noted() {
        let mut world = World::with(ManageObjects::Auto, |config| {
            config.limits.addresses_per_name = 1;
        });
        let recent = world.recent.clone();
        let noted = || {
            let notes = recent.of_name(&name(WWW)).into_iter();
            let mut notes: Vec<_> = notes
                .map(|it| (it.address.map(|ip| ip.to_string()), it.what))
                .collect();
            notes.sort_by_key(|(address, _)| address.clone());
            notes
        };
        world.want(&[WWW]);
        world.observe(WWW, "192.0.2.1");
        world.now = 1_000;
        world.observe(WWW, "192.0.2.2");
        let evicted = (Some("192.0.2.1".to_owned()), EventKind::Evicted);
        assert_eq!(noted(), std::slice::from_ref(&evicted));
        let facts = of_name(&world, WWW);
        let goes = facts.names[0].addresses[0].0.goes;
        world.settle();
        world.owner.tick(goes);
        let expired = (Some("192.0.2.2".to_owned()), EventKind::Expired);
        assert_eq!(noted(), [evicted.clone(), expired.clone()]);
        let failed = || FamilyOutcome::Failed(Failure::Timeout);
        let mut round = LookupResult {
            name: name(WWW),
            started: goes,
            finished: goes,
            v4: failed(),
            v6: failed(),
        };
        world.owner.round(&round, goes);
        let failed = (None, EventKind::LookupFailed(Failure::Timeout));
        assert_eq!(noted(), [failed, evicted.clone(), expired.clone()]);
        (round.v4, round.v6) = (FamilyOutcome::NoData, FamilyOutcome::NoData);
        world.owner.round(&round, goes);
        assert_eq!(noted(), [(None, EventKind::NoAddress), evicted, expired]);
    }
}
