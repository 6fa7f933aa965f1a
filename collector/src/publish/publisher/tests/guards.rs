//! Refused addresses: none gets into a status, and the authors of rules hear of it. Guards change while the program runs.

use std::sync::Arc;

use tokio::sync::broadcast;

use crate::{
    cluster::networks::{Networks, Purpose},
    publish::{
        ManageObjects,
        publisher::tests::{World, answer, at, name},
    },
    rules::notices::Notice,
};

const WWW: &str = "www.example.com";

fn services(net: &str) -> Arc<Networks> {
    Arc::new(Networks::new([(Purpose::Services, net.parse().unwrap())]))
}

/// A world, and the notices to the authors of rules.
fn reporting() -> (World, broadcast::Receiver<Notice>) {
    let world = World::new(ManageObjects::Auto);
    let reported = world.config.shared.notices.subscribe();
    (world, reported)
}

fn refused(asked: &str, reason: &'static str) -> Notice {
    Notice::Refused(name(asked), reason)
}

#[test]
fn refused_address_of_an_answer_stays_out_and_is_reported() {
    let (mut world, mut reported) = reporting();
    world.want(&[WWW, "*.example.net"]);
    world.settle();
    for (asked, ip, reason) in [
        (WWW, "169.254.169.254", "link-local"),
        (WWW, "::ffff:127.0.0.1", "loopback"),
        ("a.example.net", "0.0.0.0", "unspecified"),
    ] {
        world.observe(asked, ip);
        assert_eq!(reported.try_recv(), Ok(refused(asked, reason)));
    }
    assert_eq!(world.settle(), 1, "the status says why it has no address");
    world.observe(WWW, "127.0.0.1");
    assert_eq!(reported.try_recv(), Ok(refused(WWW, "loopback")));
    assert_eq!(world.settle(), 0);
    let mut mixed = answer(WWW, "203.0.113.1", world.now);
    mixed
        .addresses
        .push(("64:ff9b::169.254.169.254".parse().unwrap(), 30));
    world.publisher.apply_answer(&mixed);
    let expected = refused(WWW, "link-local");
    assert_eq!(reported.try_recv(), Ok(expected));
    assert!(reported.try_recv().is_err());
    world.settle();
    assert_eq!(
        world.addresses(),
        ["*.example.net.", "www.example.com. 203.0.113.1"]
    );
}

#[test]
fn look_up_with_refused_addresses_only_removes_no_address() {
    let mut world = World::with(ManageObjects::Auto, |config| config.limits.lookups = true);
    world.want(&[WWW]);
    world.answer(WWW, &["203.0.113.1"]);
    world.settle();
    // Five look-ups without any address would remove it.
    for _ in 0..6 {
        world.now += 60_000;
        world.answer(WWW, &["127.0.0.1"]);
        world.settle();
    }
    assert_eq!(world.addresses(), ["www.example.com. 203.0.113.1"]);
}

#[test]
fn address_that_a_new_guard_refuses_leaves_at_once() {
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
fn name_that_loses_all_its_addresses_is_looked_up_again() {
    let mut world = World::with(ManageObjects::Auto, |config| config.limits.lookups = true);
    world.want(&[WWW]);
    world.observe(WWW, "10.96.0.7");
    world.settle();
    assert_eq!(world.publisher.next_due(at(world.now)), None);
    world.publisher.set_networks(services("10.96.0.0/16"));
    let next = world.publisher.next_due(at(world.now));
    assert_eq!(next.map(|next| next.name), Some(name(WWW)));
}
