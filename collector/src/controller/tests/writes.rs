//! Which objects are written when, in the controller.

use std::time::Duration;

use super::{World, at};
use crate::objects::{
    MAX_IN_FLIGHT, ManageObjects,
    publish::{Write, WriteOutcome},
};

/// The store carries out these writes.
fn carry_out(world: &mut World, writes: &[Write]) {
    for write in writes {
        let outcome = world.carry_out(write);
        let now = at(world.now);
        world.controller.written(&write.key(), write, outcome, now);
    }
}

#[test]
fn few_of_many_writes_are_under_way_and_most_are_of_addresses() {
    let mut world = World::with(ManageObjects::Auto, |_| {});
    let known = (0..3).map(|i| format!("known{i}.example.com"));
    let known: Vec<_> = known.collect();
    let mut names: Vec<&str> = known.iter().map(String::as_str).collect();
    world.want(&names);
    world.settle();
    assert_eq!(world.store.len(), 3);

    let new: Vec<_> = (0..1000).map(|i| format!("host{i}.example.com")).collect();
    names.extend(new.iter().map(String::as_str));
    world.want(&names);
    let mut under_way = world.controller.writes(at(world.now));
    assert_eq!(under_way.len(), MAX_IN_FLIGHT);
    assert!(world.controller.writes(at(world.now)).is_empty());

    // A new object gets its addresses before the next object is created, and most known addresses
    // go before both.
    carry_out(&mut world, &[under_way.remove(0)]);
    for name in &names {
        world.observe(name, "1.1.1.1");
    }
    carry_out(&mut world, &under_way);
    let next = world.controller.writes(at(world.now));
    let statuses = next
        .iter()
        .filter(|write| matches!(write, Write::Status(_)));
    assert_eq!(
        statuses.count(),
        MAX_IN_FLIGHT / 4 * 3,
        "objects that are there, but for one in four"
    );

    carry_out(&mut world, &next);
    let mut count = 0;
    while !world.controller.inspect().is_settled() {
        let writes = world.controller.writes(at(world.now));
        assert!(writes.len() <= MAX_IN_FLIGHT);
        carry_out(&mut world, &writes);
        world.now += 1;
        world.controller.tick(at(world.now));
        count += 1;
        assert!(count < 10_000, "it does not settle");
    }
    assert_eq!(world.store.len(), 1003);
    assert_eq!(world.addresses().len(), 1003);
}

#[test]
fn a_store_that_takes_few_writes_at_once_is_asked_for_about_as_many() {
    const TAKES: usize = 3;
    let mut world = World::with(ManageObjects::Auto, |_| {});
    let names: Vec<_> = (0..200).map(|i| format!("host{i}.example.com")).collect();
    world.want(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let (mut refused, mut rounds) = (Vec::new(), 0);
    while world.store.len() < names.len() {
        world.controller.tick(at(world.now));
        let writes = world.controller.writes(at(world.now));
        let (taken, left) = writes.split_at(writes.len().min(TAKES));
        carry_out(&mut world, taken);
        for write in left {
            let outcome = WriteOutcome::Failed(Some(Duration::from_secs(1)));
            let now = at(world.now);
            world.controller.written(&write.key(), write, outcome, now);
        }
        refused.extend((!left.is_empty()).then_some(left.len()));
        world.now += 10;
        rounds += 1;
        assert!(rounds < 10_000, "{} of them", world.store.len());
    }
    assert_eq!(refused[0], MAX_IN_FLIGHT - TAKES);
    assert!(refused[1..].iter().all(|more| *more <= 1), "{refused:?}");
    // Then as many as ever, in time.
    for _ in 0..MAX_IN_FLIGHT * MAX_IN_FLIGHT {
        world.controller.objects.in_flight_limit.grow();
    }
    assert_eq!(
        world.controller.objects.in_flight_limit.size(),
        MAX_IN_FLIGHT
    );
}

#[test]
fn a_full_wildcard_is_written_each_second_without_delaying_small_objects() {
    const SMALL: &str = "www.example.com";
    let mut world = World::with(ManageObjects::Auto, |config| {
        config.limits.names_per_wildcard = 200;
        // The wildcard's object has about 180 kB: the budget allows two at once, then one in 20 s.
        config.objects.rates.bytes = 20_000.0;
    });
    world.want(&["*.wild.example.com", SMALL]);
    world.settle();
    let (mut of_wildcard, mut of_small) = (Vec::new(), 0);
    for turn in 0..600_u32 {
        world.observe(&format!("n{turn}.wild.example.com"), "192.0.2.1");
        if turn % 50 == 0 {
            let last = turn / 50 + 1;
            world.observe(SMALL, &format!("198.51.100.{last}"));
        }
        let writes = world.controller.writes(at(world.now));
        for write in &writes {
            match write {
                Write::Status(object) if object.spec.name.starts_with('*') => {
                    of_wildcard.push(world.now);
                }
                // While the wildcard is small, it counts too.
                _ => of_small += usize::from(world.now >= 20_000),
            }
        }
        carry_out(&mut world, &writes);
        world.now += 100;
        world.controller.tick(at(world.now));
    }
    assert_eq!(of_small, 8, "each at once");
    let while_full = of_wildcard.iter().filter(|it| **it > 20_000);
    let while_full: Vec<_> = while_full.collect();
    assert!((2..=5).contains(&while_full.len()), "{of_wildcard:?}");
    let pairs = of_wildcard.windows(2);
    let gaps: Vec<_> = pairs.map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| *gap <= 25_000), "{gaps:?}");
}
