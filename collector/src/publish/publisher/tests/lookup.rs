//! Look-ups, leadership, and the times of writes, in the publisher.

use crate::publish::publisher::tests::{World, at, name};
use crate::{matching::answer_cache::Answer, publish::ManageObjects};
use names::{FamilyOutcome, LookupResult};

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

    /// Lets time pass to the next event.
    pub(super) fn skip(&mut self) {
        let wake = self
            .publisher
            .next_wake()
            .expect("there is something to do");
        self.now = self.now.max(wake.as_millis() - at(0).as_millis());
        self.publisher.advance(at(self.now));
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
fn truncated_answer_is_used_and_the_name_asked_at_once() {
    let mut world = world();
    world.want(&[WWW]);
    world.now += 1000;
    world.due();
    world.answer(WWW, &["1.1.1.1"]);
    let mut cut = super::answer(WWW, "2.2.2.2", world.now);
    cut.truncated = true;
    world.publisher.apply_answer(&cut);
    world.settle();
    assert_eq!(world.addresses(), ["www.example.com. 1.1.1.1 2.2.2.2"]);
    assert!(world.due().is_empty(), "that was our own");
    cut.client = Some("10.0.0.1".parse().unwrap());
    world.publisher.apply_answer(&cut);
    assert!(world.due().is_empty(), "it just was");
    world.now += 4999;
    assert!(world.due().is_empty());
    world.now += 1;
    assert_eq!(
        world.due(),
        ["www.example.com."],
        "the collector asks, whether or not a client does"
    );
}

#[test]
fn truncated_look_up_removes_nothing_and_is_retried() {
    let mut world = world();
    world.want(&[WWW]);
    world.now += 1000;
    world.due();
    world.answer(WWW, &["1.1.1.1", "2.2.2.2"]);
    world.settle();
    world.now += 32_000;
    for _ in 0..20 {
        assert_eq!(world.due(), ["www.example.com."]);
        let cut = FamilyOutcome::Addresses {
            addresses: [("1.1.1.1".parse().unwrap(), 30)].into_iter().collect(),
            at: at(world.now),
            complete: false,
        };
        world.round(WWW, cut);
        world.settle();
        assert_eq!(world.addresses(), ["www.example.com. 1.1.1.1 2.2.2.2"]);
        world.now += 4_900;
        world.settle();
        assert!(world.due().is_empty());
        world.now += 100;
    }
}
