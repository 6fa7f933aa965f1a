//! A name that two names in use match: both have its addresses.

use crate::publish::ManageObjects;
use crate::publish::publisher::tests::{World, at};
use names::Request;

const WWW: &str = "www.example.com";
const WILDCARD: &str = "*.example.com";

fn world() -> World {
    World::with(ManageObjects::Auto, |config| config.limits.lookups = true)
}

/// The names that are looked up within so many seconds.
fn looked_up(world: &mut World, seconds: i64) -> Vec<String> {
    let mut names = Vec::new();
    for _ in 0..seconds * 10 {
        world.now += 100;
        while let Some(Request { name, .. }) = world.publisher.next_due(at(world.now)) {
            names.push(name.as_str().to_owned());
        }
    }
    names
}

#[test]
fn wildcard_wanted_later_starts_with_the_state_of_its_names() {
    let mut world = world();
    world.want(&[WWW, "a.b.example.com"]);
    world.observe_as(WWW, "1.1.1.1", Some("10.0.0.1"));
    world.observe_as("a.b.example.com", "2.2.2.2", Some("10.0.0.1"));
    world.settle();
    world.want(&[WWW, "a.b.example.com", WILDCARD]);
    world.settle();
    let expected = [
        "*.example.com. 1.1.1.1",
        "a.b.example.com. 2.2.2.2",
        "www.example.com. 1.1.1.1",
    ];
    assert_eq!(world.addresses(), expected);
}

#[test]
fn new_name_begins_with_the_addresses_of_its_wildcard() {
    let mut world = world();
    world.want(&[WILDCARD]);
    world.observe_as(WWW, "1.1.1.1", Some("10.0.0.1"));
    world.observe_as("other.example.com", "2.2.2.2", Some("10.0.0.1"));
    world.settle();
    world.want(&[WILDCARD, WWW]);
    world.settle();
    let expected = ["*.example.com. 2.2.2.2 1.1.1.1", "www.example.com. 1.1.1.1"];
    assert_eq!(world.addresses(), expected);
}

#[test]
fn name_whose_rule_becomes_a_wildcard_stays() {
    let mut world = world();
    world.want(&[WWW]);
    world.observe_as(WWW, "1.1.1.1", Some("10.0.0.1"));
    world.settle();
    world.want(&[WILDCARD]);
    world.settle();
    let expected = ["*.example.com. 1.1.1.1", "www.example.com. 1.1.1.1"];
    assert_eq!(world.addresses(), expected);
    let names = looked_up(&mut world, 40);
    assert!(names.contains(&"www.example.com.".to_owned()), "{names:?}");
}

#[test]
fn name_that_a_wildcard_wants_too_outlives_its_own_rule() {
    let mut world = world();
    world.want(&[WWW, WILDCARD]);
    world.observe_as(WWW, "1.1.1.1", Some("10.0.0.1"));
    world.settle();
    world.want(&[WILDCARD]);
    world.settle();
    let expected = ["*.example.com. 1.1.1.1", "www.example.com. 1.1.1.1"];
    assert_eq!(world.addresses(), expected);
    let names = looked_up(&mut world, 40);
    assert!(names.contains(&"www.example.com.".to_owned()), "{names:?}");
}
