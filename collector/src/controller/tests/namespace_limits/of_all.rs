//! The limits of all namespaces together.

use std::{net::IpAddr, time::Duration};

use super::Cluster;
use crate::{
    controller::tests::{answer, at, name},
    rules::OwnRetention,
};

/// A client queries a name, and the answer has so many addresses, from number `first` on.
fn tell(cluster: &mut Cluster, client: Option<IpAddr>, asked: &str, first: usize, count: usize) {
    let world = &mut cluster.world;
    let mut observation = answer(asked, "1.1.1.1", world.now);
    let ip = |i: usize| IpAddr::from((0x0b00_0000 + (first + i) as u32).to_be_bytes());
    observation.addresses = (0..count).map(|i| (ip(i), 86_400)).collect();
    observation.client = client;
    world.controller.observe(&observation);
}

fn kept(cluster: &Cluster, spec: &str) -> usize {
    let entries = &cluster.world.controller.names.entries;
    entries[&name(spec)].memory.list().addresses()
}

/// Names under wildcards that no namespace pays for.
#[test]
fn unpaid_names_that_take_the_most_bytes_go_first() {
    let rules: [(&str, &[&str]); 2] = [("few", &["*.f.test."]), ("wild", &["*.w.test."])];
    let mut cluster = Cluster::with(&rules, |config| {
        config.namespace_limits.addresses = 10_000;
        config.namespace_limits.bytes = 73_000;
        config.namespace_limits.each.addresses = 1_000;
    });
    let node = Some([192, 0, 2, 1].into());
    for i in 0..2 {
        tell(&mut cluster, node, &format!("h{i}.f.test"), i * 100, 90);
    }
    for i in 0..60 {
        tell(&mut cluster, node, &format!("x{i}.w.test"), 1000 + i, 1);
    }
    cluster.pass(2);
    assert_eq!(kept(&cluster, "*.f.test."), 180);
    let wild = kept(&cluster, "*.w.test.");
    assert!((30..55).contains(&wild), "{wild}");
}

#[test]
fn namespaces_with_about_as_many_unpaid_names_lose_about_as_many() {
    let rules: [(&str, &[&str]); 3] = [
        ("a", &["*.a.test."]),
        ("b", &["*.b.test."]),
        ("c", &["*.c.test."]),
    ];
    let mut cluster = Cluster::with(&rules, |config| {
        config.namespace_limits.each.addresses = 100;
    });
    let node = Some([192, 0, 2, 1].into());
    for (place, (label, count)) in [("a", 40), ("b", 39), ("c", 39)].into_iter().enumerate() {
        for i in 0..count {
            let asked = format!("x{i}.{label}.test");
            tell(&mut cluster, node, &asked, 100 * place + i, 1);
        }
    }
    cluster.pass(2);
    let kept = ["*.a.test.", "*.b.test.", "*.c.test."].map(|it| kept(&cluster, it));
    assert!(kept.iter().all(|it| *it >= 33), "{kept:?}");
    assert_eq!(kept.iter().sum::<usize>(), 100, "{kept:?}");
}

#[test]
fn bytes_kept_for_another_namespaces_longer_terms_count_only_there() {
    let rules: [(&str, &[&str]); 2] = [
        ("long", &["s.test.", "l.test."]),
        ("short", &["s.test.", "x.test."]),
    ];
    let mut cluster = Cluster::with(&rules, |config| config.namespace_limits.bytes = 8_200);
    let mut wanted = cluster.wanted();
    let shared = name("s.test");
    let in_use = wanted.name_mut(&shared);
    let own = OwnRetention {
        policy: in_use.retention,
        namespaces: [cluster.number("short")].into(),
    };
    in_use.retention.retain = Duration::from_secs(24 * 3600);
    in_use.own_retention = [own].into();
    let world = &mut cluster.world;
    world.controller.want(&wanted.into(), at(world.now));
    for turn in 0..30 {
        world.observe_as("s.test", &format!("203.0.113.{turn}"), None);
        world.settle();
        world.now += 120_000;
    }
    tell(&mut cluster, None, "l.test", 0, 5);
    tell(&mut cluster, None, "x.test", 5, 10);
    cluster.pass(2);
    assert_eq!(cluster.stored(), ["l LimitExceeded", "s 30", "x 10"]);
}

#[test]
fn names_come_back_only_as_far_as_there_are_bytes() {
    let all: Vec<&str> = (0..30).map(|i| &*format!("n{i}.test.").leak()).collect();
    let mut cluster = Cluster::with(&[("greedy", &all)], |config| {
        config.namespace_limits.addresses = 10_000;
        config.namespace_limits.bytes = 100_000;
        config.namespace_limits.each.addresses = 1_000;
        config.namespace_limits.each.names = 100;
    });
    for (i, asked) in all.iter().enumerate() {
        tell(&mut cluster, None, asked, i * 100, 30);
    }
    cluster.pass(2);
    let left_out = |cluster: &Cluster| {
        let stored = cluster.stored();
        stored.iter().filter(|it| it.ends_with("Exceeded")).count()
    };
    let before = left_out(&cluster);
    assert!((12..15).contains(&before), "{before}");
    cluster.rules.insert("greedy", all[3..].to_vec());
    cluster.want();
    cluster.pass(2);
    cluster.pass(610);
    cluster.pass(2);
    let after = left_out(&cluster);
    assert!((before - 2..before).contains(&after), "{before} {after}");
}
