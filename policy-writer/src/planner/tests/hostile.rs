//! What a tenant can do to others: delay their statuses, or put addresses into their objects.

use std::{collections::BTreeSet, time::Duration};

use runtime::store::ObjectKey;
use serde_json::json;

use super::world::{World, key};

/// The resolvers whose status is compared next.
fn due(world: &World) -> BTreeSet<ObjectKey> {
    world.planner.schedule.status_due.keys().cloned().collect()
}

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
    assert_eq!(due(&world), [key("a")].into());
    world.run();
    world.foreign_policy("dns", Some(53));
    assert_eq!(due(&world), [key("a"), key("b")].into());
    world.run();
    world.foreign_policy("more", Some(53));
    assert_eq!(due(&world), [].into());
    world.foreign_policy("dns", Some(54));
    assert_eq!(due(&world), [].into());
    world.foreign_policy("more", Some(54));
    assert_eq!(due(&world), [key("a"), key("b")].into());
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
    assert!(world.planner.shown().0[0].names.is_empty());
    names.push("late.example.com".to_owned());
    world.resolver("a", json!({"domainList": names}));
    world.pass(20);
    let shown = &world.planner.shown().0[0];
    assert_eq!(shown.names.len(), 20);
    assert_eq!(shown.names[0].name, "late.example.com");
}

#[test]
fn the_resolvers_of_a_tenant_with_many_hide_no_fault_of_others() {
    let mut world = World::new();
    for i in 0..1_010 {
        world.resolver(&format!("team-0/r{i:04}"), json!({"domainList": []}));
    }
    world.resolver("b", json!({"domainList": ["one.example.com"]}));
    let taken = json!({
        "type": "NameTaken", "status": "True", "reason": "OtherController", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    for resolver in world.planner.state.resolvers.values_mut() {
        resolver.status.conditions = vec![serde_json::from_value(taken.clone()).unwrap()];
    }
    let (shown, more) = world.planner.shown();
    let names: Vec<_> = shown.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names[..3], ["r0000", "b", "r0001"]);
    assert_eq!((names.len(), more), (1_000, 11));
    // Those without faults come last, and are not counted.
    for (key, resolver) in &mut world.planner.state.resolvers {
        if key.namespace == "team-0" {
            resolver.status.conditions.clear();
        }
    }
    let (shown, more) = world.planner.shown();
    assert_eq!((shown[0].name.as_str(), shown.len(), more), ("b", 1_000, 0));
}

#[test]
fn a_status_that_a_tenant_changes_all_the_time_costs_few_writes() {
    let list = json!({"domainList": ["one.example.com"]});
    let mut world = World::ready("a", list, &["192.0.2.1"]);
    world.pass(700);
    let before = world.status_writes;
    for i in 0..1_000 {
        // Every other change is not known before the write.
        world.spoil_status("a", i % 2 == 0);
        world.pass_for(Duration::from_millis(100));
    }
    let attempts = world.status_writes - before;
    assert!((4..12).contains(&attempts), "{attempts}");
    world.spoil_status("a", true);
    world.pass(61);
    assert!(world.status("a").ready);
}

#[test]
fn a_policy_of_the_same_name_that_comes_and_goes_costs_few_writes() {
    let list = json!({"domainList": ["one.example.com"]});
    let mut world = World::ready("a", list, &["192.0.2.1"]);
    world.pass(5);
    let before = world.writes;
    for _ in 0..600 {
        world.delete_policy("a");
        world.run();
        world.foreign_policy("a", None);
        world.pass_for(Duration::from_millis(100));
    }
    let writes = world.writes - before;
    assert!(writes < 20, "{writes}");
    // The IPMap is not held up.
    world.name("one.example.com.", &["192.0.2.2"]);
    world.pass(1);
    let ips = world.map("a").data.unwrap().domains[0].ips.clone();
    assert_eq!(ips, ["192.0.2.2/32"]);
    world.delete_policy("a");
    world.pass(10);
    assert_eq!(world.policy("a").unwrap(), ["192.0.2.2"]);
}

#[test]
fn jobs_of_one_namespace_leave_places_to_others() {
    let mut world = World::new();
    world.name("one.example.com.", &["192.0.2.1"]);
    for i in 0..40 {
        world.resolver(&format!("a{i}"), json!({"domainList": ["one.example.com"]}));
    }
    // None of them ends.
    let jobs = world.planner.next_jobs(16, world.now());
    assert_eq!(jobs.len(), 4);
    assert_eq!(world.planner.next_timer(world.now()), None);
    world.resolver("team-b/b", json!({"domainList": ["one.example.com"]}));
    let jobs = world.planner.next_jobs(12, world.now());
    let begun: Vec<_> = jobs.iter().map(|job| job.key.to_string()).collect();
    assert_eq!(begun, ["team-b/b"]);
}
