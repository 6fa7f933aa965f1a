//! The charge for a name that another namespace keeps for longer.

use std::time::Duration;

use crate::controller::tests::namespace_limits::Cluster;
use crate::{
    clients::tests::Pods,
    controller::tests::{at, name},
    objects::Charged,
    rules::{OwnRetention, RetentionPolicy},
};

/// The charges of the namespaces `short` and `long`, each with its own retention, after an hour. In
/// that hour `shared.example.com` had a new address every two minutes.
fn paid(
    in_rules: &'static str,
    shorter: fn(&mut RetentionPolicy),
    longer: fn(&mut RetentionPolicy),
) -> [usize; 2] {
    let pods = Pods::of(&["short/a", "long/a"]);
    let rules: [(_, &[_]); 2] = [("long", &[in_rules]), ("short", &[in_rules])];
    let mut cluster = Cluster::with(&rules, |config| {
        config.shared.clients = pods.clients.clone();
    });
    let numbers = ["short", "long"].map(|it| cluster.number(it));
    let mut wanted = cluster.wanted();
    let in_use = wanted.name_mut(&name(in_rules));
    let mut each = [in_use.retention; 2];
    shorter(&mut each[0]);
    longer(&mut each[1]);
    let longest = each[0].join(each[1]);
    in_use.retention = longest;
    let own = each.into_iter().zip(numbers);
    let own = own
        .filter(|(it, _)| *it != longest)
        .map(|(terms, number)| OwnRetention {
            policy: terms,
            namespaces: [number].into(),
        });
    in_use.own_retention = own.collect();
    let world = &mut cluster.world;
    world.controller.want(&wanted.into(), at(world.now));
    for turn in 0..30 {
        for pod in ["short/a", "long/a"] {
            let client = pods.address(pod).to_string();
            let ip = format!("203.0.113.{turn}");
            world.observe_as("shared.example.com", &ip, Some(&client));
        }
        world.settle();
        world.now += 120_000;
    }
    world.now -= 120_000;
    world.settle();
    let charged = Charged::new(&world.controller.names, at(world.now));
    let paid = numbers.map(|it| charged.of(it).addresses);
    assert_eq!(charged.all.addresses, paid[0].max(paid[1]));
    paid
}

const BOTH: [&str; 2] = ["shared.example.com", "*.example.com"];

#[test]
fn addresses_kept_for_another_namespaces_longer_terms_count_only_there() {
    for in_rules in BOTH {
        let paid = |longer| paid(in_rules, |_| {}, longer);
        let retained = paid(|it| it.retain = Duration::from_secs(24 * 3600));
        assert_eq!(retained, [1, 30], "{in_rules}");
        let graced = paid(|it| it.grace = Duration::from_secs(1200));
        assert_eq!(graced, [1, 11], "{in_rules}");
        let raised = paid(|it| it.min_ttl = Duration::from_secs(600));
        assert_eq!(raised, [1, 6], "{in_rules}");
        assert_eq!(paid(|_| {}), [1, 1], "{in_rules}");
    }
}

#[test]
fn each_namespace_pays_for_its_own_terms_when_each_asks_for_more() {
    for in_rules in BOTH {
        let paid = paid(
            in_rules,
            |it| it.grace = Duration::from_secs(300),
            |it| {
                it.retain = Duration::from_secs(24 * 3600);
                it.grace = Duration::ZERO;
            },
        );
        assert_eq!(paid, [3, 30], "{in_rules}");
    }
}
