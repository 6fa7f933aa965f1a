//! The planner beside a store in memory.

mod answers;
mod failures;
mod hostile;
mod random;
mod world;

use proto::api::DnsResolverStatus;
use runtime::store::Event;
use serde_json::json;

use self::world::{World, key};
use super::*;

#[test]
fn a_new_policy_waits_ten_seconds_for_answers_and_then_refuses_all() {
    let mut world = World::new();
    world.resolver(
        "a",
        json!({"domainList": ["one.example.com", "Two.Example.com."]}),
    );
    world.name("one.example.com.", &["192.0.2.1"]);
    world.run();
    assert_eq!(world.policy("a"), None);
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

const FIRST_ANSWERS_SECONDS: u64 = crate::resolver::FIRST_ANSWERS.as_secs();

#[test]
fn objects_are_written_at_once_when_each_name_is_answered() {
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
fn changes_within_a_second_go_together() {
    let mut world = World::ready(
        "a",
        json!({"domainList": ["one.example.com"]}),
        &["192.0.2.1"],
    );
    world.pass(5);
    let writes = world.writes;
    for last in 2..10 {
        world.name("one.example.com.", &[&format!("192.0.2.{last}")]);
        world.run();
    }
    // A policy and an IPMap: for the first change, and for all others.
    assert_eq!(world.writes - writes, 2);
    world.pass(1);
    assert_eq!(world.writes - writes, 4);
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.9"]);
}

#[test]
fn a_name_that_leaves_the_list_takes_its_own_addresses_out_at_once() {
    let list = json!({"domainList": ["one.example.com", "two.example.com"]});
    let mut world = World::ready("a", list, &["192.0.2.1"]);
    world.name("two.example.com.", &["192.0.2.1", "192.0.2.2"]);
    world.pass(5);
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.1", "192.0.2.2"]);
    // An unanswered name does not delay it.
    world.resolver(
        "a",
        json!({"domainList": ["one.example.com", "three.example.com"]}),
    );
    world.run();
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.1"]);
}

#[test]
fn after_a_restart_no_address_is_lost_while_a_name_is_unanswered() {
    let list = json!({"domainList": ["one.example.com", "two.example.com"]});
    let mut world = World::ready("a", list, &["192.0.2.1"]);
    world.name("two.example.com.", &["192.0.2.2"]);
    world.pass(5);
    // The objects come back from a backup without their statuses.
    world.silence("one.example.com.");
    world.restart();
    world.pass(30);
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.1", "192.0.2.2"]);
    let ips = |world: &World| world.map("a").data.unwrap().domains[0].ips.clone();
    assert_eq!(ips(&world), ["192.0.2.1/32"]);
    world.name("one.example.com.", &["192.0.2.7"]);
    world.run();
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.2", "192.0.2.7"]);
    assert_eq!(ips(&world), ["192.0.2.7/32"]);
}

#[test]
fn an_object_of_another_owner_is_left_alone_and_named() {
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
    assert_eq!(
        world.map("a").data.unwrap().domains[0].ips,
        ["192.0.2.1/32"]
    );
    world.delete_policy("a");
    world.pass(30);
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.1"]);
    assert!(world.status("a").ready);
}

#[test]
fn an_address_in_an_ip_map_never_reaches_a_policy() {
    let mut world = World::new();
    // A forged owner, with the uid of a DNSResolver to come.
    world.edit_map("a", "203.0.113.9/32");
    world.resolver(
        "a",
        json!({"domainList": ["one.example.com", "two.example.com"]}),
    );
    world.pass(30);
    world.name("one.example.com.", &["192.0.2.1"]);
    for _ in 0..5 {
        world.edit_map("a", "203.0.113.9/32");
        world.pass(10);
        assert_eq!(world.policy("a").unwrap(), ["192.0.2.1"]);
        assert_eq!(
            world.map("a").data.unwrap().domains[0].ips,
            ["192.0.2.1/32"]
        );
        world.restart();
    }
}

#[test]
fn changes_of_others_are_put_right_at_once_and_then_after_growing_pauses() {
    let mut world = World::ready(
        "a",
        json!({"domainList": ["one.example.com"]}),
        &["192.0.2.1"],
    );
    world.pass(5);
    let mut waits = Vec::new();
    for _ in 0..7 {
        world.open_policy("a");
        let mut seconds = 0;
        world.run();
        while world.policy("a").unwrap() != ["192.0.2.1"] {
            world.pass(1);
            seconds += 1;
        }
        waits.push(seconds);
        world.pass(2);
    }
    assert_eq!(waits, [0, 1, 2, 4, 8, 8, 8]);
    assert!(world.reasons().contains(&"OpenPolicyClosed"));
}

#[test]
fn a_deletion_that_is_told_before_the_result_of_a_write_is_put_right() {
    let list = json!({"domainList": ["one.example.com"]});
    let mut world = World::ready("a", list, &["192.0.2.1"]);
    world.pass(5);
    world.name("one.example.com.", &["192.0.2.2"]);
    let jobs = world.planner.next_jobs(16, world.now());
    let done: Vec<_> = jobs.into_iter().map(|job| world.carry_out(job)).collect();
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.2"]);
    world.delete_policy("a");
    for done in done {
        world.planner.finished(done, world.now());
    }
    world.pass(2);
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.2"]);
}

#[test]
fn another_kind_of_object_deletes_the_policy_and_says_so() {
    let mut world = World::ready(
        "a",
        json!({"domainList": ["one.example.com"]}),
        &["192.0.2.1"],
    );
    world.planner.set_api(SetApi::V3, world.now());
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
fn addresses_of_an_object_that_another_program_wrote_do_not_count() {
    let mut world = World::new();
    world.old_operator("a", &["192.0.2.50"]);
    world.resolver("a", json!({"domainList": ["one.example.com"]}));
    world.name("one.example.com.", &["192.0.2.1"]);
    world.run();
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.1"]);
}

/// The first addresses of 198.18.0.0/15.
fn addresses(count: u32) -> Vec<String> {
    let address = |i: u32| std::net::Ipv4Addr::from(0xc612_0000 + i).to_string();
    (0..count).map(address).collect()
}

#[test]
fn large_policy_that_changes_all_the_time_delays_no_small_one() {
    let mut world = World::new();
    let large = addresses(5_000);
    let texts: Vec<_> = large.iter().map(String::as_str).collect();
    world.name("large.example.com.", &texts);
    world.resolver("large", json!({"domainList": ["large.example.com"]}));
    world.pass(5);
    let before = world.writes;
    for i in 1..60 {
        world.name("large.example.com.", &texts[i..]);
        world.pass(1);
    }
    // The objects of 310 kB are written each 2.4 s, after the savings of ten seconds.
    let writes = (world.writes - before) / 2;
    assert!((25..35).contains(&writes), "{writes}");
    world.resolver("team-b/small", json!({"domainList": ["small.example.com"]}));
    world.name("small.example.com.", &["192.0.2.1"]);
    world.run();
    assert!(world.policy("team-b/small").is_some());
    world.pass(20);
    assert_eq!(world.policy("large").unwrap().len(), 5_000 - 59);
}

#[test]
fn addresses_beyond_5000_are_left_out_and_present_ones_stay() {
    let mut world = World::new();
    let all = addresses(5_002);
    let texts: Vec<_> = all.iter().map(String::as_str).collect();
    let list = ["*.example.org", "one.example.com"];
    world.resolver("a", json!({"domainList": list}));
    world.name("*.example.org.", &texts[..2]);
    world.name("one.example.com.", &texts[2..5_001]);
    world.run();
    let policy = |world: &World| world.policy("a").unwrap();
    let present = policy(&world);
    assert_eq!(present.len(), 5_000);
    let condition = world.condition("a", "LimitExceeded");
    assert!(
        condition.message.ends_with("*.example.org"),
        "{condition:?}"
    );
    assert_eq!(world.planner.totals().left_out_addresses, 1);
    world.name("one.example.com.", &texts[2..]);
    world.restart();
    world.pass(30);
    assert_eq!(policy(&world), present);
    assert_eq!(world.planner.totals().left_out_addresses, 2);
}

#[test]
fn a_name_without_an_object_is_told_from_one_without_an_answer() {
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
}

#[test]
fn a_resolver_whose_pods_cannot_reach_dns_is_named() {
    let mut world = World::ready(
        "a",
        json!({"domainList": ["one.example.com"]}),
        &["192.0.2.1"],
    );
    world.pass(5);
    assert_eq!(world.condition("a", "DNSBlocked").status, "True");
    world.foreign_policy("dns", Some(53));
    world.run();
    assert_eq!(world.condition("a", "DNSBlocked").status, "False");
}

#[test]
fn a_refused_write_is_told_and_tried_again() {
    let mut world = World::new();
    world.refuses = Output::ALL.into();
    world.resolver("a", json!({"domainList": ["one.example.com"]}));
    world.name("one.example.com.", &["192.0.2.1"]);
    world.run();
    assert_eq!(world.condition("a", "Written").reason, "Refused");
    world.refuses.clear();
    world.pass(60);
    assert!(world.status("a").ready);
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.1"]);
}

#[test]
fn a_standby_writes_nothing_and_a_new_leader_takes_over() {
    let mut world = World::ready(
        "a",
        json!({"domainList": ["one.example.com"]}),
        &["192.0.2.1"],
    );
    world.pass(5);
    let now = world.now();
    world.planner.set_leading(false, now);
    world.name("one.example.com.", &["192.0.2.2"]);
    world.pass(60);
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.1"]);
    let now = world.now();
    world.planner.set_leading(true, now);
    world.run();
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.2"]);
}

#[test]
fn objects_whose_resolver_is_gone_are_deleted_where_nothing_else_does_it() {
    let mut world = World::ready(
        "a",
        json!({"domainList": ["one.example.com"]}),
        &["192.0.2.1"],
    );
    world.foreign_policy("b", None);
    world.pass(5);
    world
        .planner
        .apply_resolvers(&Event::Deleted(key("a")), world.now());
    world.pass(5);
    assert_eq!(world.policy("a"), None);
    assert!(world.policy("b").is_some());
    assert_eq!(world.status("a"), DnsResolverStatus::default());
}

#[test]
fn a_deleted_status_does_not_end_the_wait_for_new_names() {
    let mut world = World::ready(
        "a",
        json!({"domainList": ["one.example.com"]}),
        &["192.0.2.1"],
    );
    world.resolver("b", json!({"domainList": ["two.example.com"]}));
    world.name("two.example.com.", &["192.0.2.2"]);
    world.pass(5);
    let list = ["one.example.com", "two.example.com", "three.example.com"];
    world.resolver("a", json!({"domainList": list}));
    world.delete_name("two.example.com.");
    world.pass(5);
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.1"]);
    world.name("three.example.com.", &["192.0.2.3"]);
    world.pass(1);
    assert_eq!(
        world.policy("a").unwrap(),
        ["192.0.2.1", "192.0.2.2", "192.0.2.3"]
    );
}
