//! Writes that the store refuses, steps of the clock, and evictions, in the publisher.

use std::net::IpAddr;

use crate::publish::publisher::tests::{World, answer, at, name};
use crate::publish::{
    ManageObjects,
    write::{Write, WriteOutcome},
};
use names::FamilyOutcome;

const WWW: &str = "www.example.com";

fn world(names: &[&str]) -> World {
    let mut world = World::with(ManageObjects::Auto, |config| config.limits.lookups = true);
    world.want(names);
    world.settle();
    world
}

impl World {
    fn observe_many(&mut self, asked: &str, count: u32) {
        let mut many = answer(asked, "1.1.1.1", self.now);
        many.addresses = (0..count)
            .map(|i| (IpAddr::from((0x0b00_0000 + i).to_be_bytes()), 3600))
            .collect();
        self.publisher.apply_answer(&many);
    }

    /// Lets time pass from event to event until `done`, at most for so many milliseconds.
    fn until(&mut self, millis: i64, done: impl Fn(&Self) -> bool) {
        let end = self.now + millis;
        loop {
            self.settle();
            if done(self) {
                return;
            }
            let wake = self
                .publisher
                .next_wake()
                .expect("there is something to do");
            self.now = (wake.as_millis() - at(0).as_millis()).max(self.now + 1);
            assert!(self.now <= end, "not in {millis} ms");
        }
    }

    fn stored(&self, asked: &str) -> usize {
        let spec = name(asked);
        let mut objects = self.store.values();
        let found = objects.find(|object| object.spec.name == spec.as_str());
        let status = found.and_then(|object| object.status.as_ref());
        let entries = status.into_iter().flat_map(|status| &status.resolved_names);
        entries.map(|entry| entry.resolved_addresses.len()).sum()
    }
}

#[test]
fn status_that_is_too_large_loses_tenth_until_store_takes_it() {
    let mut world = world(&[WWW]);
    world.takes = 60_000;
    world.observe_many(WWW, 1000);
    world.until(60_000, |world| world.stored(WWW) > 0);
    let stored = world.stored(WWW);
    assert!((600..750).contains(&stored), "{stored}");
    let evicted = world.publisher.names.evictions().addresses;
    assert_eq!(evicted, 1000 - stored as u64, "each is counted");
    // The larger size is not tried again.
    world.now += 60_000;
    world.observe_many(WWW, 1000);
    world.until(60_000, |world| world.publisher.is_settled());
    assert_eq!(world.stored(WWW), stored);
}

#[test]
fn clock_that_goes_back_hour_delays_no_look_up_write_or_retry() {
    let mut world = world(&[WWW, "dead.example.com"]);
    world.observe_many("dead.example.com", 1000);
    world.observe(WWW, "1.1.1.1");
    world.settle();
    while let Some(request) = world.publisher.next_due(at(world.now)) {
        world.round(request.name.as_str(), FamilyOutcome::NoData);
    }
    world.now += 10;
    world.observe(WWW, "2.2.2.2");
    let writes = world.publisher.writes(at(world.now));
    let asked = WriteOutcome::Failed;
    world
        .publisher
        .apply_written(&writes[0].key(), &writes[0], asked, at(world.now));
    world.now -= 3_600_000;
    world.publisher.on_clock_jump(at(world.now));
    world.settle();
    assert_eq!(world.stored(WWW), 2, "written at once");
    let wake = world.publisher.next_wake().unwrap();
    assert!(wake <= at(world.now + 31_250), "{wake:?}");
    world.observe_many("dead.example.com", 1100);
    world.until(1000, |world| world.publisher.is_settled());
    world.now += 32_000;
    world.publisher.advance(at(world.now));
    let next = world.publisher.next_due(at(world.now));
    assert_eq!(next.map(|next| next.name), Some(name(WWW)));
}

#[test]
fn what_the_store_did_not_take_at_the_end_counts_as_unwritten() {
    let mut world = world(&[WWW, "api.example.com"]);
    world.observe(WWW, "1.1.1.1");
    world.observe("api.example.com", "1.1.1.1");
    world.publisher.end();
    let writes = world.publisher.writes(at(world.now));
    assert_eq!(writes.len(), 2);
    for (write, stored) in writes.iter().zip([false, true]) {
        let outcome = if stored {
            world.carry_out(write)
        } else {
            WriteOutcome::Failed
        };
        let now = at(world.now);
        world
            .publisher
            .apply_written(&write.key(), write, outcome, now);
    }
    assert!(world.publisher.writes(at(world.now)).is_empty());
    assert!(&world.publisher.is_settled());
    assert_eq!(world.publisher.unwritten(), 1);
    world.until(1000, |world| world.publisher.unwritten() == 0);
}

#[test]
fn object_that_could_not_be_created_is_created_later() {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&["www.example.com"]);
    world.observe("www.example.com", "1.1.1.1");
    // Another program's object had the key and disappeared, or the namespace is gone.
    for _ in 0..3 {
        let writes = world.publisher.writes(at(world.now));
        let [write] = writes.as_slice() else {
            panic!("{writes:?}")
        };
        assert!(matches!(write, Write::Create(_)), "{write:?}");
        let key = write.key();
        world
            .publisher
            .apply_written(&key, write, WriteOutcome::Gone, at(world.now));
        assert!(
            world.publisher.writes(at(world.now)).is_empty(),
            "not at once"
        );
        world.now += 400;
        world.publisher.advance(at(world.now));
    }
    world.settle();
    assert_eq!(world.addresses(), ["www.example.com. 1.1.1.1"]);
}
