//! The answers to administrators: why an address is in objects, which names have it, and whether all is as the statuses say.

use proto::facts::{Asked, ExplainedAddress, PoliciesExplained};
use serde_json::json;

use super::*;
use crate::plan::{Output, tests::world::World};

fn explain(world: &World, about: &str) -> PoliciesExplained {
    let asked = Asked::new(about, None);
    super::explain(&world.planner, &asked, world.now())
}

/// The kinds of the reasons, of the whole and of the DNSResolvers.
fn reasons(told: &PoliciesExplained) -> Vec<&str> {
    let of_resolvers = told.dns_resolvers.iter().flat_map(|it| &it.reasons);
    let all = told.reasons.iter().chain(of_resolvers);
    all.map(|reason| reason.code.as_str()).collect()
}

fn only(told: &PoliciesExplained) -> &ExplainedAddress {
    let [resolver] = &told.dns_resolvers[..] else {
        panic!("{told:?}");
    };
    let [address] = &resolver.addresses[..] else {
        panic!("{resolver:?}");
    };
    address
}

#[test]
fn address_has_the_objects_with_it() {
    let list = json!({"domainList": ["one.example.com", "*.example.org"]});
    let mut world = World::ready("a", list, &["192.0.2.1"]);
    world.foreign_policy("dns", Some(53));
    world.pass(30);
    let told = explain(&world, "192.0.2.1");
    assert!(told.is_there && told.is_wanted);
    assert_eq!(told.dns_resolvers[0].names, ["one.example.com"]);
    let address = only(&told);
    assert_eq!(
        address.objects,
        [Output::Policy, Output::Map].map(Output::name)
    );
    assert_eq!(address.reason, None);
    // By its name, in any case.
    let told = explain(&world, "One.example.COM");
    assert!(told.is_there && only(&told).address.to_string() == "192.0.2.1");
    // A name under a wildcard has those of the wildcard.
    world.name("*.example.org.", &["192.0.2.7"]);
    world.pass(5);
    let told = explain(&world, "x.example.org");
    assert_eq!(told.dns_resolvers[0].names, ["*.example.org"]);
    assert!(told.is_there && reasons(&told).is_empty(), "{told:?}");
}

#[test]
fn address_that_is_nowhere_has_a_reason() {
    let world = World::ready(
        "a",
        json!({"domainList": ["one.example.com"]}),
        &["192.0.2.1"],
    );
    for (about, expected) in [
        ("192.0.2.9", &["NoDNSResolver"][..]),
        ("two.example.com", &["NoDNSResolver"]),
        ("127.0.0.1", &["AddressRefused", "NoDNSResolver"]),
        ("a b", &["NotAName"]),
    ] {
        let told = explain(&world, about);
        assert!(!told.is_there && !told.is_wanted, "{about}");
        assert_eq!(reasons(&told), expected, "{about}");
    }
}

#[test]
fn objects_are_compared_with_the_statuses() {
    let list = json!({"domainList": ["one.example.com", "two.example.com"]});
    let mut world = World::ready("a", list, &["192.0.2.1"]);
    world.name("two.example.com.", &["192.0.2.2"]);
    world.pass(5);
    let same = |world: &World| compare(&world.planner, world.now()).is_same;
    assert!(same(&world));
    // Until it is written, and afterwards.
    world.name("one.example.com.", &["192.0.2.1", "192.0.2.5"]);
    world.name("two.example.com.", &[]);
    let compared = compare(&world.planner, world.now());
    let texts = |all: &[std::net::IpAddr]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
    let policy = &compared.differences[0];
    assert_eq!(texts(&policy.missing), ["192.0.2.5"]);
    // A status without a reason takes nothing out.
    assert!(policy.surplus.is_empty());
    world.pass(5);
    assert!(same(&world));
    // A rule without destinations.
    world.open_policy("a");
    assert_eq!(
        compare(&world.planner, world.now()).differences[0]
            .fault
            .as_deref(),
        Some("a rule without destinations allows everything")
    );
    world.pass(20);
    // After a start the objects keep their addresses until each name is answered.
    world.silence("one.example.com.");
    world.restart();
    world.pass(1);
    let compared = compare(&world.planner, world.now());
    assert!(compared.is_same, "{compared:?}");
    // A kind that cannot be read may have the object.
    world.unread.insert(Output::Policy);
    world.restart();
    let fault = &compare(&world.planner, world.now()).differences[0].fault;
    assert_eq!(fault.as_deref(), Some("objects of this kind are not read"));
}
