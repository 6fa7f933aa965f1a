//! Names that wildcards found for the pods of a namespace over its quota.

use std::net::IpAddr;

use runtime::store::Event;

use crate::controller::tests::namespace_limits::{Cluster, LIMITS};
use crate::{
    clients::tests::Pods,
    controller::tests::{answer, at, name},
    namespaces::NamespaceQuota,
    rules::Source,
};

const PODS: [&str; 5] = ["greedy/a", "greedy/b", "honest/a", "other/a", "third/a"];

/// A wildcard of two namespaces, and a name of each of them.
struct Wild {
    cluster: Cluster,
    pods: Pods,
}

impl Wild {
    fn new() -> Self {
        let pods = Pods::of(&PODS);
        let rules: [(&str, &[&str]); 2] = [
            ("greedy", &["a.test.", "*.w.test."]),
            ("honest", &["*.w.test.", "h.test."]),
        ];
        let cluster = Cluster::with(&rules, |config| {
            config.shared.clients = pods.clients.clone();
        });
        Self { cluster, pods }
    }

    /// A pod gets an answer with so many addresses.
    fn ask(&mut self, pod: &str, asked: &str, count: u8) {
        let world = &mut self.cluster.world;
        let mut observation = answer(asked, "1.1.1.1", world.now);
        let [one, two] = [asked.as_bytes()[0], asked.as_bytes()[1]];
        let ip = |i| IpAddr::from([203, one, two, i]);
        observation.addresses = (0..count).map(|i| (ip(i), 3600)).collect();
        observation.client = Some(self.pods.address(pod));
        world.controller.observe(&observation);
    }

    /// The names under the wildcard in the store.
    fn found(&self) -> Vec<String> {
        let mut objects = self.cluster.world.store.values();
        let wildcard = objects.find(|it| it.spec.name == "*.w.test.").unwrap();
        let names = wildcard.status.iter().flat_map(|it| &it.resolved_names);
        let names = names.filter(|it| !it.resolved_addresses.is_empty());
        let label = |text: &str| text.split('.').next().unwrap().to_owned();
        names.map(|it| label(&it.dns_name)).collect()
    }

    fn used(&self, namespace: &str) -> NamespaceQuota {
        let namespace = self.cluster.number(namespace);
        self.cluster.world.controller.shares.charged.of(namespace)
    }
}

#[test]
fn names_found_for_a_namespace_with_too_much_are_left_out_one_by_one() {
    let mut wild = Wild::new();
    wild.ask("greedy/a", "a.test", 10);
    for asked in ["f1", "f2", "f3", "f4"] {
        wild.cluster.pass(1);
        wild.ask("greedy/a", &format!("{asked}.w.test"), 8);
    }
    wild.ask("honest/a", "h1.w.test", 8);
    wild.cluster.pass(2);
    // Two of 42 addresses are too many: the name seen longest ago goes, and the rule before it
    // stays.
    assert_eq!(wild.found(), ["f2", "f3", "f4", "h1"]);
    assert_eq!(wild.used("greedy").addresses, 34);
    assert_eq!(wild.used("honest").addresses, 8);
}

#[test]
fn new_names_of_a_namespace_without_room_are_left_out_until_it_has_some() {
    let mut wild = Wild::new();
    for asked in ["f1", "f2", "f3", "f4", "f5"] {
        wild.ask("greedy/a", &format!("{asked}.w.test"), 10);
        wild.cluster.pass(1);
    }
    wild.cluster.pass(2);
    assert_eq!(wild.found(), ["f2", "f3", "f4", "f5"]);
    // Its pods query more names, and the result stays stable.
    for _ in 0..10 {
        wild.ask("greedy/b", "f1.w.test", 10);
        wild.ask("greedy/b", "f6.w.test", 1);
        wild.cluster.pass(2);
        assert_eq!(wild.found(), ["f2", "f3", "f4", "f5"]);
    }
    // A pod of another namespace queries a name, which is known from then on.
    wild.ask("honest/a", "f6.w.test", 1);
    wild.cluster.pass(2);
    assert_eq!(wild.found(), ["f2", "f3", "f4", "f5", "f6"]);
    // Half of the names expire.
    wild.cluster.pass(3000);
    wild.ask("greedy/b", "f2.w.test", 10);
    wild.ask("greedy/b", "f3.w.test", 10);
    for _ in 0..3 {
        wild.cluster.pass(610);
    }
    wild.ask("greedy/b", "f7.w.test", 10);
    wild.cluster.pass(2);
    assert_eq!(wild.found(), ["f2", "f3", "f7"]);
}

#[test]
fn a_found_name_that_another_namespace_pays_for_is_never_left_out() {
    let mut wild = Wild::new();
    for asked in ["f1", "f2", "f3", "f4", "f5", "f6"] {
        wild.ask("greedy/a", &format!("{asked}.w.test"), 9);
        wild.cluster.pass(1);
        wild.ask("honest/a", "f1.w.test", 9);
    }
    wild.cluster.pass(2);
    assert_eq!(wild.found(), ["f1", "f3", "f4", "f5", "f6"]);
}

#[test]
fn what_goes_with_a_wildcard_is_given_back_to_those_who_paid_for_it() {
    let mut wild = Wild::new();
    let rules = &mut wild.cluster.rules;
    // The names are too many, so the whole wildcard is left out.
    rules
        .get_mut("greedy")
        .unwrap()
        .extend(["b.test.", "c.test.", "d.test.", "e.test.", "f.test."]);
    rules.get_mut("greedy").unwrap().push("*.v.test.");
    wild.cluster.want();
    for pod in ["greedy/a", "greedy/b"] {
        wild.ask(pod, "f1.v.test", 20);
    }
    wild.ask("honest/a", "h.test", 30);
    // A namespace without a rule for it is not charged.
    wild.ask("honest/a", "f2.v.test", 9);
    wild.cluster.pass(2);
    assert_eq!(wild.used("greedy").names, LIMITS.each.names);
    assert_eq!(wild.used("greedy").addresses, 0);
    assert_eq!(wild.used("honest").addresses, 30);
    assert_eq!(
        wild.cluster.world.controller.shares.charged.all.addresses,
        30
    );
}

#[test]
fn new_names_that_another_collector_adds_are_left_out_too() {
    let mut wild = Wild::new();
    for asked in ["f1", "f2", "f3", "f4", "f5"] {
        wild.ask("greedy/a", &format!("{asked}.w.test"), 9);
        wild.cluster.pass(1);
    }
    wild.cluster.pass(2);
    wild.ask("greedy/b", "f1.w.test", 9);
    assert_eq!(wild.found(), ["f2", "f3", "f4", "f5"]);
    let world = &mut wild.cluster.world;
    let mut objects = world.store.values();
    let mut object = objects
        .find(|it| it.spec.name == "*.w.test.")
        .unwrap()
        .clone();
    let names = &mut object.status.as_mut().unwrap().resolved_names;
    for asked in ["f1.w.test", "missed.w.test"] {
        let mut added = names[0].clone();
        added.dns_name = name(asked).to_string();
        names.push(added);
    }
    let object = world.put(object);
    world.controller.event(
        Source::EgressFirewall,
        Event::Applied(object),
        at(world.now),
    );
    wild.cluster.pass(2);
    // A name that the leader did not receive may be another namespace's.
    assert_eq!(wild.found(), ["f2", "f3", "f4", "f5", "missed"]);
}

#[test]
fn a_flood_of_refused_names_keeps_no_name_of_another_namespace_out() {
    let mut wild = Wild::new();
    for asked in ["f1", "f2", "f3", "f4", "f5"] {
        wild.ask("greedy/a", &format!("{asked}.w.test"), 9);
        wild.cluster.pass(1);
    }
    wild.cluster.pass(2);
    for label in 0..4_100 {
        wild.ask("greedy/a", &format!("x{label}.w.test"), 1);
    }
    // Another collector received the answer, and this one did not.
    let world = &mut wild.cluster.world;
    let mut objects = world.store.values();
    let found = objects.find(|it| it.spec.name == "*.w.test.");
    let mut object = found.unwrap().clone();
    let names = &mut object.status.as_mut().unwrap().resolved_names;
    let mut added = names[0].clone();
    added.dns_name = name("missed.w.test").to_string();
    names.push(added);
    let object = world.put(object);
    world.controller.event(
        Source::EgressFirewall,
        Event::Applied(object),
        at(world.now),
    );
    wild.cluster.pass(2);
    assert!(wild.found().contains(&"missed".to_owned()));
}

#[test]
fn explain_and_the_status_page_say_which_limit_holds() {
    let mut wild = Wild::new();
    for asked in ["f1", "f2", "f3", "f4", "f5"] {
        wild.ask("greedy/a", &format!("{asked}.w.test"), 9);
    }
    wild.cluster.pass(2);
    let controller = &wild.cluster.world.controller;
    let subject = runtime::inspect::Subject::Name(name("f9.w.test"));
    let facts = controller
        .inspect()
        .facts(&subject, at(wild.cluster.world.now));
    let [wildcard] = facts.names.as_slice() else {
        panic!("{facts:?}");
    };
    let view = controller.view(at(wild.cluster.world.now));
    assert_eq!(view.namespaces, wildcard.shares);
    let [share] = wildcard.shares.as_slice() else {
        panic!("{facts:?}");
    };
    assert_eq!(&*share.namespace, "greedy");
    assert_eq!((share.quota, share.is_closed), (LIMITS.each, true));
    assert_eq!((share.used.addresses, share.used.names), (36, 2));
    assert!(!wildcard.over_limit);
}

/// A name of `honest` is left out. `evil` has rules for wildcards, and a pod of a namespace without
/// a rule queries names under them.
struct Unpaid {
    cluster: Cluster,
    pods: Pods,
}

impl Unpaid {
    fn new() -> Self {
        let pods = Pods::of(&["mule/a"]);
        let rules: [(&str, &[&str]); 2] = [
            (
                "evil",
                &["*.e.test.", "*.f.test.", "*.g.test.", "*.h.test."],
            ),
            ("honest", &["*.w.test.", "a.test.", "b.test.", "c.test."]),
        ];
        let mut cluster = Cluster::with(&rules, |config| {
            config.shared.clients = pods.clients.clone();
        });
        cluster.pass(3600);
        let mut unpaid = Self { cluster, pods };
        for (net, asked) in ["a.test", "b.test", "c.test"].iter().enumerate() {
            unpaid.tell(None, asked, net, 15);
        }
        unpaid.cluster.pass(2);
        assert_eq!(unpaid.stored()[2..], ["a 15", "b 15", "c LimitExceeded"]);
        unpaid
    }

    fn tell(&mut self, client: Option<IpAddr>, asked: &str, net: usize, count: u8) {
        let world = &mut self.cluster.world;
        let mut observation = answer(asked, "1.1.1.1", world.now);
        let ip = |i| IpAddr::from([198, 51, net as u8, i]);
        observation.addresses = (0..count).map(|i| (ip(i), 86_400)).collect();
        observation.client = client;
        world.controller.observe(&observation);
    }

    /// A pod of a namespace without a rule queries so many names with one address each.
    fn attack(&mut self, names: usize) {
        let mule = Some(self.pods.address("mule/a"));
        for i in 0..names {
            let under = ["e", "f", "g", "h"][i % 4];
            self.tell(mule, &format!("x{i}.{under}.test"), i, 1);
            self.cluster.pass(1);
        }
        self.cluster.pass(2);
    }

    /// The addresses of each object, with those under the wildcards of `evil` added up.
    fn stored(&self) -> Vec<String> {
        let objects = self.cluster.world.store.values();
        let evil = objects.filter(|it| {
            let mut evil = self.cluster.rules["evil"].iter();
            evil.any(|name| *name == it.spec.name)
        });
        let names = evil
            .flat_map(|it| &it.status)
            .flat_map(|it| &it.resolved_names);
        let evil: usize = names.map(|it| it.resolved_addresses.len()).sum();
        let wild = self.cluster.world.controller.names.entries[&name("*.w.test")]
            .memory
            .list()
            .addresses();
        [format!("evil {evil}"), format!("wild {wild}")]
            .into_iter()
            .chain(
                self.cluster
                    .stored()
                    .into_iter()
                    .filter(|it| !it.starts_with('*')),
            )
            .collect()
    }
}

#[test]
fn names_that_no_namespace_pays_for_count_for_the_one_with_the_rule() {
    let mut unpaid = Unpaid::new();
    unpaid.attack(80);
    assert_eq!(unpaid.stored()[0], "evil 40");
    // So there is room for the other namespace's left-out name.
    unpaid.cluster.rules.get_mut("honest").unwrap().remove(2);
    unpaid.cluster.want();
    unpaid.cluster.pass(610);
    unpaid.tell(None, "c.test", 2, 15);
    unpaid.cluster.pass(2);
    assert_eq!(unpaid.stored()[2..], ["a 15", "c 15"]);
}

#[test]
fn wildcard_names_of_others_are_not_evicted_for_names_without_a_payer() {
    let mut unpaid = Unpaid::new();
    let node = Some("192.0.2.1".parse().unwrap());
    for number in 0..2 {
        unpaid.tell(node, &format!("h{number}.w.test"), 100 + number, 10);
    }
    // Too many for all together, under four wildcards that each have fewer than the other
    // namespace's.
    unpaid.attack(72);
    assert_eq!(unpaid.stored()[..2], ["evil 40", "wild 20"]);
    unpaid.cluster.world.controller.shares.limits.addresses = 70;
    unpaid.cluster.pass(2);
    assert_eq!(unpaid.stored()[..2], ["evil 20", "wild 20"]);
}

#[test]
fn a_quota_that_is_raised_counts_while_nearly_all_addresses_are_taken() {
    let mut unpaid = Unpaid::new();
    unpaid.attack(40);
    let cluster = &mut unpaid.cluster;
    cluster.world.controller.shares.limits.addresses = 76;
    let raised = NamespaceQuota {
        addresses: 60,
        names: 10,
    };
    let quotas = cluster.world.config.shared.quotas.clone();
    quotas.set(cluster.number("honest"), Some(raised));
    // A name without room stays left out.
    cluster.pass(2);
    assert_eq!(unpaid.stored()[4], "c LimitExceeded");
    unpaid.cluster.world.controller.shares.limits.addresses = 86;
    unpaid.cluster.pass(2);
    unpaid.tell(None, "c.test", 2, 15);
    unpaid.cluster.pass(2);
    assert_eq!(unpaid.stored()[4], "c 15");
}
