//! The details of one name or one address, in the publisher.

use proto::facts::{Subject, SubjectFacts};

use super::{World, answer, at, name};
use crate::{listen::PeerIds, publish::ManageObjects};

const WWW: &str = "www.example.com";

fn of_name(world: &World, text: &str) -> SubjectFacts {
    world
        .publisher
        .facts(&Subject::Name(name(text)), at(world.now))
}

#[test]
fn name_has_its_addresses_and_those_that_a_wildcard_knows_of_it() {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&[WWW, "*.example.com"]);
    world.observe(WWW, "192.0.2.1");
    world.observe("mail.example.com", "192.0.2.2");
    let facts = of_name(&world, WWW);
    let [exact, wildcard] = facts.names.as_slice() else {
        panic!("{facts:?}");
    };
    for (found, spec) in [(exact, WWW), (wildcard, "*.example.com")] {
        assert_eq!(found.facts.name, name(spec));
        let [address] = found.facts.addresses.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(address.address.to_string(), "192.0.2.1");
        assert!(!address.in_object);
    }
    world.settle();
    assert!(of_name(&world, WWW).names[0].facts.addresses[0].in_object);
    let all = of_name(&world, "*.example.com");
    assert_eq!(all.names[0].facts.addresses.len(), 2);
    assert_eq!(of_name(&world, "www.example.org").names, []);
}

#[test]
fn new_address_is_listed_once_with_the_write_of_its_status() {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&["*.w.test"]);
    let mut observation = answer("x.w.test", "192.0.2.1", world.now);
    observation.server_time = Some(at(world.now - 3));
    world.publisher.apply_answer(&observation);
    let facts = |world: &World| {
        let recent = &world.config.shared.new_addresses;
        recent.facts(&PeerIds::default(), 10)
    };
    let [fact] = facts(&world).try_into().unwrap();
    assert_eq!((&*fact.rule, &*fact.name), ("*.w.test.", "x.w.test."));
    assert_eq!(fact.answered_at, Some(at(world.now - 3)));
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
