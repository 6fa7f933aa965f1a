//! The details of one name or one address, in the publisher.

use runtime::inspect::Subject;

use super::{World, answer, at, name};
use crate::{
    listen::PeerIds,
    publish::{Facts, ManageObjects},
};
use names::Provenance;

const WWW: &str = "www.example.com";

fn of_name(world: &World, text: &str) -> Facts {
    world
        .publisher
        .facts(&Subject::Name(name(text)), at(world.now))
}

#[test]
fn a_name_has_its_addresses_and_those_that_a_wildcard_knows_of_it() {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&[WWW, "*.example.com"]);
    world.observe(WWW, "192.0.2.1");
    world.observe("mail.example.com", "192.0.2.2");
    let facts = of_name(&world, WWW);
    let [exact, wildcard] = facts.names.as_slice() else {
        panic!("{facts:?}");
    };
    for (found, spec) in [(exact, WWW), (wildcard, "*.example.com")] {
        assert_eq!(found.name, name(spec));
        let [(address, in_object)] = found.addresses.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(address.ip.to_string(), "192.0.2.1");
        assert!(!in_object);
    }
    world.settle();
    assert!(of_name(&world, WWW).names[0].addresses[0].1);
    let all = of_name(&world, "*.example.com");
    assert_eq!(all.names[0].addresses.len(), 2);
    assert_eq!(of_name(&world, "www.example.org").names, []);
}

#[test]
fn an_address_is_where_it_was_seen_last_and_a_status_only_repeats_that() {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&[WWW]);
    let seen = |millis, source| names::Observation {
        source,
        ..answer(WWW, "192.0.2.1", millis)
    };
    let source = |world: &World| of_name(world, WWW).names[0].addresses[0].0.source;
    world.publisher.apply_answer(&seen(0, Provenance::peer(7)));
    world.settle();
    assert_eq!(source(&world), Provenance::peer(7));
    world.now = 1_000;
    world
        .publisher
        .apply_answer(&seen(1_000, Provenance::LOOKUP));
    assert_eq!(source(&world), Provenance::LOOKUP);
    world
        .publisher
        .apply_answer(&seen(500, Provenance::peer(7)));
    assert_eq!(source(&world), Provenance::LOOKUP);
}

#[test]
fn an_address_is_found_under_each_name_and_a_refusing_guard_is_named() {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&[WWW, "*.example.net"]);
    for asked in [WWW, "a.example.net", "b.example.net"] {
        world.observe(asked, "192.0.2.1");
    }
    let of_address = |text: &str| {
        let subject = Subject::Address(text.parse().unwrap());
        world.publisher.facts(&subject, at(world.now))
    };
    let facts = of_address("192.0.2.1");
    let found: Vec<_> = facts
        .names
        .iter()
        .map(|it| (it.name.as_str(), it.addresses.len()))
        .collect();
    assert_eq!(found, [("*.example.net.", 2), ("www.example.com.", 1)]);
    assert_eq!((facts.more_names, facts.guarded), (0, None));
    let loopback = of_address("127.0.0.1");
    assert_eq!(
        (loopback.names.len(), loopback.guarded),
        (0, Some("loopback"))
    );
}

#[test]
fn new_address_is_listed_once_with_the_write_of_its_status() {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&["*.w.test"]);
    let mut observation = answer("x.w.test", "192.0.2.1", world.now);
    observation.answered_at = Some(at(world.now - 3));
    world.publisher.apply_answer(&observation);
    let facts = |world: &World| {
        let recent = &world.config.shared.new_addresses;
        recent.facts(&PeerIds::default())
    };
    let [fact] = facts(&world).try_into().unwrap();
    assert_eq!((&*fact.rule, &*fact.name), ("*.w.test.", "x.w.test."));
    assert_eq!(fact.answered_at, Some(at(world.now - 3).into()));
    assert_eq!(fact.status_written_at, None);
    world.settle();
    // Neither the same answer nor that of another name changes a set.
    world.observe("x.w.test", "192.0.2.1");
    world.observe("y.w.test", "192.0.2.1");
    world.settle();
    let [fact] = facts(&world).try_into().unwrap();
    assert!(fact.status_written_at.is_some());
    assert_eq!(
        fact.object,
        world.store.keys().next().map(ToString::to_string)
    );
}
