//! Look-ups, leadership, and the times of writes, in the publisher.

use std::net::IpAddr;

use runtime::{clock::Timestamp, store::Event};

use crate::publish::publisher::tests::{World, at, name, wanted};
use crate::{
    matching::answer_cache::Answer, publish::ManageObjects, rules::Source::EgressFirewall,
};
use names::Failure;
use names::{FamilyOutcome, LookupResult};

const WWW: &str = "www.example.com";

pub(crate) fn world() -> World {
    World::with(ManageObjects::Auto, |config| config.limits.lookups = true)
}

pub(crate) fn addresses(ips: &[&str], at: Timestamp) -> FamilyOutcome {
    let addresses = ips
        .iter()
        .map(|ip| (ip.parse::<IpAddr>().unwrap(), 30))
        .collect();
    FamilyOutcome::Addresses {
        addresses,
        at,
        complete: true,
    }
}

impl World {
    /// Begins the due look-ups, and returns their names.
    pub(crate) fn due(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        while let Some(request) = self.publisher.next_due(at(self.now)) {
            names.push(request.name.to_string());
        }
        names.sort();
        names
    }

    pub(crate) fn round(&mut self, asked: &str, v4: FamilyOutcome) {
        let now = at(self.now);
        let round = LookupResult {
            name: name(asked),
            started: now,
            finished: now,
            is_unresponsive: false,
            v4,
            v6: FamilyOutcome::NoData,
        };
        self.publisher.apply_lookup(round, now);
    }

    pub(crate) fn answer(&mut self, asked: &str, ips: &[&str]) {
        let outcome = addresses(ips, at(self.now));
        self.round(asked, outcome);
    }

    pub(crate) fn fail(&mut self, asked: &str, failure: Failure) {
        let now = at(self.now);
        let failed = || FamilyOutcome::Failed(failure);
        let round = LookupResult {
            name: name(asked),
            started: now,
            finished: now,
            is_unresponsive: false,
            v4: failed(),
            v6: failed(),
        };
        self.publisher.apply_lookup(round, now);
    }

    /// Lets time pass to the next event.
    fn skip(&mut self) -> i64 {
        let wake = self
            .publisher
            .next_wake()
            .expect("there is something to do");
        let before = self.now;
        self.now = self.now.max(wake.as_millis() - at(0).as_millis());
        self.publisher.advance(at(self.now));
        self.now - before
    }
}

#[test]
fn newly_wanted_name_is_looked_up_at_once() {
    let mut world = world();
    world.want(&[WWW, "*.example.org"]);
    world.now += 1000;
    assert_eq!(world.due(), ["*.example.org.", "www.example.com."]);
    assert!(world.due().is_empty(), "one look-up at a time");
    world.answer(WWW, &["1.1.1.1"]);
    world.settle();
    assert_eq!(
        world.addresses(),
        ["*.example.org.", "www.example.com. 1.1.1.1"]
    );
}

#[test]
fn name_is_looked_up_again_when_it_expires_within_the_grace() {
    let mut world = world();
    world.want(&[WWW]);
    world.now += 1000;
    world.due();
    world.answer(WWW, &["1.1.1.1"]);
    world.settle();
    for _ in 0..10 {
        let waited = world.skip();
        assert!((29_000..=31_250).contains(&waited), "{waited}");
        assert_eq!(world.due(), ["www.example.com."]);
        world.answer(WWW, &["1.1.1.1"]);
    }
    world.settle();
    assert_eq!(world.addresses(), ["www.example.com. 1.1.1.1"]);
}

#[test]
fn names_found_under_a_wildcard_are_looked_up_like_others() {
    let mut world = world();
    world.want(&["*.example.com"]);
    world.now += 1000;
    world.due();
    world.fail("*.example.com", Failure::NXDOMAIN);
    world.observe_as("a.example.com", "1.1.1.1", Some("10.0.0.1"));
    world.settle();
    world.skip();
    assert_eq!(world.due(), ["a.example.com."]);
    world.answer("a.example.com", &["2.2.2.2"]);
    world.now += 10_000;
    world.settle();
    assert_eq!(world.addresses(), ["*.example.com. 2.2.2.2"]);
}

#[test]
fn unresolved_name_is_retried_ten_times_then_less_often() {
    let mut world = world();
    world.want(&[WWW]);
    world.now += 1000;
    let mut waits = Vec::new();
    for _ in 0..16 {
        assert_eq!(world.due(), ["www.example.com."]);
        world.fail(WWW, Failure::Timeout);
        world.settle();
        waits.push(world.skip() / 1000);
    }
    assert_eq!(
        waits,
        [5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 10, 20, 40, 80, 120, 120]
    );
    world.due();
    world.answer(WWW, &["1.1.1.1"]);
    world.settle();
    assert_eq!(world.addresses(), ["www.example.com. 1.1.1.1"]);
}

#[test]
fn wildcards_own_name_that_fails_is_tried_again_after_half_hour() {
    let mut world = world();
    world.want(&["*.example.com"]);
    world.now += 1000;
    world.due();
    world.fail("*.example.com", Failure::NXDOMAIN);
    world.settle();
    assert_eq!(world.skip(), 30 * 60 * 1000);
    assert_eq!(world.due(), ["*.example.com."]);
}

#[test]
fn standby_removes_and_deletes_nothing() {
    let mut world = world();
    world.want(&[WWW]);
    world.observe(WWW, "1.1.1.1");
    world.settle();
    world.publisher.set_leads(false, at(world.now));
    assert_eq!(world.addresses(), ["www.example.com. 1.1.1.1"]);
    world.now += 3_600_000;
    world.settle();
    assert!(world.due().is_empty());
    assert_eq!(
        world.addresses(),
        ["www.example.com. 1.1.1.1"],
        "it removes nothing"
    );
    world.want(&[]);
    world.settle();
    assert_eq!(world.store.len(), 1, "and deletes nothing");
}

#[test]
fn who_begins_to_lead_asks_before_it_removes() {
    let mut world = world();
    world.want(&[WWW]);
    world.observe(WWW, "1.1.1.1");
    world.settle();
    world.publisher.set_leads(false, at(world.now));
    world.now += 3_600_000;
    world.publisher.set_leads(true, at(world.now));
    world.settle();
    assert_eq!(world.addresses(), ["www.example.com. 1.1.1.1"]);
    assert_eq!(world.due(), ["www.example.com."]);
    world.answer(WWW, &["2.2.2.2"]);
    world.settle();
    // The time in the status may be old: no address leaves before one TTL and grace.
    for (later, left) in [(30_000, "1.1.1.1 2.2.2.2"), (5_000, "2.2.2.2")] {
        world.now += later;
        world.settle();
        assert_eq!(world.addresses(), [format!("www.example.com. {left}")]);
    }
}

#[test]
fn nothing_but_times_is_written_once_in_ten_minutes() {
    let mut world = world();
    world.want(&[WWW]);
    world.settle();
    world.now += 1000;
    world.due();
    world.answer(WWW, &["1.1.1.1"]);
    assert_eq!(world.settle(), 1);
    let mut writes = 0;
    let end = world.now + 3_600_000;
    while world.now < end {
        world.skip();
        if !world.due().is_empty() {
            world.answer(WWW, &["1.1.1.1"]);
        }
        writes += world.settle();
    }
    assert!((5..=6).contains(&writes), "{writes} writes in an hour");
}

#[test]
fn degraded_is_written_at_once_and_counts_of_failures_are_not() {
    let mut world = world();
    world.want(&[WWW]);
    world.settle();
    world.now += 1000;
    world.due();
    world.answer(WWW, &["1.1.1.1"]);
    world.settle();
    world.skip();
    world.due();
    world.fail(WWW, Failure::Timeout);
    assert_eq!(world.settle(), 1);
    world.skip();
    world.due();
    world.fail(WWW, Failure::Timeout);
    assert_eq!(world.settle(), 0);
}

fn remember(world: &World, name: &str, ip: &str) {
    world.remembered.insert(
        &Answer {
            name: &proto::dns::Name::from_text(name).unwrap(),
            family: proto::api::Family::V4,
            addresses: &[(ip.parse().unwrap(), 30)],
            at: at(0),
            client: Some("10.0.0.1".parse().unwrap()),
        },
        None,
    );
}

#[test]
fn rule_that_comes_later_gets_addresses_that_pods_use_already() {
    let mut world = world();
    remember(&world, "a.example.com", "1.1.1.1");
    world.want(&["*.example.com", "a.example.com"]);
    world.settle();
    assert_eq!(
        world.addresses(),
        ["*.example.com. 1.1.1.1", "a.example.com. 1.1.1.1"]
    );
}

#[test]
fn name_that_does_not_exist_any_more_loses_its_addresses() {
    let mut world = world();
    world.want(&[WWW]);
    world.now += 1000;
    world.due();
    world.answer(WWW, &["1.1.1.1"]);
    world.settle();
    let start = world.now;
    while world.addresses() == ["www.example.com. 1.1.1.1"] {
        world.skip();
        assert!(world.now - start < 150_000, "it stays for ever");
        if !world.due().is_empty() {
            world.fail(WWW, Failure::NXDOMAIN);
        }
        world.settle();
    }
    assert!(
        world.now - start > 90_000,
        "not before five failures in a minute"
    );
}

#[test]
fn name_with_retained_addresses_is_looked_up_as_without() {
    let mut world = world();
    world.publisher.set_rules(wanted(&[WWW], 24 * 3600), at(0));
    world.now += 1000;
    world.due();
    world.answer(WWW, &["1.1.1.1"]);
    world.settle();
    world.skip();
    for _ in 0..6 {
        assert_eq!(world.due(), ["www.example.com."]);
        world.round(WWW, FamilyOutcome::NoData);
        world.settle();
        let waited = world.skip();
        assert!((5_000..=6_250).contains(&waited), "{waited}");
    }
    assert_eq!(world.due(), ["www.example.com."]);
    world.answer(WWW, &["2.2.2.2"]);
    world.settle();
    assert_eq!(world.addresses(), ["www.example.com. 1.1.1.1 2.2.2.2"]);
}

#[test]
fn name_that_clients_find_again_is_looked_up_when_that_expires() {
    let mut world = world();
    world.want(&[WWW]);
    world.now += 1000;
    for _ in 0..30 {
        world.skip();
        world.due();
        world.fail(WWW, Failure::Timeout);
    }
    world.now += 1000;
    world.observe_as(WWW, "1.1.1.1", Some("10.0.0.1"));
    world.settle();
    let waited = world.skip();
    assert!((29_000..=31_250).contains(&waited), "{waited}");
    assert_eq!(world.due(), ["www.example.com."]);
}

#[test]
fn family_that_always_fails_is_kept_for_max_stale_and_no_longer() {
    let hour = 3_600_000;
    let mut world = World::with(ManageObjects::Auto, |config| {
        config.limits.lookups = true;
        config.limits.max_stale = std::time::Duration::from_secs(3600);
    });
    world.want(&[WWW]);
    world.settle();
    world.observe(WWW, "2001:db8::1");
    world.answer(WWW, &["192.0.2.1"]);
    world.settle();
    let rounds = |world: &mut World, until: i64| {
        while world.now < until {
            world.now += 20_000;
            world.publisher.advance(at(world.now));
            let now = at(world.now);
            world.publisher.apply_lookup(
                LookupResult {
                    name: name(WWW),
                    started: now,
                    finished: now,
                    is_unresponsive: false,
                    v4: addresses(&["192.0.2.1"], now),
                    v6: FamilyOutcome::Failed(Failure::Rcode(2)),
                },
                now,
            );
            world.settle();
        }
    };
    rounds(&mut world, hour - 60_000);
    assert_eq!(
        world.addresses(),
        ["www.example.com. 192.0.2.1 2001:db8::1"]
    );
    rounds(&mut world, hour + 120_000);
    assert_eq!(world.addresses(), ["www.example.com. 192.0.2.1"]);
}

#[test]
fn truncated_or_foreign_written_name_is_looked_up_over_tcp() {
    let mut world = world();
    world.want(&[WWW]);
    world.settle();
    world.due();
    world.answer(WWW, &["9.9.9.9"]);
    world.settle();
    let mut object = world.store.values().next().unwrap().clone();
    let entry = &mut object.status.as_mut().unwrap().resolved_names[0];
    let mut foreign = entry.resolved_addresses[0].clone();
    foreign.ip = "1.1.1.1".into();
    entry.resolved_addresses.push(foreign);
    let written = Event::Applied(world.put(object));
    world
        .publisher
        .apply_event(EgressFirewall, written, at(world.now));
    world.now += 6_000;
    let request = world.publisher.next_due(at(world.now)).unwrap();
    assert!(request.over_tcp);
    world.answer(WWW, &["1.1.1.1"]);
    let mut cut_off = crate::publish::publisher::tests::answer(WWW, "1.1.1.1", world.now);
    (cut_off.truncated, cut_off.client) = (true, Some([10, 0, 0, 1].into()));
    world.publisher.apply_answer(&cut_off);
    world.now += 6_000;
    let request = world.publisher.next_due(at(world.now)).unwrap();
    assert!(request.over_tcp);
}
