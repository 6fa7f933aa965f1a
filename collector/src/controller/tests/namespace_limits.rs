//! The quotas of namespaces, in the controller.

mod of_all;
mod terms;
mod turns;
mod wildcard;
mod write;

use std::{collections::BTreeMap, net::IpAddr};

use super::{super::Config, World, answer, at, name, wanted};
use crate::{
    clients::Namespace,
    namespaces::{NamespaceQuota, NamespaceQuotas},
    notices::Notices,
    objects::{ManageObjects, NamespaceLimits},
    rules::{Source, Wanted},
};

pub(super) const LIMITS: NamespaceLimits = NamespaceLimits {
    addresses: 100,
    bytes: 1_000_000,
    each: EACH,
    policy: EACH,
};

const EACH: NamespaceQuota = NamespaceQuota {
    addresses: 40,
    names: 6,
};

pub(super) struct Cluster {
    pub(super) world: World,
    /// The names of each namespace in the order of its rules.
    pub(super) rules: BTreeMap<&'static str, Vec<&'static str>>,
}

impl Cluster {
    fn new(rules: &[(&'static str, &[&'static str])]) -> Self {
        Self::with(rules, |_| {})
    }

    pub(super) fn with(
        rules: &[(&'static str, &[&'static str])],
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let world = World::with(ManageObjects::Auto, |config| {
            config.namespace_limits = LIMITS;
            change(config);
        });
        let rules = rules
            .iter()
            .map(|(namespace, names)| (*namespace, names.to_vec()));
        let mut cluster = Self {
            world,
            rules: rules.collect(),
        };
        cluster.want();
        cluster
    }

    pub(super) fn number(&self, namespace: &str) -> Namespace {
        self.world.config.shared.clients.number(namespace)
    }

    pub(super) fn want(&mut self) {
        let wanted = self.wanted();
        self.world
            .controller
            .want(&wanted.into(), at(self.world.now));
        self.world.settle();
    }

    /// The names in use by these rules.
    pub(super) fn wanted(&self) -> Wanted {
        let names: Vec<&str> = self.rules.values().flatten().copied().collect();
        let mut wanted = wanted(&names, 0);
        for (namespace, names) in &self.rules {
            let number = self.number(namespace);
            for text in names {
                let with_rule = &mut wanted.name_mut(&name(text)).namespaces;
                let mut all = with_rule.to_vec();
                all.push(number);
                all.sort_unstable();
                *with_rule = all.into();
            }
            let order = names.iter().rev().map(|text| name(text));
            wanted.order.insert(number, order.collect());
        }
        wanted
    }

    /// An answer with so many addresses.
    fn answer(&mut self, asked: &str, count: u8) {
        let mut observation = answer(asked, "1.1.1.1", self.world.now);
        let own = asked.as_bytes()[0];
        let ip = |i| IpAddr::from([203, 0, own, i]);
        observation.addresses = (0..count).map(|i| (ip(i), 86_400)).collect();
        self.world.controller.observe(&observation);
    }

    pub(super) fn pass(&mut self, seconds: i64) {
        self.world.now += seconds * 1000;
        self.world.settle();
    }

    /// The number of addresses in each object of the store, or the reason for having none.
    pub(super) fn stored(&self) -> Vec<String> {
        let objects = self.world.store.values().map(|object| {
            let entries = object.status.iter().flat_map(|it| &it.resolved_names);
            let count: usize = entries.clone().map(|it| it.resolved_addresses.len()).sum();
            let conditions = entries.flat_map(|entry| &entry.conditions);
            let mut reasons = conditions.filter(|it| it.status == "True");
            let label = object.spec.name.split('.').next().unwrap();
            match (reasons.next(), count) {
                (Some(condition), 0) => format!("{label} {}", condition.reason),
                (Some(condition), count) => format!("{label} {} {count}", condition.reason),
                (None, count) => format!("{label} {count}"),
            }
        });
        let mut stored: Vec<_> = objects.collect();
        stored.sort();
        stored
    }
}

#[test]
fn over_the_address_limit_a_namespace_loses_its_last_names_first() {
    let mut cluster = Cluster::new(&[
        ("greedy", &["a.test.", "b.test.", "c.test.", "d.test."]),
        ("honest", &["x.test."]),
    ]);
    for asked in ["a.test", "b.test", "c.test", "d.test"] {
        cluster.answer(asked, 15);
    }
    cluster.answer("x.test", 30);
    cluster.pass(2);
    let expected = ["a 15", "b 15", "c LimitExceeded", "d LimitExceeded", "x 30"];
    assert_eq!(cluster.stored(), expected);
    // Answers for left-out names are ignored.
    cluster.answer("d.test", 15);
    cluster.pass(60);
    assert_eq!(cluster.stored(), expected);
    // With 30 of 40 there is no room for 15 more, and the result stays stable.
    cluster.pass(3600);
    assert_eq!(cluster.stored(), expected);
}

#[test]
fn a_name_paid_by_another_namespace_stays_and_displaces_no_name() {
    let mut cluster = Cluster::new(&[
        ("greedy", &["a.test.", "b.test.", "c.test.", "s.test."]),
        ("honest", &["s.test."]),
    ]);
    for asked in ["a.test", "b.test", "c.test", "s.test"] {
        cluster.answer(asked, 15);
    }
    cluster.pass(2);
    let expected = ["a 15", "b 15", "c LimitExceeded", "s 15"];
    assert_eq!(cluster.stored(), expected);
    // There is no room for the left-out name, and the result stays stable.
    cluster.pass(3600);
    cluster.answer("c.test", 15);
    cluster.pass(3600);
    assert_eq!(cluster.stored(), expected);
    // Another namespace uses the left-out name.
    cluster.rules.get_mut("honest").unwrap().push("c.test.");
    cluster.want();
    cluster.pass(2);
    cluster.answer("c.test", 15);
    cluster.pass(3600);
    assert_eq!(cluster.stored(), ["a 15", "b 15", "c 15", "s 15"]);
}

#[test]
fn names_that_two_namespaces_with_too_much_share_are_left_out() {
    let names = ["a.test.", "b.test.", "c.test."];
    let mut cluster = Cluster::new(&[("one", &names), ("two", &names)]);
    for asked in names {
        cluster.answer(asked, 15);
    }
    cluster.pass(2);
    assert_eq!(cluster.stored(), ["a 15", "b 15", "c LimitExceeded"]);
}

#[test]
fn a_namespace_has_so_many_names() {
    let names = [
        "a.test.", "b.test.", "c.test.", "d.test.", "e.test.", "f.test.", "g.test.",
    ];
    let mut cluster = Cluster::new(&[("greedy", &names)]);
    for asked in names {
        cluster.answer(asked, 1);
    }
    cluster.pass(2);
    let stored = cluster.stored();
    assert_eq!(stored[5..], ["f 1", "g LimitExceeded"], "{stored:?}");
}

#[test]
fn when_all_together_have_too_much_who_has_most_gives_way() {
    let mut cluster = Cluster::new(&[
        ("one", &["a.test.", "b.test."]),
        ("two", &["c.test.", "d.test."]),
        ("three", &["e.test."]),
        ("most", &["f.test.", "g.test."]),
    ]);
    for (asked, count) in [
        ("a", 15),
        ("b", 15),
        ("c", 15),
        ("d", 15),
        ("e", 10),
        ("f", 20),
        ("g", 15),
    ] {
        cluster.answer(&format!("{asked}.test"), count);
    }
    cluster.pass(2);
    let expected = [
        "a 15",
        "b 15",
        "c 15",
        "d 15",
        "e 10",
        "f 20",
        "g LimitExceeded",
    ];
    assert_eq!(cluster.stored(), expected);
}

#[test]
fn a_namespace_with_little_more_than_others_loses_little_more_than_they() {
    let names = |label: &'static str, count| {
        let names = (0..count).map(move |i| &*format!("{label}{i}.test.").leak());
        names.collect::<Vec<&'static str>>()
    };
    let of = [("a", 6), ("b", 6), ("c", 6), ("x", 7)].map(|(it, count)| (it, names(it, count)));
    let rules = of.each_ref().map(|(it, names)| (*it, &**names));
    let mut cluster = Cluster::with(&rules, |config| config.namespace_limits.each.names = 100);
    for name in of.iter().flat_map(|(_, names)| names) {
        cluster.answer(name, 5);
    }
    cluster.pass(2);
    // 125 where the limit is 100.
    let stored = cluster.stored();
    for (namespace, _) in &of {
        let own = stored.iter().filter(|it| it.starts_with(namespace));
        let kept = own.filter(|it| it.ends_with(" 5"));
        assert_eq!(kept.count(), 5, "{namespace} of {stored:?}");
    }
}

#[test]
fn what_nobody_with_a_rule_asked_for_goes_before_the_names_of_namespaces() {
    let mut cluster = Cluster::new(&[
        ("honest", &["a.test.", "b.test."]),
        ("wild", &["*.w.test.", "c.test."]),
    ]);
    for (asked, count) in [("a", 15), ("b", 15), ("c", 15)] {
        cluster.answer(&format!("{asked}.test"), count);
    }
    for found in 1..=8 {
        cluster.answer(&format!("{found}.w.test"), 10);
    }
    cluster.pass(2);
    // Names are left out one after the other, until it is enough.
    assert_eq!(cluster.stored(), ["* 50", "a 15", "b 15", "c 15"]);
}

#[test]
fn another_leader_goes_on_with_what_is_left_out() {
    let mut cluster = Cluster::new(&[("greedy", &["a.test.", "b.test.", "c.test."])]);
    for asked in ["a.test", "b.test", "c.test"] {
        cluster.answer(asked, 15);
    }
    cluster.pass(2);
    let expected = ["a 15", "b 15", "c LimitExceeded"];
    assert_eq!(cluster.stored(), expected);
    let mut next = Cluster::new(&[]);
    next.world.now = cluster.world.now;
    next.world.controller.lead(false, at(next.world.now));
    next.world.store = std::mem::take(&mut cluster.world.store);
    next.rules = cluster.rules;
    let objects = next.world.store.values().cloned().collect();
    let synced = runtime::store::Event::Synced(objects);
    next.world
        .controller
        .event(Source::EgressFirewall, synced, at(next.world.now));
    next.want();
    next.world.controller.lead(true, at(next.world.now));
    next.pass(10);
    next.answer("c.test", 15);
    next.pass(10);
    assert_eq!(next.stored(), expected);
}

#[test]
fn an_annotation_raises_and_lowers_what_a_namespace_may_have() {
    let mut cluster = Cluster::new(&[("greedy", &["a.test.", "b.test.", "c.test."])]);
    let quotas = cluster.world.config.shared.quotas.clone();
    let greedy = cluster.number("greedy");
    let quota = |addresses| {
        Some(NamespaceQuota {
            addresses,
            names: 6,
        })
    };
    let answer = |cluster: &mut Cluster| {
        for asked in ["a.test", "b.test", "c.test"] {
            cluster.answer(asked, 15);
        }
        cluster.pass(2);
    };
    answer(&mut cluster);
    assert_eq!(cluster.stored(), ["a 15", "b 15", "c LimitExceeded"]);
    // A raised quota applies at once.
    quotas.set(greedy, quota(60));
    cluster.pass(2);
    answer(&mut cluster);
    assert_eq!(cluster.stored(), ["a 15", "b 15", "c 15"]);
    quotas.set(greedy, quota(20));
    cluster.pass(2);
    let expected = ["a 15", "b LimitExceeded", "c LimitExceeded"];
    assert_eq!(cluster.stored(), expected);
    // The Namespace is gone, and its annotations with it.
    quotas.set(greedy, None);
    cluster.pass(2);
    answer(&mut cluster);
    assert_eq!(cluster.stored(), ["a 15", "b 15", "c LimitExceeded"]);
}

#[test]
fn nothing_is_left_out_before_the_annotations_are_known() {
    let quotas = NamespaceQuotas::unread();
    let mut cluster = Cluster::with(&[("greedy", &["a.test.", "b.test."])], |config| {
        config.shared.quotas = quotas.clone();
    });
    for asked in ["a.test", "b.test"] {
        cluster.answer(asked, 30);
    }
    cluster.pass(2);
    assert_eq!(cluster.stored(), ["a 30", "b 30"]);
    quotas.cannot_be_read();
    cluster.pass(2);
    assert_eq!(cluster.stored(), ["a 30", "b LimitExceeded"]);
}

#[test]
fn many_names_do_not_keep_addresses_out_that_there_is_room_for() {
    let names = [
        "a.test.", "b.test.", "c.test.", "d.test.", "e.test.", "f.test.",
    ];
    let mut cluster = Cluster::new(&[("greedy", &names)]);
    cluster.answer("a.test", 20);
    cluster.answer("f.test", 30);
    cluster.pass(2);
    assert_eq!(cluster.stored()[5], "f LimitExceeded");
    cluster.rules.get_mut("greedy").unwrap().remove(0);
    cluster.want();
    cluster.pass(610);
    cluster.answer("f.test", 30);
    cluster.pass(2);
    assert_eq!(cluster.stored()[4], "f 30");
}

#[test]
fn a_name_that_is_taken_in_again_no_longer_says_that_it_is_left_out() {
    let mut cluster = Cluster::new(&[("greedy", &["a.test.", "b.test.", "c.test."])]);
    for asked in ["a.test", "b.test", "c.test"] {
        cluster.answer(asked, 15);
    }
    cluster.pass(2);
    assert_eq!(cluster.stored(), ["a 15", "b 15", "c LimitExceeded"]);
    cluster.rules.get_mut("greedy").unwrap().remove(1);
    cluster.want();
    cluster.pass(610);
    assert_eq!(cluster.stored(), ["a 15", "c Expired"]);
}

#[test]
fn a_standby_keeps_no_more_of_a_namespace_than_it_may_have() {
    let names = ["a.test.", "b.test.", "c.test."];
    let mut cluster = Cluster::new(&[("greedy", &names), ("honest", &["x.test."])]);
    for asked in ["a.test", "b.test", "c.test", "x.test"] {
        cluster.answer(asked, 10);
    }
    cluster.pass(2);
    let stored = ["a 10", "b 10", "c 10", "x 10"];
    assert_eq!(cluster.stored(), stored);
    cluster.world.controller.lead(false, at(cluster.world.now));
    for asked in ["a.test", "b.test", "c.test"] {
        cluster.answer(asked, 30);
    }
    cluster.pass(2);
    let known = |cluster: &Cluster| {
        let entries = cluster.world.controller.names.entries.iter();
        let known =
            entries.map(|(name, entry)| (name.to_string(), entry.memory.list().addresses()));
        let mut known: Vec<_> = known.collect();
        known.sort();
        known
            .into_iter()
            .map(|(_, count)| count)
            .collect::<Vec<_>>()
    };
    assert_eq!(known(&cluster), [30, 0, 0, 10]);
    // The statuses stay as they are.
    assert_eq!(cluster.stored(), stored);
    cluster.world.controller.lead(true, at(cluster.world.now));
    cluster.pass(2);
    assert_eq!(known(&cluster), [30, 10, 0, 10]);
    assert_eq!(
        cluster.stored(),
        ["a 30", "b 10", "c LimitExceeded", "x 10"]
    );
}

#[test]
fn each_of_many_namespaces_with_too_much_is_told_of_it_once() {
    let (notices, mut told) = Notices::channel();
    let of = |i| &*format!("n{i:02}").leak();
    let names = |i| ["a", "b"].map(|it| &*format!("{it}{i}.test.").leak());
    let rules: Vec<(&'static str, [&'static str; 2])> =
        (0..70).map(|i| (of(i), names(i))).collect();
    let all: Vec<_> = rules.iter().map(|(of, names)| (*of, &names[..])).collect();
    let mut cluster = Cluster::with(&all, |config| {
        config.namespace_limits.addresses = 1_000_000;
        config.shared.notices = notices;
    });
    for (i, asked) in rules.iter().flat_map(|(_, names)| names).enumerate() {
        let mut observation = answer(asked, "1.1.1.1", cluster.world.now);
        let ip = |j| IpAddr::from([203, 0, i as u8, j]);
        observation.addresses = (0..30).map(|j| (ip(j), 86_400)).collect();
        cluster.world.controller.observe(&observation);
    }
    let told: Vec<usize> = (0..3)
        .map(|_| {
            cluster.pass(2);
            std::iter::from_fn(|| told.try_recv().ok()).count()
        })
        .collect();
    assert_eq!(told, [64, 6, 0]);
}

#[test]
fn over_the_byte_limit_the_namespace_with_most_bytes_loses_names() {
    let mut cluster = Cluster::with(
        &[
            ("greedy", &["*.greedy.test."]),
            ("honest", &["x.test.", "y.test."]),
        ],
        |config| {
            config.namespace_limits.bytes = 40_000;
            config.namespace_limits.each.addresses = 1_000;
        },
    );
    // Fewer addresses, but each has a name of its own.
    for i in 0..40 {
        cluster.answer(&format!("n{i}.greedy.test"), 1);
    }
    for asked in ["x.test", "y.test"] {
        cluster.answer(asked, 30);
    }
    cluster.pass(5);
    let stored = cluster.stored();
    assert_eq!(stored[1..], ["x 30", "y 30"]);
    let (_, count) = stored[0].split_once(' ').unwrap();
    assert!(
        (20..40).contains(&count.parse::<u32>().unwrap()),
        "{stored:?}"
    );
}
