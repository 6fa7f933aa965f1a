//! A leader and a standby that share a store.

use std::collections::BTreeMap;

use proto::api::DnsNameResolver;
use runtime::store::{Event, ObjectKey};

use crate::publish::publisher::{
    Publisher,
    tests::{World, answer, at, name, wanted},
};
use crate::{
    publish::{
        ManageObjects,
        write::{Write, WriteOutcome},
    },
    rules::Source::EgressFirewall,
};
use names::Failure;
use names::{FamilyOutcome, LookupResult};

pub(crate) const WWW: &str = "www.example.com";
pub(crate) const WILDCARD: &str = "*.example.com";

/// A leader with a store, and a standby.
pub(crate) struct Pair {
    pub(crate) leader: World,
    pub(crate) standby: Publisher,
    /// The successful writes of each.
    pub(crate) stored: [usize; 2],
    /// The leader cannot write.
    is_cut_off: bool,
}

impl Pair {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut crate::publish::publisher::Config)) -> Self {
        let mut leader = World::with(ManageObjects::Auto, |config| {
            config.limits.lookups = true;
            change(config);
        });
        let mut standby = Publisher::new(leader.config.clone());
        standby.apply_event(EgressFirewall, Event::Synced(Vec::new()), at(0));
        let names = [WWW, WILDCARD, "*.example.net"];
        leader.want(&names);
        standby.set_rules(wanted(&names, 0), at(0));
        let mut pair = Self {
            leader,
            standby,
            stored: [0; 2],
            is_cut_off: false,
        };
        pair.settle();
        pair.stored = [0; 2];
        pair
    }

    /// A client gets an answer, which each collector observes that `hears` selects.
    pub(crate) fn tell(&mut self, asked: &str, ip: &str, hears: [bool; 2]) {
        let mut observation = answer(asked, ip, self.leader.now);
        observation.client = Some("10.0.0.1".parse().unwrap());
        for (publisher, hears) in [&mut self.leader.publisher, &mut self.standby]
            .into_iter()
            .zip(hears)
        {
            if hears {
                publisher.apply_answer(&observation);
            }
        }
    }

    fn fail(&mut self) {
        let now = at(self.leader.now);
        let failed = || FamilyOutcome::Failed(Failure::Rcode(2));
        let round = LookupResult {
            name: name(WWW),
            started: now,
            finished: now,
            is_unresponsive: false,
            v4: failed(),
            v6: failed(),
        };
        self.leader.publisher.apply_lookup(round, now);
    }

    /// Answers the due look-ups with these addresses.
    pub(crate) fn look_up(&mut self, ips: &[&str]) {
        let now = self.leader.now;
        while let Some(request) = self.leader.publisher.next_due(at(now)) {
            if request.name.is_wildcard() {
                self.answer_nothing(request.name);
                continue;
            }
            let addresses = ips.iter().map(|ip| (ip.parse().unwrap(), 30)).collect();
            let round = LookupResult {
                name: request.name,
                started: at(now),
                finished: at(now),
                is_unresponsive: false,
                v4: FamilyOutcome::Addresses {
                    addresses,
                    at: at(now),
                    complete: true,
                },
                v6: FamilyOutcome::NoData,
            };
            self.leader.publisher.apply_lookup(round, at(now));
        }
        assert_eq!(self.standby.next_due(at(now)), None);
    }

    fn answer_nothing(&mut self, name: proto::api::DnsName) {
        let now = at(self.leader.now);
        let round = LookupResult {
            name,
            started: now,
            finished: now,
            is_unresponsive: false,
            v4: FamilyOutcome::NoData,
            v6: FamilyOutcome::NoData,
        };
        self.leader.publisher.apply_lookup(round, now);
    }

    /// Lets both write, and see each other's writes, for so long; returns the number of writes.
    pub(crate) fn run(&mut self, millis: i64) -> usize {
        let end = self.leader.now + millis;
        let mut count = 0;
        while self.leader.now < end {
            self.leader.now += 10;
            count += self.step();
        }
        count
    }

    pub(crate) fn settle(&mut self) -> usize {
        self.run(1_000)
    }

    /// Lets both write now, and see each other's writes; returns the number of writes.
    pub(crate) fn step(&mut self) -> usize {
        let now = at(self.leader.now);
        let before = self.leader.store.clone();
        self.leader.publisher.advance(now);
        self.standby.advance(now);
        let ours = self.leader.publisher.writes(now);
        let theirs = self.standby.writes(now);
        let count = ours.len() + theirs.len();
        for write in ours {
            let outcome = if self.is_cut_off {
                WriteOutcome::Failed
            } else {
                self.carry_out(&write, 0)
            };
            self.leader
                .publisher
                .apply_written(&write.key(), &write, outcome, now);
        }
        for write in theirs {
            let outcome = self.carry_out(&write, 1);
            self.standby
                .apply_written(&write.key(), &write, outcome, now);
        }
        self.show_changes(&before);
        count
    }

    fn carry_out(&mut self, write: &Write, whose: usize) -> WriteOutcome {
        let outcome = self.leader.carry_out(write);
        self.stored[whose] += usize::from(matches!(outcome, WriteOutcome::Stored(_)));
        outcome
    }

    fn show_changes(&mut self, before: &BTreeMap<ObjectKey, DnsNameResolver>) {
        let now = at(self.leader.now);
        for (key, object) in &self.leader.store {
            if before.get(key) != Some(object) {
                let event = || Event::Applied(object.clone());
                self.leader
                    .publisher
                    .apply_event(EgressFirewall, event(), now);
                self.standby.apply_event(EgressFirewall, event(), now);
            }
        }
    }

    fn degraded(&self) -> Vec<String> {
        let statuses = self.leader.store.values().flat_map(|it| &it.status);
        let names = statuses.flat_map(|status| &status.resolved_names);
        let conditions = names.flat_map(|name| &name.conditions);
        conditions
            .map(|condition| condition.status.clone())
            .collect()
    }

    pub(crate) fn www(&self) -> String {
        let all = self.leader.addresses();
        all.into_iter().find(|it| it.starts_with(WWW)).unwrap()
    }
}

pub(crate) const BOTH: [bool; 2] = [true; 2];
const STANDBY: [bool; 2] = [false, true];

#[test]
fn leader_writes_once_for_each_object_and_failure() {
    let mut pair = Pair::new();
    pair.tell(WWW, "1.1.1.1", BOTH);
    pair.run(10_000);
    assert_eq!(pair.stored[1], 0);
    // The name has none under the wildcard.
    assert_eq!(pair.degraded(), ["False"]);
    pair.leader.now += 30_000;
    for failures in 1..8 {
        pair.fail();
        let writes = pair.settle();
        // One for each object that matches the name.
        assert!(writes <= 2, "{writes} writes after {failures} failures");
    }
    assert_eq!(pair.stored[1], 0);
}

#[test]
fn new_leader_goes_on_with_failures_that_last_one_counted() {
    let mut pair = Pair::new();
    pair.tell(WWW, "1.1.1.1", BOTH);
    pair.settle();
    pair.leader.now += 30_000;
    for _ in 0..6 {
        pair.fail();
        pair.settle();
    }
    assert!(pair.degraded().contains(&"True".to_owned()));
    let now = at(pair.leader.now);
    pair.leader.publisher.set_leads(false, now);
    pair.standby.set_leads(true, now);
    for _ in 0..5 {
        pair.settle();
        assert!(pair.degraded().contains(&"True".to_owned()));
    }
}

#[test]
fn standby_writes_nothing_until_it_leads() {
    let mut pair = Pair::new();
    pair.is_cut_off = true;
    pair.tell(WWW, "1.1.1.1", BOTH);
    pair.tell(WWW, "2.2.2.2", STANDBY);
    pair.run(60_000);
    assert_eq!(pair.stored, [0, 0]);
    let now = at(pair.leader.now);
    pair.leader.publisher.set_leads(false, now);
    pair.standby.set_leads(true, now);
    pair.run(100);
    assert_eq!(pair.www(), "www.example.com. 1.1.1.1 2.2.2.2");
}

#[test]
fn two_collectors_rarely_write_an_unchanged_name() {
    for clients_every in [None, Some(200), Some(1_000), Some(7_000)] {
        let mut pair = Pair::new();
        let end = pair.leader.now + 3_600_000;
        while pair.leader.now < end {
            pair.leader.now += 200;
            let now = pair.leader.now;
            if clients_every.is_some_and(|every| now % every == 0) {
                pair.tell(WWW, "1.1.1.1", BOTH);
            }
            pair.look_up(&["1.1.1.1"]);
            pair.step();
        }
        let [leader, standby] = pair.stored;
        // Of three objects.
        assert!(leader <= 3 * 7, "{clients_every:?}: {leader}");
        assert_eq!(standby, 0, "{clients_every:?}");
    }
}
