//! Lists of names with their addresses, in the publisher.

use super::{World, at, namespace_caps::want_by};
use crate::publish::ManageObjects;
use proto::facts::{CollectorFacts, Query};

fn list(world: &World, query: Query) -> CollectorFacts {
    world.publisher.status(&query, at(world.now)).facts
}

fn matching(name: &str, namespace: Option<&str>, after: Option<&str>) -> Query {
    Query {
        name: name.to_owned(),
        namespace: namespace.map(str::to_owned),
        after: after.map(|it| format!("{it}.")),
        ..Query::all()
    }
}

fn names(listing: &CollectorFacts) -> Vec<&str> {
    let names = listing.names.iter();
    names.map(|it| it.facts.name.as_str()).collect()
}

#[test]
fn name_is_listed_with_its_namespaces_and_clients_that_asked() {
    let rules: [(&str, &[&str]); 2] = [
        ("one", &["a.test.", "*.w.test."]),
        ("two", &["*.w.test.", "b.test."]),
    ];
    let mut world = World::new(ManageObjects::Auto);
    want_by(&mut world, &rules);
    world.settle();
    for (client, asked, ip) in [
        ("10.0.0.2", "f.w.test", "203.0.113.1"),
        ("10.0.0.2", "g.w.test", "203.0.113.2"),
        ("10.0.0.1", "a.test", "203.0.113.3"),
    ] {
        world.observe_as(asked, ip, Some(client));
    }
    world.settle();
    let all = list(&world, matching("", None, None));
    assert_eq!(names(&all), ["*.w.test.", "a.test.", "b.test."]);
    assert_eq!(all.next, None);
    let wildcard = &all.names[0];
    assert_eq!(wildcard.namespaces, ["one", "two"]);
    assert_eq!(
        wildcard.asked_by,
        ["10.0.0.2".parse::<std::net::IpAddr>().unwrap()]
    );
    let facts = &wildcard.facts;
    assert_eq!((facts.addresses.len(), facts.more_addresses), (2, 0));
    assert!(facts.addresses[0].in_object, "the object has it");
    for (query, expected) in [
        (
            matching("", Some("one"), None),
            &["*.w.test.", "a.test."][..],
        ),
        (matching("B.T", None, None), &["b.test."]),
        (matching("g.w.test", None, None), &["*.w.test."]),
        (matching("", Some("nobody"), None), &[]),
        (matching("", None, Some("a.test")), &["b.test."]),
    ] {
        let listing = list(&world, query);
        assert_eq!(names(&listing), expected);
    }
}
