//! Guards that change while the program runs, in the publisher.

use std::{sync::Arc, time::Duration};

use runtime::cluster_cidrs::{Networks, Purpose};

use crate::{
    matching::answer_cache::Answer,
    publish::{
        ManageObjects,
        publisher::tests::{World, answer, at, name},
    },
};

const WWW: &str = "www.example.com";

fn services(net: &str) -> Arc<Networks> {
    Arc::new(Networks::new([(Purpose::Services, net.parse().unwrap())]))
}

#[test]
fn what_a_new_guard_refuses_leaves_memory_and_status_at_once() {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&[WWW, "*.example.net"]);
    world.settle();
    for (asked, ip) in [
        (WWW, "10.96.0.7"),
        (WWW, "203.0.113.1"),
        ("a.example.net", "10.96.0.8"),
    ] {
        world.observe(asked, ip);
    }
    world.settle();
    assert_eq!(
        world.addresses(),
        [
            "*.example.net. 10.96.0.8",
            "www.example.com. 10.96.0.7 203.0.113.1"
        ]
    );
    world.now += 1000;
    world.publisher.set_networks(services("10.96.0.0/16"));
    assert_eq!(world.settle(), 2);
    let left = ["*.example.net.", "www.example.com. 203.0.113.1"];
    assert_eq!(world.addresses(), left);
    // It does not come back from the queue, a look-up, or another replica's status.
    world.now += 1000;
    world.observe(WWW, "10.96.0.7");
    assert_eq!(world.settle(), 0);
    assert_eq!(world.addresses(), left);
    world.publisher.set_networks(Arc::default());
    world.observe(WWW, "10.96.0.7");
    world.settle();
    assert_eq!(
        world.addresses(),
        ["*.example.net.", "www.example.com. 203.0.113.1 10.96.0.7"]
    );
}

#[test]
fn a_name_that_loses_all_its_addresses_is_looked_up_again() {
    let mut world = World::with(ManageObjects::Auto, |config| config.limits.lookups = true);
    world.want(&[WWW]);
    world.observe(WWW, "10.96.0.7");
    world.settle();
    assert_eq!(world.publisher.next_due(at(world.now)), None);
    world.publisher.set_networks(services("10.96.0.0/16"));
    let next = world.publisher.next_due(at(world.now));
    assert_eq!(next.map(|next| next.name), Some(name(WWW)));
}

#[test]
fn what_was_remembered_before_a_guard_came_is_held_against_it() {
    let mut world = World::new(ManageObjects::Auto);
    let observed = answer(WWW, "10.96.0.7", 0);
    world.remembered.keep(&Answer {
        name: &(&observed.name).into(),
        family: observed.family,
        addresses: &observed.addresses,
        at: observed.at,
        client: None,
    });
    world.publisher.set_networks(services("10.96.0.0/16"));
    world.want(&[WWW]);
    world.settle();
    assert_eq!(world.addresses(), ["www.example.com."]);
}

#[test]
fn networks_that_refuse_nothing_cause_no_write() {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&[WWW]);
    world.observe(WWW, "203.0.113.1");
    world.settle();
    world.now += Duration::from_secs(1).as_millis() as i64;
    world.publisher.set_networks(services("10.96.0.0/16"));
    assert_eq!(world.settle(), 0);
}
