//! Look-ups, leadership, and the times of writes, in the publisher.

use crate::publish::publisher::tests::{World, at, name};
use crate::{matching::answer_cache::Answer, publish::ManageObjects};
use names::{Failure, FamilyOutcome, LookupResult};

const WWW: &str = "www.example.com";

pub(crate) fn world() -> World {
    World::with(ManageObjects::Auto, |config| config.limits.lookups = true)
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

    /// A look-up with these results now.
    pub(crate) fn look_up(&mut self, asked: &str, v4: FamilyOutcome, v6: FamilyOutcome) {
        let now = at(self.now);
        let result = LookupResult {
            name: name(asked),
            started: now,
            finished: now,
            is_unresponsive: false,
            v4,
            v6,
        };
        self.publisher.apply_lookup(result, now);
    }

    pub(crate) fn round(&mut self, asked: &str, v4: FamilyOutcome) {
        self.look_up(asked, v4, FamilyOutcome::NoData);
    }

    pub(crate) fn answer(&mut self, asked: &str, ips: &[&str]) {
        let addresses = ips.iter().map(|ip| (ip.parse().unwrap(), 30)).collect();
        let outcome = FamilyOutcome::Addresses {
            addresses,
            at: at(self.now),
            complete: true,
        };
        self.round(asked, outcome);
    }

    pub(crate) fn fail(&mut self, asked: &str, failure: Failure) {
        let failed = || FamilyOutcome::Failed(failure);
        self.look_up(asked, failed(), failed());
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
