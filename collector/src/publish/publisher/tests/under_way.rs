//! What happens while the status of an object is being written.

use std::collections::BTreeSet;

use proto::api::DnsNameResolver;
use runtime::store::Event;

use super::{World, at};
use crate::publish::{ManageObjects, write::Write};
use crate::rules::Source;

const WILD: &str = "*.example.com";

/// The names of a status in a write.
fn names(write: &Write) -> BTreeSet<String> {
    let Write::Status(object) = write else {
        panic!("{write:?}");
    };
    let names = object.status.iter().flat_map(|it| &it.resolved_names);
    names.map(|name| name.dns_name.clone()).collect()
}

fn finish(world: &mut World, write: &Write) {
    let outcome = world.carry_out(write);
    let now = at(world.now);
    world
        .publisher
        .apply_written(&write.key(), write, outcome, now);
}

/// A wildcard whose first name is being written.
fn being_written() -> (World, Write) {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&[WILD]);
    world.settle();
    world.observe("first.example.com", "1.1.1.1");
    let mut writes = world.publisher.writes(at(world.now));
    assert_eq!(writes.len(), 1);
    (world, writes.remove(0))
}

#[test]
fn answers_during_write_of_wildcard_gather_for_next_write() {
    let (mut world, first) = being_written();
    let mut expected = names(&first);
    for i in 0..200 {
        world.now += 10;
        let name = format!("n{i}.example.com");
        world.observe(&name, "1.1.1.1");
        expected.insert(format!("{name}."));
        assert!(world.publisher.writes(at(world.now)).is_empty());
    }
    finish(&mut world, &first);
    world.now += 10;
    let next = world.publisher.writes(at(world.now));
    let [next] = next.as_slice() else {
        panic!("{next:?}");
    };
    assert_eq!(names(next), expected);
}

/// Neither a change by another writer nor an eviction starts a second write.
#[test]
fn nothing_starts_second_write_of_object_that_is_being_written() {
    let (mut world, first) = being_written();
    let mut theirs: DnsNameResolver = world.store.values().next().unwrap().clone();
    theirs.metadata.resource_version = Some("theirs".to_owned());
    world.publisher.apply_event(
        Source::EgressFirewall,
        Event::Applied(theirs),
        at(world.now),
    );
    for i in 0..1_200 {
        world.observe(&format!("n{i}.example.com"), "1.1.1.1");
    }
    for _ in 0..100 {
        world.now += 100;
        world.publisher.advance(at(world.now));
        assert!(world.publisher.writes(at(world.now)).is_empty());
    }
    finish(&mut world, &first);
    world.now += 2_000;
    assert_eq!(world.publisher.writes(at(world.now)).len(), 1);
}
