//! What a namespace pays of a name that another one has on longer terms.

use std::{sync::Arc, time::Duration};

use super::{
    super::tests::{at, name},
    tests::Cluster,
};
use crate::{
    clients::tests::Pods,
    policy::{ShortestTerms, Terms},
};

/// What the namespaces `short` and `long` pay after an hour in which `shared.example.com` had a new address every two minutes, on terms of
/// `long` of its own.
fn paid(in_rules: &'static str, longer: fn(&mut Terms)) -> [usize; 2] {
    let pods = Pods::of(&["short/a", "long/a"]);
    let rules: [(_, &[_]); 2] = [("long", &[in_rules]), ("short", &[in_rules])];
    let mut cluster = Cluster::with(&rules, |config| {
        config.shared.clients = pods.clients.clone();
    });
    let [short, long] = ["short", "long"].map(|it| cluster.number(it));
    let mut wanted = cluster.wanted();
    let terms = wanted.names.get_mut(&name(in_rules)).unwrap();
    let shortest = ShortestTerms {
        terms: *terms,
        namespaces: [short].into(),
    };
    longer(terms);
    wanted.shortest.insert(name(in_rules), Arc::new(shortest));
    let world = &mut cluster.world;
    world.owner.want(&wanted, at(world.now));
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
    let charged = world.owner.charged(at(world.now));
    assert_eq!(charged.all, charged.of(long).addresses);
    [short, long].map(|it| charged.of(it).addresses)
}

#[test]
fn addresses_that_are_there_for_the_longer_terms_of_another_namespace_count_for_that_alone() {
    for in_rules in ["shared.example.com", "*.example.com"] {
        let retained = paid(in_rules, |it| it.retain = Duration::from_secs(24 * 3600));
        assert_eq!(retained, [1, 30], "{in_rules}");
        let graced = paid(in_rules, |it| it.grace = Duration::from_secs(1200));
        assert_eq!(graced, [1, 11], "{in_rules}");
        let raised = paid(in_rules, |it| it.min_ttl = Duration::from_secs(600));
        assert_eq!(raised, [1, 6], "{in_rules}");
        assert_eq!(paid(in_rules, |_| {}), [1, 1], "{in_rules}");
    }
}
