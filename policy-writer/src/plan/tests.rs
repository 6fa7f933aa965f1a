//! The planner beside a store in memory.

mod failures;
mod random;
pub(crate) mod world;

use serde_json::json;

use self::world::World;
use super::*;
use crate::facts;

#[test]
fn new_policy_waits_for_answers_and_then_refuses_all() {
    let mut world = World::new();
    world.resolver(
        "a",
        json!({"domainList": ["one.example.com", "Two.Example.com."]}),
    );
    world.name("one.example.com.", &["192.0.2.1"]);
    world.run();
    assert_eq!((world.policy("a"), world.reasons()), (None, vec![]));
    world.pass(FIRST_ANSWERS_SECONDS);
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.1"]);
    let mut world = World::new();
    world.resolver("a", json!({"domainList": ["one.example.com"]}));
    world.pass(FIRST_ANSWERS_SECONDS);
    assert_eq!(world.policy("a").unwrap(), [""; 0]);
    world.name("one.example.com.", &["192.0.2.1"]);
    world.pass(1);
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.1"]);
}

const FIRST_ANSWERS_SECONDS: u64 = resolver::FIRST_ANSWERS.as_secs();

#[test]
fn objects_are_written_once_each_name_is_answered() {
    let mut world = World::new();
    world.resolver(
        "a",
        json!({"domainList": ["One.Example.com", "*.example.org", "bad_name"]}),
    );
    world.name("one.example.com.", &["192.0.2.1"]);
    world.name("*.example.org.", &["192.0.2.1", "2001:db8::1"]);
    world.run();
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.1", "2001:db8::1"]);
    let map = world.map("a");
    let expected = json!({"domains": [
        {"name": "One.Example.com", "ips": ["192.0.2.1/32"]},
        {"name": "*.example.org", "ips": ["192.0.2.1/32", "2001:db8::1/128"]},
        {"name": "bad_name", "ips": []},
    ]});
    assert_eq!(serde_json::to_value(&map.data).unwrap(), expected);
    assert_eq!(map.metadata.labels.unwrap()["team"], "blue");
    let owner = &map.metadata.owner_references.unwrap()[0];
    assert_eq!(
        (owner.controller, owner.block_owner_deletion),
        (Some(true), Some(true))
    );
    let status = world.status("a");
    assert!(status.ready, "{status:?}");
    assert_eq!(world.condition("a", "Resolved").reason, "InvalidNames");
    // Nothing changes, so nothing is written.
    let writes = world.writes;
    world.pass(3_600);
    world.name("one.example.com.", &["192.0.2.1"]);
    world.pass(60);
    assert_eq!(world.writes, writes);
}

#[test]
fn object_of_another_owner_is_left_alone_and_named() {
    let mut world = World::new();
    world.foreign_policy("a", None);
    world.resolver("a", json!({"domainList": ["one.example.com"]}));
    world.name("one.example.com.", &["192.0.2.1"]);
    world.pass(30);
    assert_eq!(world.policy("a").unwrap(), ["198.51.100.1"]);
    let condition = world.condition("a", "NameTaken");
    assert!(
        condition.status == "True" && condition.message.ends_with("NetworkPolicy"),
        "{condition:?}"
    );
    assert!(!world.status("a").ready);
    assert!(world.reasons().contains(&"NameTaken"));
    assert_eq!(
        world.map("a").data.unwrap().domains[0].ips,
        ["192.0.2.1/32"]
    );
    let since = |world: &World, kind| world.condition("a", kind).last_transition_time;
    let before = ["NameTaken", "LimitExceeded"].map(|kind| since(&world, kind));
    world.delete_policy("a");
    world.pass(30);
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.1"]);
    assert!(world.status("a").ready);
    assert!(since(&world, "NameTaken") > before[0]);
    assert_eq!(since(&world, "LimitExceeded"), before[1]);
}

#[test]
fn foreign_change_is_put_right_at_most_once_a_second() {
    let list = json!({"domainList": ["one.example.com"]});
    let mut world = World::ready("a", list, &["192.0.2.1"]);
    world.pass(5);
    let before = world.writes;
    world.open_policy("a");
    world.run();
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.1"]);
    assert!(world.reasons().contains(&"OpenPolicyClosed"));
    assert_eq!(world.finalizers("a"), ["example.com/keep"]);
    for _ in 0..100 {
        world.open_policy("a");
        world.pass_for(Duration::from_millis(100));
    }
    let writes = world.writes - before;
    assert!((10..13).contains(&writes), "{writes}");
    let undone = facts::totals(&world.planner).undone;
    assert_eq!(undone, u64::try_from(writes).unwrap());
    world.pass(1);
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.1"]);
    // A policy of the same name that comes and goes delays no IPMap.
    world.delete_policy("a");
    world.foreign_policy("a", None);
    world.name("one.example.com.", &["192.0.2.2"]);
    world.pass(2);
    let ips = world.map("a").data.unwrap().domains[0].ips.clone();
    assert_eq!(ips, ["192.0.2.2/32"]);
}

#[test]
fn other_kind_deletes_the_policy_with_an_event() {
    let mut world = World::ready(
        "a",
        json!({"domainList": ["one.example.com"]}),
        &["192.0.2.1"],
    );
    world.resolver(
        "a",
        json!({"domainList": ["one.example.com"], "generateType": "unknown"}),
    );
    world.pass(20);
    // A slip of the pen opens nothing.
    assert!(world.policy("a").is_some());
    assert_eq!(
        world.condition("a", "Written").reason,
        "UnknownGenerateType"
    );
    world.resolver(
        "a",
        json!({"domainList": ["one.example.com"], "generateType": "CalicoNetworkSet"}),
    );
    world.pass(20);
    assert_eq!(world.policy("a"), None);
    assert!(world.reasons().contains(&"PolicyRemoved"));
    let set = world.set("a");
    assert_eq!(set.spec.nets, ["192.0.2.1/32"]);
    let labels: Vec<_> = set
        .metadata
        .labels
        .unwrap_or_default()
        .into_keys()
        .collect();
    assert_eq!(labels, ["egress.example.com/set"]);
}

#[test]
fn namespace_that_writes_much_delays_no_other() {
    let mut world = World::new();
    let label = "a".repeat(60);
    let name = |i: usize| format!("{label}.{label}.{label}.n{i}.example.com");
    // Forty IPMaps of 100 kB, five times: twice the savings of ten seconds.
    for first in 0..5 {
        for i in 0..40 {
            let names: Vec<_> = (first..first + 500).map(name).collect();
            let list = json!({"domainList": names, "generateType": "IPMap"});
            world.resolver(&format!("large-{i}"), list);
        }
        world.pass(if first == 0 { 40 } else { 1 });
    }
    let before = world.writes;
    world.name("small.example.com.", &["192.0.2.1"]);
    world.resolver("team-b/small", json!({"domainList": ["small.example.com"]}));
    world.pass(1);
    assert!(world.policy("team-b/small").is_some());
    let writes = world.writes - before;
    assert!((10..16).contains(&writes), "{writes}");
    world.pass(60);
    let last = world.map("large-39").data.unwrap().domains.pop();
    assert_eq!(last.unwrap().name, name(503));
}

#[test]
fn name_without_an_object_differs_from_one_without_answer() {
    let mut world = World::new();
    let list = ["one.example.com", "two.example.com"];
    world.resolver("a", json!({"domainList": list}));
    world.silence("two.example.com.");
    world.pass(20);
    let condition = world.condition("a", "Resolved");
    assert_eq!(condition.reason, "NoDNSNameResolver");
    let parts: Vec<_> = condition.message.split("; ").collect();
    assert_eq!(parts[0], "no answer yet: two.example.com");
    assert!(parts[1].ends_with(": one.example.com"), "{parts:?}");
    world.silence("one.example.com.");
    world.pass(20);
    assert_eq!(world.condition("a", "Resolved").reason, "Waiting");
    for name in ["one.example.com.", "two.example.com."] {
        let status = random::failing(name, "AnswerRefused", "answer refused (unspecified)");
        world.put_name(name, status);
    }
    world.pass(20);
    let condition = world.condition("a", "Resolved");
    assert_eq!(condition.reason, "AnswersRefused");
    assert_eq!(
        condition.message,
        "answer refused (unspecified): one.example.com, two.example.com"
    );
}

#[test]
fn standby_writes_nothing_and_a_new_leader_takes_over() {
    let mut world = World::ready(
        "a",
        json!({"domainList": ["one.example.com"]}),
        &["192.0.2.1"],
    );
    world.pass(5);
    let now = world.now();
    world.planner.set_leading(false, now);
    world.name("one.example.com.", &["192.0.2.2"]);
    let writes = (world.writes, world.status_writes);
    world.pass(60);
    assert_eq!((world.writes, world.status_writes), writes);
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.1"]);
    let now = world.now();
    world.planner.set_leading(true, now);
    world.run();
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.2"]);
}

#[test]
fn set_of_unanswered_names_has_no_address_of_a_policy() {
    let list = json!({"domainList": ["one.example.com"]});
    let mut world = World::ready("a", list, &["192.0.2.1"]);
    world.silence("one.example.com.");
    let set = json!({"domainList": ["one.example.com"], "generateType": "CalicoNetworkSet"});
    world.resolver("a", set.clone());
    world.restart();
    world.pass(20);
    assert_eq!(world.set("a").spec.nets, [""; 0]);
    // The addresses of the set itself stay.
    world.name("one.example.com.", &["192.0.2.1"]);
    world.pass(5);
    world.silence("one.example.com.");
    world.restart();
    world.pass(20);
    assert_eq!(world.set("a").spec.nets, ["192.0.2.1/32"]);
}
