//! The metrics of the publisher.

use super::{World, answer, at, wanted};
use crate::publish::{Census, ManageObjects};

#[test]
fn names_without_addresses_and_fullest_of_each_kind_are_counted() {
    let mut world = World::with(ManageObjects::Always, |config| {
        config.limits.addresses_per_name = 4;
        config.limits.names_per_wildcard = 10;
    });
    let names = ["a.example.com", "b.example.com", "*.example.org"];
    world.publisher.set_rules(wanted(&names, 0), at(0));
    let census = Census::new(&world.publisher.names);
    assert_eq!((census.bare, census.addresses), (2, 0));
    assert_eq!(census.fullest[..2], [0.0, 0.0]);
    for (name, ip) in [
        ("a.example.com", "198.51.100.1"),
        ("a.example.com", "198.51.100.2"),
        ("x.example.org", "198.51.100.3"),
    ] {
        world.publisher.apply_answer(&answer(name, ip, 0));
    }
    let census = Census::new(&world.publisher.names);
    assert_eq!((census.bare, census.addresses), (1, 3));
    assert_eq!(census.fullest[..2], [0.5, 0.1]);
    assert!(census.fullest[2] > 0.0 && census.fullest[2] < 0.1);
}
