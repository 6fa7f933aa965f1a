//! The caps of a namespace: names, wildcards and addresses.

use std::collections::BTreeMap;

use proto::{api::DnsName, facts::Query};

use super::{World, at, name, wanted};
use crate::{publish::ManageObjects, rules::notices::Notice};
use names::Namespace;
use names::NamespaceCaps;

const CAPS: NamespaceCaps = NamespaceCaps {
    names: 3,
    wildcards: 1,
    addresses: 4,
};

fn small() -> World {
    World::with(ManageObjects::Auto, |config| config.namespace_caps = CAPS)
}

/// These namespaces have rules with these names.
pub(in crate::publish::publisher) fn want_by(world: &mut World, rules: &[(&str, &[&str])]) {
    let numbers = &world.config.shared.namespaces;
    let mut namespaces: BTreeMap<DnsName, Vec<Namespace>> = BTreeMap::new();
    let mut all = wanted(&[], 0);
    for (namespace, names) in rules {
        let namespace = numbers.number(namespace);
        let mut of_namespace: Vec<_> = names.iter().map(|text| name(text)).collect();
        of_namespace.sort_unstable();
        for name in &of_namespace {
            namespaces.entry(name.clone()).or_default().push(namespace);
        }
        all.names_of_namespaces
            .insert(namespace, of_namespace.into());
    }
    let names: Vec<_> = namespaces.keys().map(DnsName::as_str).collect();
    all.names = wanted(&names, 0).names;
    for (name, mut of_name) in namespaces {
        of_name.sort_unstable();
        all.name_mut(&name).namespaces = of_name.into();
    }
    world.publisher.set_rules(all, at(world.now));
    world.publisher.advance(at(world.now));
}

fn left_out(world: &World) -> Vec<&str> {
    let entries = world.publisher.names.iter();
    let left_out = entries.filter(|(_, entry)| entry.is_left_out());
    let mut names: Vec<_> = left_out.map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names
}

#[test]
fn names_beyond_cap_are_left_out_in_order_of_name_and_come_back() {
    let mut world = small();
    let names: &[&str] = &[
        "c.test.",
        "a.test.",
        "d.test.",
        "b.test.",
        "*.y.test.",
        "*.x.test.",
    ];
    want_by(&mut world, &[("team", names)]);
    assert_eq!(left_out(&world), ["*.y.test.", "d.test."]);
    world.observe("d.test", "1.1.1.1");
    world.observe("a.y.test", "1.1.1.1");
    world.settle();
    let stored = world.addresses();
    assert!(stored.contains(&"d.test.".to_owned()), "{stored:?}");
    let problems = world
        .publisher
        .status(&Query::all(), at(world.now))
        .problems;
    let mut problems = problems.listed.iter();
    assert!(problems.any(|it| it.code == "LimitExceeded" && it.subject == "d.test."));
    want_by(
        &mut world,
        &[("team", &["d.test.", "b.test.", "*.y.test."])],
    );
    assert_eq!(left_out(&world), [""; 0]);
    world.observe("d.test", "1.1.1.1");
    world.settle();
    let stored = world.addresses();
    assert!(stored.contains(&"d.test. 1.1.1.1".to_owned()), "{stored:?}");
}

#[test]
fn names_with_a_status_stay_when_new_ones_exceed_the_cap() {
    let mut world = small();
    want_by(&mut world, &[("team", &["x.test.", "y.test.", "z.test."])]);
    for known in ["x.test", "y.test", "z.test"] {
        world.observe(known, "1.1.1.1");
    }
    world.settle();
    let names: &[&str] = &["a.test.", "x.test.", "y.test.", "z.test."];
    want_by(&mut world, &[("team", names)]);
    assert_eq!(left_out(&world), ["a.test."]);
    // A new leader knows the statuses only once it has read the objects.
    assert!(world.addresses().contains(&"z.test. 1.1.1.1".to_owned()));
}

#[test]
fn name_of_another_namespace_in_its_caps_is_not_left_out() {
    let mut world = small();
    let many: &[&str] = &["a.test.", "b.test.", "c.test.", "d.test.", "e.test."];
    want_by(&mut world, &[("many", many), ("few", &["e.test."])]);
    assert_eq!(left_out(&world), ["d.test."]);
    // Not even if both are over: then each of them has to be over because of this name.
    let few: &[&str] = &["e.test.", "f.test.", "g.test.", "h.test."];
    want_by(&mut world, &[("many", many), ("few", few)]);
    assert_eq!(left_out(&world), ["d.test.", "h.test."]);
}

#[test]
fn namespace_at_address_cap_gets_no_new_addresses() {
    let mut world = small();
    let mut reported = world.config.shared.notices.subscribe();
    let rules: [(&str, &[&str]); 2] = [("many", &["a.test.", "b.test."]), ("few", &["b.test."])];
    want_by(&mut world, &rules);
    for last in 1..=6 {
        world.observe("a.test", &format!("192.0.2.{last}"));
    }
    world.observe("b.test", "198.51.100.1");
    world.settle();
    let addresses = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"].join(" ");
    let expected = [
        format!("a.test. {addresses}"),
        "b.test. 198.51.100.1".to_owned(),
    ];
    assert_eq!(world.addresses(), expected);
    let many = world.config.shared.namespaces.number("many");
    assert_eq!(reported.try_recv(), Ok(Notice::AtCap(many)));
    assert!(reported.try_recv().is_err(), "once in ten minutes");
    // A known address is renewed, and when the others are over there is room again.
    world.now = 20_000;
    world.observe("a.test", "192.0.2.1");
    world.now = 36_000;
    world.settle();
    world.observe("a.test", "192.0.2.9");
    world.settle();
    assert_eq!(world.addresses()[0], "a.test. 192.0.2.1 192.0.2.9");
}
