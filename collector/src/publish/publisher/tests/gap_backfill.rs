//! Look-ups after lost answers, in the publisher.

use crate::publish::publisher::tests::{at, lookup::world, name};
use crate::{matching::Backfill, publish::publisher::tests::World};

fn anything() -> Backfill {
    Backfill {
        anything: true,
        ..Backfill::default()
    }
}

fn lost(names: &[&str]) -> Backfill {
    Backfill {
        names: names.iter().map(|text| name(text)).collect(),
        anything: false,
    }
}

/// A world with `n0.example.com` to `n9.example.com`. The last one was seen last, and all live
/// long.
fn known() -> World {
    let mut world = world();
    let names: Vec<String> = (0..10).map(|i| format!("n{i}.example.com")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    world.want(&names);
    world.now += 1000;
    world.due();
    for name in names {
        world.now += 100;
        world.answer(name, &["192.0.2.1"]);
    }
    world.settle();
    // A name is not looked up again so soon after its last look-up.
    world.now += 10_000;
    assert!(world.due().is_empty());
    world
}

fn missed(world: &mut World, missing: Backfill) {
    world.publisher.on_stream_gap(missing, at(world.now));
    world.publisher.advance(at(world.now));
}

/// The names that are looked up in this time.
fn asked_in(world: &mut World, seconds: i64) -> Vec<String> {
    let mut asked = Vec::new();
    for _ in 0..seconds {
        world.now += 1000;
        world.publisher.advance(at(world.now));
        for name in world.due() {
            world.answer(&name, &["192.0.2.1"]);
            asked.push(name);
        }
    }
    asked
}

#[test]
fn after_gap_all_wanted_names_are_looked_up_in_10_s_once_minute() {
    let mut world = known();
    missed(&mut world, anything());
    let mut asked = asked_in(&mut world, 10);
    asked.sort();
    asked.dedup();
    assert_eq!(asked.len(), 10, "{asked:?}");
    // The next gap waits for the rest of the minute; their own expiry causes look-ups too.
    missed(&mut world, anything());
    let owed = world.publisher.next_wake();
    assert!(owed <= Some(at(world.now + 60_000)), "{owed:?}");
    let mut asked = asked_in(&mut world, 61);
    asked.sort();
    asked.dedup();
    assert_eq!(asked.len(), 10, "{asked:?}");
}

#[test]
fn new_leader_looks_all_names_up_and_a_standby_none() {
    for leads in [true, false] {
        let mut world = known();
        missed(&mut world, anything());
        world.publisher.set_leads(!leads, at(world.now));
        world.publisher.set_leads(leads, at(world.now));
        world.settle();
        let mut asked = asked_in(&mut world, 11);
        asked.sort();
        asked.dedup();
        assert_eq!(asked.len(), 10 * usize::from(leads), "{asked:?}");
    }
}

#[test]
fn lost_answer_is_asked_for_at_once_even_of_an_unknown_name() {
    let mut world = known();
    world.want(&["n3.example.com", "*.example.net"]);
    world.due();
    missed(&mut world, lost(&["n3.example.com", "nobody.example.org"]));
    assert_eq!(world.due(), ["n3.example.com."]);
    missed(&mut world, lost(&["new.example.net"]));
    assert_eq!(world.due(), ["new.example.net."]);
    world.answer("new.example.net", &["192.0.2.77"]);
    world.settle();
    let entry = "*.example.net. 192.0.2.77".to_owned();
    assert!(world.addresses().contains(&entry));
    // A name that does not exist leaves no entry behind.
    missed(&mut world, lost(&["gone.example.net"]));
    assert_eq!(world.due(), ["gone.example.net."]);
    world.round("gone.example.net", names::FamilyOutcome::NoData);
    assert_eq!(world.publisher.names.due(&name("gone.example.net")), None);
}
