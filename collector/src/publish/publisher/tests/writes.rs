//! Which objects are written when, in the publisher.

use super::{World, at, namespace_caps::want_by};
use crate::publish::{MAX_IN_FLIGHT, ManageObjects, write::Write};

#[test]
fn writes_in_flight_are_few_and_all_names_are_written_in_end() {
    let mut world = World::new(ManageObjects::Auto);
    let names: Vec<_> = (0..1000).map(|i| format!("host{i}.example.com")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    world.want(&names);
    let first = world.publisher.writes(at(world.now));
    assert_eq!(first.len(), MAX_IN_FLIGHT);
    assert!(world.publisher.writes(at(world.now)).is_empty());
    world.store_all(&first);
    for name in &names {
        world.observe(name, "1.1.1.1");
    }
    let mut count = 0;
    while !&world.publisher.is_settled() {
        let writes = world.publisher.writes(at(world.now));
        assert!(writes.len() <= MAX_IN_FLIGHT);
        world.store_all(&writes);
        world.now += 1;
        world.publisher.advance(at(world.now));
        count += 1;
        assert!(count < 10_000, "it does not settle");
    }
    let stored = world.addresses();
    assert!(
        stored.iter().all(|it| it.ends_with(" 1.1.1.1")),
        "{stored:?}"
    );
    assert_eq!(stored.len(), 1000);
}

/// The bytes of a write, as far as the test needs them.
fn bytes(write: &Write) -> usize {
    match write {
        Write::Status(object) => serde_json::to_vec(&object.status).unwrap().len(),
        _ => 0,
    }
}

#[test]
fn full_wildcards_that_change_all_time_delay_no_small_object() {
    const SMALL: &str = "www.example.com.";
    let mut world = World::with(ManageObjects::Auto, |config| {
        config.limits.names_per_wildcard = 200;
        // Less than the wildcards together may have.
        config.objects.write_bytes = 256 << 10;
    });
    let wildcards = ["*.a.example.com.", "*.b.example.com.", "*.c.example.com."];
    want_by(&mut world, &[("wild", &wildcards), ("small", &[SMALL])]);
    world.settle();
    let (mut of_wildcards, mut of_small, mut asked_at) = (0, Vec::new(), None);
    for turn in 0..1_000_u32 {
        for zone in ["a", "b", "c"] {
            world.observe(&format!("n{turn}.{zone}.example.com"), "192.0.2.1");
        }
        if turn % 20 == 0 {
            let last = turn / 20 + 1;
            world.observe(SMALL, &format!("198.51.100.{last}"));
            asked_at = Some(world.now);
        }
        let writes = world.publisher.writes(at(world.now));
        for write in &writes {
            match write {
                Write::Status(object) if object.spec.name == SMALL => {
                    // Those that follow are of expired addresses.
                    of_small.extend(asked_at.take().map(|asked_at| world.now - asked_at));
                }
                write => of_wildcards += bytes(write),
            }
        }
        world.store_all(&writes);
        world.now += 100;
        world.publisher.advance(at(world.now));
    }
    assert_eq!(of_small.len(), 50);
    assert!(of_small.iter().all(|wait| *wait <= 1_000), "{of_small:?}");
    // 100 s, and what was saved.
    let most = (256 << 10) * 111;
    assert!(
        of_wildcards > most / 10 && of_wildcards < most,
        "{of_wildcards}"
    );
}

#[test]
fn object_beyond_its_bytes_waits_alone() {
    let mut world = World::new(ManageObjects::Auto);
    want_by(
        &mut world,
        &[("team", &["*.big.example.com.", "www.example.com."])],
    );
    world.settle();
    let mut written = 0;
    for turn in 0..400_u32 {
        for of_turn in 0..5 {
            world.observe(
                &format!("n{}.big.example.com", turn * 5 + of_turn),
                "192.0.2.1",
            );
        }
        let writes = world.publisher.writes(at(world.now));
        written += writes.iter().map(bytes).sum::<usize>();
        world.store_all(&writes);
        world.now += 100;
        world.publisher.advance(at(world.now));
    }
    // 40 s, and what was saved; the estimate is not below the bytes of the JSON.
    assert!(written > 0 && written < (128 << 10) * 51, "{written}");
    world.observe("www.example.com", "192.0.2.1");
    let writes = world.publisher.writes(at(world.now));
    let is_small =
        |write: &Write| matches!(write, Write::Status(it) if it.spec.name == "www.example.com.");
    assert!(writes.iter().any(is_small), "{}", writes.len());
}

#[test]
fn answers_during_write_of_wildcard_gather_for_next_write() {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&["*.example.com"]);
    world.settle();
    world.observe("first.example.com", "1.1.1.1");
    let first = world.publisher.writes(at(world.now));
    assert_eq!(first.len(), 1);
    for i in 0..200 {
        world.now += 10;
        world.observe(&format!("n{i}.example.com"), &format!("192.0.2.{i}"));
        assert!(world.publisher.writes(at(world.now)).is_empty());
    }
    world.store_all(&first);
    world.now += 10;
    let next = world.publisher.writes(at(world.now));
    assert_eq!(next.len(), 1);
    world.store_all(&next);
    assert_eq!(world.addresses()[0].split(' ').count(), 1 + 201);
}
