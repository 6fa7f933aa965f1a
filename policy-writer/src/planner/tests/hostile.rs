//! What a tenant can do to others: delay their statuses, or put addresses into their objects.

use serde_json::json;

use super::world::{World, key};

#[test]
fn statuses_are_written_in_turns() {
    let mut world = World::new();
    let list = json!({"domainList": ["one.example.com"]});
    for name in ["a", "b"] {
        world.resolver(name, list.clone());
    }
    world.name("one.example.com.", &["192.0.2.1"]);
    world.pass(20);
    // A new generation has to be in the status.
    let mut written = Vec::new();
    for _ in 0..2 {
        for name in ["a", "b"] {
            world.resolver(name, list.clone());
        }
        for job in world.planner.next_jobs(1, world.now()) {
            written.push(job.key.name.clone());
            let done = world.carry_out(job);
            world.planner.finished(done, world.now());
        }
    }
    written.sort_unstable();
    assert_eq!(written, ["a", "b"]);
}

#[test]
fn a_job_marks_the_other_statuses_of_its_namespace_only_for_dns() {
    let mut world = World::new();
    for name in ["a", "b"] {
        world.resolver(name, json!({"domainList": [format!("{name}.example.com")]}));
        world.name(&format!("{name}.example.com."), &["192.0.2.1"]);
    }
    world.pass(20);
    world.name("a.example.com.", &["192.0.2.2"]);
    for job in world.planner.next_jobs(16, world.now()) {
        let done = world.carry_out(job);
        world.planner.finished(done, world.now());
    }
    assert_eq!(world.planner.status_due, [key("a")].into());
    world.run();
    world.foreign_policy("dns", Some(53));
    assert_eq!(world.planner.status_due, [key("a"), key("b"),].into());
    world.run();
    world.foreign_policy("more", Some(53));
    assert_eq!(world.planner.status_due, [].into());
    world.foreign_policy("dns", Some(54));
    assert_eq!(world.planner.status_due, [].into());
    world.foreign_policy("more", Some(54));
    assert_eq!(world.planner.status_due, [key("a"), key("b")].into());
}

#[test]
fn a_set_adopts_no_addresses_of_a_policy() {
    let mut world = World::new();
    world.adopt_for(3_600);
    world.old_operator("a", &["192.0.2.50"]);
    let set = json!({"domainList": ["one.example.com"], "generateType": "CalicoNetworkSet"});
    world.resolver("a", set);
    world.name("one.example.com.", &["192.0.2.1"]);
    world.pass(20);
    assert_eq!(world.set("a").spec.nets, ["192.0.2.1/32"]);
}

#[test]
fn a_set_of_unanswered_names_begins_without_the_addresses_of_a_policy() {
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

#[test]
fn an_unknown_type_keeps_the_addresses_of_the_policy_after_a_restart() {
    let list = json!({"domainList": ["one.example.com"]});
    let mut world = World::ready("a", list, &["192.0.2.1"]);
    world.silence("one.example.com.");
    let unknown = json!({"domainList": ["one.example.com"], "generateType": "unknown"});
    world.resolver("a", unknown);
    world.restart();
    world.pass(20);
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.1"]);
}

#[test]
fn few_names_are_shown_and_only_of_a_resolver_with_faults() {
    let mut names: Vec<_> = (0..40).map(|i| format!("n{i}.example.com")).collect();
    let mut world = World::new();
    world.resolver("a", json!({"domainList": names}));
    for name in &names {
        world.name(&format!("{name}."), &["192.0.2.1"]);
    }
    world.foreign_policy("dns", Some(53));
    world.pass(20);
    assert!(world.planner.shown()[0].names.is_empty());
    names.push("late.example.com".to_owned());
    world.resolver("a", json!({"domainList": names}));
    world.pass(20);
    let shown = &world.planner.shown()[0];
    assert_eq!(shown.names.len(), 20);
    assert_eq!(shown.names[0].name, "late.example.com");
}
