//! A leader and a standby that share a store.

mod budget;
mod rollout;

use std::{collections::BTreeMap, time::Duration};

use proto::api::DnsNameResolver;
use runtime::store::{Event, ObjectKey};

use crate::controller::{
    StatusController,
    tests::{World, answer, at, name, wanted},
};
use crate::{
    failure::Failure,
    lookup::{FamilyOutcome, LookupResult},
    objects::{
        ManageObjects,
        publish::{Write, WriteOutcome},
    },
    rules::Source::EgressFirewall,
};

const SECOND: Duration = Duration::from_secs(1);

pub(crate) const WWW: &str = "www.example.com";
pub(crate) const WILDCARD: &str = "*.example.com";

/// A leader with a store, and a standby.
pub(crate) struct Pair {
    pub(crate) leader: World,
    pub(crate) standby: StatusController,
    /// The successful writes of each, and the conflicts.
    pub(crate) stored: [usize; 2],
    conflicts: usize,
    /// The leader cannot write.
    is_cut_off: bool,
}

impl Pair {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut crate::controller::Config)) -> Self {
        let mut leader = World::with(ManageObjects::Auto, |config| {
            config.limits.lookups = true;
            change(config);
        });
        let mut standby = StatusController::new(leader.config.clone());
        standby.event(EgressFirewall, Event::Synced(Vec::new()), at(0));
        let names = [WWW, WILDCARD, "*.example.net"];
        leader.want(&names);
        standby.want(&wanted(&names, 0).into(), at(0));
        let mut pair = Self {
            leader,
            standby,
            stored: [0; 2],
            conflicts: 0,
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
        for (controller, hears) in [&mut self.leader.controller, &mut self.standby]
            .into_iter()
            .zip(hears)
        {
            if hears {
                controller.observe(&observation);
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
            v4: failed(),
            v6: failed(),
        };
        self.leader.controller.round(&round, now);
    }

    /// Answers the due look-ups with these addresses.
    pub(crate) fn look_up(&mut self, ips: &[&str]) {
        let now = self.leader.now;
        self.leader.controller.lookup_is_due(at(now));
        while let Some(request) = self.leader.controller.next_request(at(now)) {
            if request.name.is_wildcard() {
                self.answer_nothing(request.name);
                continue;
            }
            let addresses = ips.iter().map(|ip| (ip.parse().unwrap(), 30)).collect();
            let round = LookupResult {
                name: request.name,
                started: at(now),
                finished: at(now),
                v4: FamilyOutcome::Addresses {
                    addresses,
                    at: at(now),
                    complete: true,
                },
                v6: FamilyOutcome::NoData,
            };
            self.leader.controller.round(&round, at(now));
        }
        assert_eq!(self.standby.next_request(at(now)), None);
    }

    fn answer_nothing(&mut self, name: proto::api::DnsName) {
        let now = at(self.leader.now);
        let round = LookupResult {
            name,
            started: now,
            finished: now,
            v4: FamilyOutcome::NoData,
            v6: FamilyOutcome::NoData,
        };
        self.leader.controller.round(&round, now);
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
        self.leader.controller.tick(now);
        self.standby.tick(now);
        let ours = self.leader.controller.writes(now);
        let theirs = self.standby.writes(now);
        let count = ours.len() + theirs.len();
        for write in ours {
            let outcome = match self.is_cut_off {
                true => WriteOutcome::Failed(None),
                false => self.carry_out(&write, 0),
            };
            self.leader
                .controller
                .written(&write.key(), &write, outcome, now);
        }
        for write in theirs {
            let outcome = self.carry_out(&write, 1);
            self.standby.written(&write.key(), &write, outcome, now);
        }
        self.show_changes(&before);
        count
    }

    fn carry_out(&mut self, write: &Write, whose: usize) -> WriteOutcome {
        let outcome = self.leader.carry_out(write);
        self.stored[whose] += usize::from(matches!(outcome, WriteOutcome::Stored(_)));
        self.conflicts += usize::from(matches!(outcome, WriteOutcome::Stale(_)));
        outcome
    }

    fn show_changes(&mut self, before: &BTreeMap<ObjectKey, DnsNameResolver>) {
        let now = at(self.leader.now);
        for (key, object) in &self.leader.store {
            if before.get(key) != Some(object) {
                let event = || Event::Applied(object.clone());
                self.leader.controller.event(EgressFirewall, event(), now);
                self.standby.event(EgressFirewall, event(), now);
            }
        }
    }

    /// Removes an address from the status, as an administrator may.
    fn take_out(&mut self, ip: &str) {
        let before = self.leader.store.clone();
        for object in self.leader.store.values_mut() {
            for entry in object
                .status
                .iter_mut()
                .flat_map(|it| &mut it.resolved_names)
            {
                entry.resolved_addresses.retain(|address| address.ip != ip);
            }
            object.metadata.resource_version = Some(format!("taken-{}", self.leader.now));
        }
        let now = at(self.leader.now);
        for (key, object) in &self.leader.store {
            if before.get(key) != Some(object) {
                self.standby
                    .event(EgressFirewall, Event::Applied(object.clone()), now);
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
fn the_leader_writes_and_the_standby_has_nothing_to_add() {
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
fn a_new_leader_goes_on_with_the_failures_that_the_last_one_counted() {
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
    pair.leader.controller.lead(false, now);
    pair.standby.lead(true, now);
    for _ in 0..5 {
        pair.settle();
        assert!(pair.degraded().contains(&"True".to_owned()));
    }
}

#[test]
fn addresses_the_leader_missed_are_added_after_two_seconds_and_looked_up() {
    let mut pair = Pair::new();
    pair.tell(WWW, "1.1.1.1", STANDBY);
    assert_eq!(pair.run(1_990), 0);
    pair.run(300);
    assert_eq!(pair.www(), "www.example.com. 1.1.1.1");
    // One for each object that matches the name.
    assert_eq!(pair.stored, [0, 2]);
    let now = at(pair.leader.now);
    assert!(pair.leader.controller.lookup_is_due(now));
    pair.look_up(&["2.2.2.2"]);
    pair.settle();
    assert_eq!(pair.www(), "www.example.com. 1.1.1.1 2.2.2.2");
    assert_eq!(pair.conflicts, 0);
}

#[test]
fn while_the_leader_cannot_write_the_standby_does() {
    let mut pair = Pair::new();
    pair.is_cut_off = true;
    pair.tell(WWW, "1.1.1.1", BOTH);
    pair.run(2_300);
    assert_eq!(pair.www(), "www.example.com. 1.1.1.1");
}

#[test]
fn what_no_client_was_told_is_not_added() {
    let mut pair = Pair::new();
    let mut learned = answer(WWW, "1.1.1.1", pair.leader.now);
    pair.standby.observe(&learned);
    learned.client = Some("10.0.0.1".parse().unwrap());
    learned.source = crate::observation::Provenance::REMEMBERED;
    pair.standby.observe(&learned);
    pair.run(60_000);
    assert_eq!(pair.stored, [0, 0]);
}

#[test]
fn an_address_that_was_in_the_status_after_its_answer_is_not_added_again() {
    let mut pair = Pair::new();
    pair.tell(WWW, "1.1.1.1", BOTH);
    pair.settle();
    pair.is_cut_off = true;
    pair.take_out("1.1.1.1");
    pair.run(10_000);
    assert_eq!(pair.stored[1], 0);
    pair.tell(WWW, "1.1.1.1", STANDBY);
    pair.run(2_300);
    assert_eq!(pair.www(), "www.example.com. 1.1.1.1");
}

/// One address in an empty status would close all others in the address sets.
#[test]
fn nothing_is_added_to_a_status_that_was_emptied_before_it_is_whole_again() {
    let mut pair = Pair::new();
    pair.tell(WWW, "1.1.1.1", BOTH);
    pair.settle();
    pair.is_cut_off = true;
    pair.take_out("1.1.1.1");
    pair.tell(WWW, "2.2.2.2", STANDBY);
    pair.run(3_000);
    assert_eq!(pair.www(), "www.example.com.");
    pair.standby.lead(true, at(pair.leader.now));
    pair.run(1_000);
    assert_eq!(pair.www(), "www.example.com. 1.1.1.1 2.2.2.2");
}

#[test]
fn what_was_added_and_taken_out_again_is_not_added_for_an_hour() {
    let mut pair = Pair::new();
    pair.is_cut_off = true;
    pair.tell(WWW, "1.1.1.1", STANDBY);
    pair.run(2_300);
    pair.take_out("1.1.1.1");
    let writes = pair.stored[1];
    for _ in 0..59 {
        pair.tell(WWW, "1.1.1.1", STANDBY);
        pair.run(3_000);
        pair.leader.now += 57_000;
    }
    assert_eq!(pair.stored[1], writes);
    pair.leader.now += 60_000;
    pair.tell(WWW, "1.1.1.1", STANDBY);
    pair.run(3_000);
    assert_eq!(pair.www(), "www.example.com. 1.1.1.1");
}

#[test]
fn nothing_is_added_to_an_object_that_is_nearly_full() {
    let mut pair = Pair::with(|config| config.limits.addresses_per_name = 10);
    for i in 1..10 {
        pair.tell(WWW, &format!("1.1.1.{i}"), BOTH);
    }
    pair.settle();
    pair.tell(WWW, "2.2.2.2", STANDBY);
    pair.run(60_000);
    assert!(!pair.www().contains("2.2.2.2"));
    assert_eq!(pair.stored[1], 0);
}

#[test]
fn nothing_is_added_to_an_object_that_is_about_to_be_deleted() {
    let mut pair = Pair::new();
    let now = pair.leader.now;
    pair.leader
        .controller
        .want(&wanted(&["*.example.net"], 0).into(), at(now));
    pair.step();
    pair.tell(WWW, "1.1.1.1", STANDBY);
    for _ in 0..300 {
        pair.leader.now += 10;
        let now = at(pair.leader.now);
        pair.standby.tick(now);
        assert!(pair.standby.writes(now).is_empty());
    }
}

#[test]
fn while_statuses_come_late_the_standby_waits_for_longer() {
    let mut pair = Pair::new();
    // Each status takes five seconds.
    let mut writes = 0;
    for i in 0..20 {
        pair.tell(WWW, &format!("1.1.1.{i}"), BOTH);
        let before = pair.leader.store.clone();
        let end = pair.leader.now + 5_000;
        let mut pending = Vec::new();
        while pair.leader.now < end {
            pair.leader.now += 10;
            let now = at(pair.leader.now);
            pending.extend(pair.leader.controller.writes(now));
            pair.standby.tick(now);
            for write in pair.standby.writes(now) {
                writes += 1;
                let outcome = WriteOutcome::Failed(None);
                pair.standby.written(&write.key(), &write, outcome, now);
            }
        }
        let now = at(pair.leader.now);
        for write in pending {
            let outcome = pair.carry_out(&write, 0);
            pair.leader
                .controller
                .written(&write.key(), &write, outcome, now);
        }
        pair.show_changes(&before);
    }
    assert!(writes <= 4, "{writes} of 40");
}

#[test]
fn a_status_that_comes_in_time_ends_the_longer_waits() {
    let mut pair = Pair::new();
    let held_up = "1.1.1.1";
    pair.tell(WWW, held_up, STANDBY);
    // This standby was held up too.
    pair.leader.now += 20_000;
    pair.leader.observe(WWW, held_up);
    let now = at(pair.leader.now);
    let before = pair.leader.store.clone();
    for write in pair.leader.controller.writes(now) {
        let outcome = pair.carry_out(&write, 0);
        pair.leader
            .controller
            .written(&write.key(), &write, outcome, now);
    }
    pair.show_changes(&before);
    let first = pair.standby.objects.standby.wait(now);
    assert!(first >= 40 * SECOND);
    // Another standby writes first, and gets the time for that.
    pair.standby.objects.standby.set_rank(1);
    assert!(pair.standby.objects.standby.wait(now) >= first + 19 * SECOND);
    pair.standby.objects.standby.set_rank(0);
    pair.tell(WWW, "1.1.1.2", STANDBY);
    pair.tell(WWW, "1.1.1.3", BOTH);
    assert_eq!(pair.run(1_900), 2);
    pair.run(400);
    assert_eq!(pair.www(), "www.example.com. 1.1.1.1 1.1.1.3 1.1.1.2");
}

#[test]
fn a_store_that_refuses_is_asked_by_the_standby_once_in_a_while() {
    let mut pair = Pair::new();
    let names: Vec<_> = (0..100).map(|i| format!("n{i}.example.org")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    pair.leader.want(&names);
    pair.standby
        .want(&wanted(&names, 0).into(), at(pair.leader.now));
    pair.settle();
    for name in names {
        let mut observation = answer(name, "1.1.1.1", pair.leader.now);
        observation.addresses = [("1.1.1.1".parse().unwrap(), 600)].into_iter().collect();
        observation.client = Some("10.0.0.1".parse().unwrap());
        pair.standby.observe(&observation);
    }
    let mut writes = 0;
    for _ in 0..300 {
        pair.leader.now += 1_000;
        let now = at(pair.leader.now);
        pair.standby.tick(now);
        for write in pair.standby.writes(now) {
            writes += 1;
            let outcome = WriteOutcome::Failed(Some(SECOND));
            pair.standby.written(&write.key(), &write, outcome, now);
        }
    }
    // Eight at once at first. Then one after 4, 8, 16, 32 and 60 s, and again.
    assert!((10..=24).contains(&writes), "{writes}");
}

#[test]
fn two_collectors_together_write_seldom_of_a_name_that_keeps_its_address() {
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
