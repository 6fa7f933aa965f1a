//! A name that two names in use match: both have its addresses.

use crate::publish::publisher::tests::{at, lookup::world};

const WWW: &str = "www.example.com";
const WILDCARD: &str = "*.example.com";

#[test]
fn new_rule_begins_with_the_addresses_that_another_rule_found() {
    let cases: [(&[&str], &[&str], &[&str]); 4] = [
        (
            &[WWW, "a.b.example.com"],
            &[WWW, "a.b.example.com", WILDCARD],
            &[
                "*.example.com. 1.1.1.1",
                "a.b.example.com. 2.2.2.2",
                "www.example.com. 1.1.1.1",
            ],
        ),
        (
            &[WILDCARD],
            &[WILDCARD, WWW],
            &["*.example.com. 1.1.1.1", "www.example.com. 1.1.1.1"],
        ),
        (
            &[WWW],
            &[WILDCARD],
            &["*.example.com. 1.1.1.1", "www.example.com. 1.1.1.1"],
        ),
        (
            &[WWW, WILDCARD],
            &[WILDCARD],
            &["*.example.com. 1.1.1.1", "www.example.com. 1.1.1.1"],
        ),
    ];
    for (before, after, expected) in cases {
        let mut world = world();
        world.want(before);
        world.observe_as(WWW, "1.1.1.1", Some("10.0.0.1"));
        world.observe_as("a.b.example.com", "2.2.2.2", Some("10.0.0.1"));
        world.settle();
        world.want(after);
        world.settle();
        assert_eq!(world.addresses(), expected);
        // It is looked up further.
        world.now += 40_000;
        world.publisher.advance(at(world.now));
        assert!(world.due().contains(&"www.example.com.".to_owned()));
    }
}
