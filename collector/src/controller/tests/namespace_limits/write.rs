//! The changes of one namespace must not delay the writes of another.

use crate::controller::tests::namespace_limits::{Cluster, LIMITS};
use crate::{
    clients::tests::Pods,
    controller::tests::{answer, at},
    namespaces::NamespaceQuota,
    objects::{WriteCost, publish::Write},
};

const MODEST: &str = "www.modest.example.";

/// The waits of an object's writes in milliseconds, while names of another namespace change once a
/// second. The store takes 64 writes in a tenth of a second.
fn waits(greedy: usize, addresses: u8) -> Vec<i64> {
    let names = (0..greedy).map(|i| &*Box::leak(format!("a{i}.greedy.example").into_boxed_str()));
    let names: Vec<&'static str> = names.collect();
    let rules: [(_, &[_]); 2] = [("greedy", &names), ("modest", &[MODEST])];
    let mut cluster = Cluster::with(&rules, |config| {
        config.objects.rates.bytes = 200_000.0;
        config.namespace_limits = LIMITS;
        config.namespace_limits.addresses = 1_000_000;
        config.namespace_limits.each = NamespaceQuota {
            addresses: 1_000_000,
            names: 10_000,
        };
    });
    let world = &mut cluster.world;
    let mut waits = Vec::new();
    let mut since = None;
    for tenth in 0..600_i64 {
        for (i, name) in names
            .iter()
            .enumerate()
            .filter(|(i, _)| (*i as i64 + tenth) % 10 == 0)
        {
            let mut rotated = answer(name, "1.1.1.1", world.now);
            let ip = |j: u8| {
                [
                    (tenth % 200) as u8 + 1,
                    (i / 200) as u8 + 1,
                    (i % 200) as u8,
                    j,
                ]
            };
            rotated.addresses = (0..addresses).map(|j| (ip(j).into(), 5)).collect();
            world.controller.observe(&rotated);
        }
        if tenth > 300 && tenth % 50 == 0 {
            world.observe(MODEST, &format!("198.51.100.{}", tenth / 50));
            since = Some(world.now);
        }
        let writes = world.controller.writes(at(world.now));
        for write in &writes {
            let is_modest =
                matches!(write, Write::Status(object) if object.spec.name.starts_with("www"));
            waits.extend(since.take_if(|_| is_modest).map(|since| world.now - since));
            let outcome = world.carry_out(write);
            world
                .controller
                .written(&write.key(), write, outcome, at(world.now));
        }
        world.now += 100;
        world.controller.tick(at(world.now));
    }
    waits
}

#[test]
fn a_new_address_is_not_delayed_by_busy_names_of_another_namespace() {
    // About 3 kB each: many times the bytes of the budget.
    for (names, addresses) in [(1000, 5), (20, 100)] {
        assert_eq!(waits(names, addresses), [0; 5], "{names} of {addresses}");
    }
}

/// Pods of one namespace query ever new names under a wildcard for which these have a rule, and
/// stop after a minute. The other namespace stays within its share, and its own name is written at
/// once.
fn labels_cost_the_modest_nothing(with_rule: &[&'static str]) {
    let pods = Pods::of(&["greedy/a", "modest/a"]);
    let rules = |namespace: &'static str| {
        let is_with_rule = with_rule.contains(&namespace);
        let names = is_with_rule.then_some("*.w.example").into_iter();
        let own = (namespace == "modest").then_some(MODEST);
        (namespace, names.chain(own).collect::<Vec<_>>())
    };
    let [greedy, modest] = ["greedy", "modest"].map(rules);
    let rules: [(_, &[_]); 2] = [(greedy.0, &greedy.1), (modest.0, &modest.1)];
    let mut cluster = Cluster::with(&rules, |config| {
        config.objects.rates.bytes = 50_000.0;
        config.namespace_limits.addresses = 1_000_000;
        config.namespace_limits.each.addresses = 1_000_000;
        config.shared.clients = pods.clients.clone();
    });
    let numbers = pods.numbers(&["greedy", "modest"]);
    let [greedy, modest] = ["greedy/a", "modest/a"].map(|it| pods.address(it).to_string());
    let world = &mut cluster.world;
    let mut of_wildcard = [0, 0];
    for tenth in 0..1200_i64 {
        if tenth < 600 {
            let label = format!("n{tenth}.w.example");
            world.observe_as(&label, "192.0.2.1", Some(&greedy));
        }
        let asks = tenth % 50 == 0;
        if asks {
            world.observe_as(MODEST, &format!("198.51.100.{}", tenth / 50), Some(&modest));
        }
        let writes = world.controller.writes(at(world.now));
        let is_modest =
            |write: &Write| matches!(write, Write::Status(it) if it.spec.name == MODEST);
        assert_eq!(writes.iter().any(is_modest), asks, "{tenth}");
        of_wildcard[usize::from(tenth >= 600)] += writes.len() - usize::from(asks);
        let cost = WriteCost {
            payers: &[numbers[1]],
            bytes: 0,
            since: at(0),
        };
        let is_within = world
            .controller
            .objects
            .budget
            .waits_for_nothing(&cost, at(world.now));
        assert!(is_within, "{tenth}");
        for write in &writes {
            let outcome = world.carry_out(write);
            world
                .controller
                .written(&write.key(), write, outcome, at(world.now));
        }
        world.now += 100;
        world.controller.tick(at(world.now));
    }
    assert!(of_wildcard.iter().all(|it| *it > 10), "{of_wildcard:?}");
}

#[test]
fn names_found_by_pods_under_a_shared_wildcard_cost_the_pods_namespace() {
    labels_cost_the_modest_nothing(&["greedy", "modest"]);
}

#[test]
fn names_found_by_pods_without_a_rule_cost_the_wildcards_owner_nothing() {
    labels_cost_the_modest_nothing(&["modest"]);
}

#[test]
fn of_many_whose_pods_find_names_under_a_wildcard_each_may_pay() {
    let namespaces = (0..200).map(|i| &*format!("n{i:03}").leak());
    let namespaces: Vec<&'static str> = namespaces.collect();
    let all: Vec<String> = namespaces.iter().map(|it| format!("{it}/pod")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let pods = Pods::of(&all);
    let rules: Vec<(&'static str, &[&'static str])> = namespaces
        .iter()
        .map(|it| (*it, &["*.w.example", MODEST][..]))
        .collect();
    let mut cluster = Cluster::with(&rules, |config| {
        config.shared.clients = pods.clients.clone();
    });
    for (i, pod) in all.iter().enumerate() {
        let client = pods.address(pod).to_string();
        let label = format!("n{i}.w.example");
        cluster.world.observe_as(&label, "192.0.2.1", Some(&client));
    }
    for name in ["*.w.example.", MODEST] {
        let names = &mut cluster.world.controller.names;
        let entry = names.entries.get_mut(name).unwrap();
        assert_eq!(entry.payers(), pods.numbers(&namespaces));
    }
}
