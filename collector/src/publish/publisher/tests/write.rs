//! Writes that the store refuses, in the publisher.

use std::net::IpAddr;

use crate::publish::publisher::tests::{World, answer, at, lookup::world};
use crate::publish::{
    ManageObjects,
    write::{Write, WriteOutcome},
};

const WWW: &str = "www.example.com";

fn stored(world: &World) -> usize {
    let status = world
        .store
        .values()
        .next()
        .and_then(|it| it.status.as_ref());
    let entries = status.into_iter().flat_map(|status| &status.resolved_names);
    entries.map(|entry| entry.resolved_addresses.len()).sum()
}

#[test]
fn status_that_is_too_large_loses_tenth_until_store_takes_it() {
    let mut world = world();
    world.want(&[WWW]);
    world.settle();
    world.takes = 60_000;
    let observe_many = |world: &mut World| {
        let mut many = answer(WWW, "1.1.1.1", world.now);
        many.addresses = (0..1000_u32)
            .map(|i| (IpAddr::from((0x0b00_0000 + i).to_be_bytes()), 3600))
            .collect();
        world.publisher.apply_answer(&many);
        let end = world.now + 60_000;
        world.settle();
        while stored(world) == 0 || !world.publisher.is_settled() {
            world.skip();
            world.settle();
            assert!(world.now <= end, "not in a minute");
        }
        stored(world)
    };
    let count = observe_many(&mut world);
    assert!((600..750).contains(&count), "{count}");
    let evicted = world.publisher.names.evictions().addresses;
    assert_eq!(evicted, 1000 - count as u64, "each is counted");
    // The larger size is not tried again.
    world.now += 60_000;
    assert_eq!(observe_many(&mut world), count);
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
