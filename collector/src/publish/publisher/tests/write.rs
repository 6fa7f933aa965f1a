//! Writes that the store refuses, steps of the clock, and evictions, in the publisher.

use std::net::IpAddr;

use runtime::store::Event;

use crate::publish::publisher::tests::{World, answer, at, name, namespace_caps::want_by};
use crate::{
    publish::{
        ManageObjects,
        write::{Write, WriteOutcome},
    },
    rules::Source,
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
fn store_that_finds_everything_too_large_empties_no_set() {
    let mut world = world(&[WWW]);
    world.observe_many(WWW, 1000);
    world.settle();
    world.takes = 0;
    world.now += 60_000;
    world.observe(WWW, "1.1.1.1");
    let end = world.now + 600_000;
    while world.now < end {
        world.settle();
        world.now += 1000;
    }
    assert_eq!(world.stored(WWW), 1000);
    let left = world
        .publisher
        .names
        .get(&name(WWW))
        .unwrap()
        .list()
        .addresses();
    assert!(left > 250, "{left}");
}

#[test]
fn clock_that_goes_back_hour_delays_no_look_up_write_or_retry() {
    let mut world = world(&[WWW, "dead.example.com"]);
    world.observe_many("dead.example.com", 1000);
    world.observe(WWW, "1.1.1.1");
    world.settle();
    while let Some(request) = world.publisher.next_due(at(world.now)) {
        let round = names::LookupResult {
            name: request.name,
            started: at(world.now),
            finished: at(world.now),
            is_unresponsive: false,
            v4: FamilyOutcome::NoData,
            v6: FamilyOutcome::NoData,
        };
        world.publisher.apply_lookup(round, at(world.now));
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
fn new_rule_gets_its_object_while_another_tenants_names_churn() {
    let mut world = World::new(ManageObjects::Auto);
    let names: Vec<String> = (0..90).map(|i| format!("n{i:03}.example.com.")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    want_by(&mut world, &[("churn", &names)]);
    world.settle();
    for name in &names {
        world.observe(name, "1.1.1.1");
    }
    let rules: [(&str, &[&str]); 2] = [("churn", &names), ("new", &["z.example.com."])];
    want_by(&mut world, &rules);
    let writes = world.publisher.writes(at(world.now));
    let is_new = |write: &Write| matches!(write, Write::Create(object) if object.spec.name == "z.example.com.");
    assert!(writes.len() < names.len() && writes.iter().any(is_new));
}

#[test]
fn evicted_name_is_not_looked_up() {
    let mut world = World::with(ManageObjects::Auto, |config| {
        config.limits.lookups = true;
        config.limits.names_per_wildcard = 10;
    });
    world.want(&["*.example.com"]);
    for i in 0..1000 {
        world.observe_as(&format!("n{i}.example.com"), "1.1.1.1", Some("10.0.0.1"));
        world.now += 1;
    }
    world.settle();
    assert_eq!(world.publisher.names.scheduled(), 11);
    world.now += 32_000;
    let mut asked = 0;
    while let Some(request) = world.publisher.next_due(at(world.now)) {
        asked += 1;
        let number = request.name.as_str().trim_start_matches('n');
        assert!(
            number.starts_with("99") || number.starts_with('*'),
            "{number}"
        );
    }
    assert_eq!(asked, 11);
}

#[test]
fn name_evicted_during_its_look_up_stays_evicted() {
    let mut world = World::with(ManageObjects::Auto, |config| {
        config.limits.lookups = true;
        config.limits.names_per_wildcard = 10;
    });
    world.want(&["*.example.com"]);
    let host = |i: usize| format!("n{i}.example.com");
    for i in 0..10 {
        world.observe_as(&host(i), "1.1.1.1", Some("10.0.0.1"));
    }
    world.settle();
    world.now += 32_000;
    let mut asked = Vec::new();
    while let Some(request) = world.publisher.next_due(at(world.now)) {
        asked.push(request.name);
    }
    assert!(
        (0..10).all(|i| asked.contains(&name(&host(i)))),
        "{asked:?}"
    );
    for i in 10..20 {
        world.now += 1;
        world.observe_as(&host(i), "1.1.1.1", Some("10.0.0.1"));
    }
    // A client queries one of them again.
    world.now += 1;
    world.observe_as(&host(3), "1.1.1.1", Some("10.0.0.1"));
    for i in 0..10 {
        world.answer(&host(i), &["1.1.1.1"]);
    }
    world.settle();
    let entry = world.publisher.names.get(&name("*.example.com")).unwrap();
    let is_known = |i: &usize| entry.list().addresses_of(&name(&host(*i))) > 0;
    let known: Vec<_> = (0..20).filter(is_known).collect();
    assert_eq!(known, [3, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
}

#[test]
fn object_of_another_name_at_its_key_replaces_the_first() {
    let mut world = world(&[WWW]);
    world.observe(WWW, "1.1.1.1");
    world.settle();
    let mut other = world.store.values().next().unwrap().clone();
    other.spec.name = "other.example.com.".to_owned();
    other.metadata.uid = Some("other".to_owned());
    other.metadata.resource_version = Some("1000".to_owned());
    world
        .publisher
        .apply_event(Source::EgressFirewall, Event::Applied(other), at(world.now));
    assert!(world.publisher.by_name[&name(WWW)].objects.is_empty());
    assert_eq!(
        world.publisher.by_name[&name("other.example.com")]
            .objects
            .len(),
        1
    );
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

/// As with wildcard records of DNS: every name under the wildcard has its addresses, each with its
/// own expiry.
#[test]
fn names_that_the_wildcards_own_entry_covers_cause_few_writes() {
    for has_clients in [true, false] {
        let mut world = World::with(ManageObjects::Auto, |config| config.limits.lookups = true);
        world.want(&["*.example.com", "a.example.com"]);
        world.settle();
        let names = ["*.example.com", "a.example.com", "b.example.com"];
        for asked in names {
            world.now += 7_000;
            world.observe_as(asked, "1.1.1.1", Some("10.0.0.1"));
        }
        world.settle();
        let (mut writes, end) = (0, world.now + 3_600_000);
        while world.now < end {
            world.now += 200;
            for (asked, at) in names.iter().zip([0, 11_000, 23_000]) {
                if has_clients && world.now % 30_000 == at {
                    world.observe_as(asked, "1.1.1.1", Some("10.0.0.1"));
                }
            }
            for asked in world.due() {
                world.answer(&asked, &["1.1.1.1"]);
            }
            writes += world.settle();
        }
        // Of two objects.
        assert!(writes <= 2 * 7, "{has_clients}: {writes} writes in an hour");
    }
}

#[test]
fn names_that_wait_to_be_made_are_looked_at_when_their_turn_is() {
    let names: Vec<String> = (0..1_000).map(|i| format!("n{i}.example.com")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::with(ManageObjects::Always, |config| {
        // Ten objects a second.
        config.objects.write_bytes = 30_000;
    });
    world.want(&names);
    let (mut looked_at, mut made) = (0, 0);
    while made < names.len() {
        let now = at(world.now);
        let wakes = world.publisher.by_name.values().filter_map(|it| it.wake);
        looked_at += wakes.filter(|wake| *wake <= now).count();
        world.publisher.advance(now);
        let mut writes = world.publisher.writes(now);
        while !writes.is_empty() {
            for write in writes {
                made += usize::from(matches!(write, Write::Create(_)));
                let outcome = world.carry_out(&write);
                world
                    .publisher
                    .apply_written(&write.key(), &write, outcome, now);
            }
            writes = world.publisher.writes(now);
        }
        let wake = world.publisher.next_wake();
        world.now += wake
            .map_or(1_000, |at| {
                i64::try_from(at.since(now).as_millis()).unwrap()
            })
            .clamp(1, 1_000);
        assert!(world.now < 200_000, "{made} are made");
    }
    assert!(looked_at < 5 * made, "{looked_at} looks");
}
