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

#[test]
fn name_left_out_and_namespace_at_cap_are_told() {
    let mut world = small();
    let mut reported = world.config.shared.notices.subscribe();
    let names: &[&str] = &["a.test.", "b.test.", "c.test.", "d.test."];
    want_by(&mut world, &[("team", names)]);
    let team = world.config.shared.namespaces.number("team");
    assert_eq!(reported.try_recv(), Ok(Notice::AtCap(team)));
    world.observe("d.test", "1.1.1.1");
    world.settle();
    let stored = world.addresses();
    assert!(stored.contains(&"d.test.".to_owned()), "{stored:?}");
    let status = world.publisher.status(&Query::all(), at(world.now));
    let mut problems = status.problems.listed.iter();
    assert!(problems.any(|it| it.code == "LimitExceeded" && it.subject == "d.test."));
    assert!(reported.try_recv().is_err());
    for last in 1..=5 {
        world.observe("a.test", &format!("192.0.2.{last}"));
    }
    world.settle();
    assert_eq!(reported.try_recv(), Ok(Notice::AtCap(team)));
    assert!(reported.try_recv().is_err(), "once in ten minutes");
}
