//! Faults of the cluster: a restored etcd, kinds that cannot be read, refused writes.

use serde_json::json;

use super::{super::*, world::World};

fn ips(world: &World, name: &str) -> Vec<String> {
    world.map(name).data.unwrap().domains[0].ips.clone()
}

#[test]
fn restore_of_etcd_makes_lower_versions_count() {
    let mut world = World::ready(
        "a",
        json!({"domainList": ["one.example.com"]}),
        &["192.0.2.1"],
    );
    world.pass(5);
    let backup = world.back_up();
    for last in 2..6 {
        world.name("one.example.com.", &[&format!("192.0.2.{last}")]);
        world.pass(2);
    }
    world.restore(backup);
    world.pass(2);
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.5"]);
    world.name("one.example.com.", &["192.0.2.9"]);
    world.pass(2);
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.9"]);
    assert_eq!(ips(&world, "a"), ["192.0.2.9/32"]);
}

#[test]
fn kind_that_cannot_be_read_stops_no_other() {
    let mut world = World::new();
    world.unread = [Output::Map, Output::Set].into();
    world.restart();
    world.resolver("a", json!({"domainList": ["one.example.com"]}));
    world.resolver(
        "b",
        json!({"domainList": ["one.example.com"], "generateType": "CalicoNetworkSet"}),
    );
    world.name("one.example.com.", &["192.0.2.1"]);
    world.run();
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.1"]);
    for (name, kinds) in [("a", "IPMap,"), ("b", "NetworkSet and IPMap,")] {
        let condition = world.condition(name, "Written");
        assert_eq!(condition.reason, "KindUnreadable");
        assert!(condition.message.contains(kinds), "{condition:?}");
        assert!(!world.status(name).ready);
    }
    let unread = world.planner.unread();
    assert_eq!(unread[0], "IPMap objects cannot be read: not served");
    assert!(unread.len() == 2 && unread[1].starts_with("NetworkSet"));
    // A change does not wait for the other kinds.
    world.pass(5);
    world.name("one.example.com.", &["192.0.2.2"]);
    world.run();
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.2"]);

    world.unread.clear();
    world.list(Output::Map);
    world.list(Output::Set);
    world.pass(2);
    assert_eq!(ips(&world, "a"), ["192.0.2.2/32"]);
    assert_eq!(world.set("b").spec.nets, ["192.0.2.2/32"]);
    assert!(world.status("a").ready && world.status("b").ready);
}

#[test]
fn policy_stays_until_each_wanted_object_is_there() {
    let list = json!({"domainList": ["one.example.com"]});
    let set = json!({"domainList": ["one.example.com"], "generateType": "CalicoNetworkSet"});
    let mut world = World::ready("a", list.clone(), &["192.0.2.1"]);
    world.pass(5);
    // The set is refused.
    world.refuses = [Output::Set].into();
    world.resolver("a", set.clone());
    world.pass(90);
    assert!(world.policy("a").is_some());
    assert!(!world.reasons().contains(&"PolicyRemoved"));
    world.refuses.clear();
    world.pass(60);
    assert_eq!(world.policy("a"), None);
    assert!(world.reasons().contains(&"PolicyRemoved"));

    // Its name is taken, or sets cannot be read.
    world.foreign_set("b");
    world.resolver("b", list.clone());
    world.pass(5);
    world.resolver("b", set.clone());
    world.pass(60);
    assert!(world.policy("b").is_some());
    world.resolver("c", list);
    world.pass(5);
    let now = world.now();
    world.planner.reset_sets(false, now);
    world.resolver("c", set);
    world.pass(60);
    assert!(world.policy("c").is_some());
}

#[test]
fn kind_that_is_refused_delays_no_other() {
    let mut world = World::new();
    world.refuses = [Output::Policy].into();
    world.resolver("a", json!({"domainList": ["one.example.com"]}));
    world.name("one.example.com.", &["192.0.2.1"]);
    // By now the pauses are half a minute.
    world.pass(70);
    for last in 2..6 {
        let address = format!("192.0.2.{last}");
        world.name("one.example.com.", &[&address]);
        world.pass(1);
        assert_eq!(ips(&world, "a"), [format!("{address}/32")]);
    }
    assert_eq!(world.condition("a", "Written").reason, "Refused");
    // A write that is no longer asked for is no fault.
    world.resolver(
        "a",
        json!({"domainList": ["one.example.com"], "generateType": "IPMap"}),
    );
    world.pass(20);
    assert!(world.status("a").ready, "{:?}", world.status("a"));
}

#[test]
fn absent_resolvers_delete_no_policy() {
    let list = json!({"domainList": ["one.example.com"]});
    let mut world = World::ready("a", list, &["192.0.2.1"]);
    // The folder is not mounted.
    world.restart_without_resolvers();
    world.pass(60);
    assert!(world.policy("a").is_some());
}
