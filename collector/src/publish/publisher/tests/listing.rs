//! Lists of names with their addresses, in the publisher.

use super::{World, answer, at, namespace_caps::want_by};
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

#[test]
fn lists_are_bounded_and_follow_each_other_until_the_end() {
    let mut world = World::new(ManageObjects::Auto);
    let all: Vec<String> = (0..1_200).map(|i| format!("n{i:04}.test")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    world.want(&all);
    for asked in all.iter().take(50) {
        let mut observation = answer(asked, "192.0.2.1", world.now);
        let ip = |i: u32| std::net::IpAddr::from((0x0a00_0000 + i).to_be_bytes());
        observation.addresses = (0..300).map(|i| (ip(i), 3_600)).collect();
        world.publisher.apply_answer(&observation);
    }
    let (mut listed, mut after, mut lengths) = (Vec::new(), None::<String>, Vec::new());
    loop {
        let query = Query {
            after: after.clone(),
            ..Query::all()
        };
        let listing = list(&world, query);
        lengths.push(listing.names.len());
        listed.extend(names(&listing).into_iter().map(str::to_owned));
        let Some(last) = listing.next else { break };
        after = Some(last.to_string());
    }
    // The first list ends at 10,000 addresses.
    assert_eq!(lengths, [33, 500, 500, 167]);
    assert_eq!(listed.len(), 1_200);
    assert!(listed.is_sorted());
}
