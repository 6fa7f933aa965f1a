//! Objects, their watch events, and conflicts, in the publisher.

use std::collections::BTreeSet;

use proto::api::DnsNameResolver;
use runtime::store::Event;

use super::{World, at};
use crate::publish::ManageObjects;

#[test]
fn unused_object_is_deleted_only_if_it_is_ours() {
    let mut world = World::new(ManageObjects::Auto);
    let foreign = DnsNameResolver::new(
        "foreign",
        proto::api::DnsNameResolverSpec {
            name: "foreign.example.com.".to_owned(),
        },
    );
    let foreign = world.put(foreign);
    world.event(Event::Applied(foreign));
    world.want(&["www.example.com", "foreign.example.com"]);
    world.observe("foreign.example.com", "1.1.1.1");
    world.settle();
    assert_eq!(
        world.store.len(),
        2,
        "the foreign object is used, not doubled"
    );
    world.want(&[]);
    world.settle_deletions();
    assert_eq!(world.addresses(), ["foreign.example.com."]);
}

#[test]
fn object_that_cannot_be_read_is_not_taken_for_a_deleted_one() {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&["www.example.com"]);
    world.settle();
    let key = world.store.keys().next().unwrap().clone();
    let unreadable = Event::Undecodable([key.clone()].into());
    world.event(unreadable);
    world.event(Event::Synced(Vec::new()));
    assert_eq!(world.settle(), 0);
    // The absence of the object ends that.
    world.store.clear();
    world.event(Event::Undecodable(BTreeSet::new()));
    world.event(Event::Synced(Vec::new()));
    world.settle();
    assert!(world.store.contains_key(&key));
}

#[test]
fn conflict_is_computed_again_on_what_is_there() {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&["*.example.com"]);
    world.observe("a.example.com", "1.1.1.1");
    world.settle();
    // Another replica writes an address that this one has not seen.
    let mut object = world.store.values().next().unwrap().clone();
    let mut other = object.status.clone().unwrap();
    other.resolved_names[0].dns_name = "b.example.com.".to_owned();
    other.resolved_names[0].resolved_addresses[0].ip = "2.2.2.2".into();
    object
        .status
        .as_mut()
        .unwrap()
        .resolved_names
        .push(other.resolved_names[0].clone());
    world.put(object);
    world.observe("c.example.com", "3.3.3.3");
    world.settle();
    assert_eq!(
        world.addresses(),
        ["*.example.com. 1.1.1.1 2.2.2.2 3.3.3.3"]
    );
}

#[test]
fn late_watch_event_undoes_nothing() {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&["www.example.com"]);
    world.settle();
    let empty = world.store.values().next().unwrap().clone();
    world.observe("www.example.com", "1.1.1.1");
    world.settle();
    world.event(Event::Applied(empty));
    assert_eq!(world.settle(), 0);
}

#[test]
fn watch_event_during_a_write_is_applied_after_it() {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&["www.example.com"]);
    world.settle();
    world.observe("www.example.com", "1.1.1.1");
    let writes = world.publisher.writes(at(0));
    let [write] = writes.as_slice() else {
        panic!("{writes:?}")
    };
    let outcome = world.carry_out(write);
    // The object is deleted just after the write, and the watch event arrives before the write's
    // reply.
    let (key, _) = world.store.pop_first().unwrap();
    world.event(Event::Deleted(key.clone()));
    assert!(
        world.publisher.writes(at(0)).is_empty(),
        "one write in flight for an object"
    );
    world.publisher.apply_written(&key, write, outcome, at(0));
    world.settle();
    assert_eq!(world.addresses(), ["www.example.com. 1.1.1.1"]);
}
