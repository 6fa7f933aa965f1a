//! The caps of a namespace: names, wildcards and addresses.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use proto::api::DnsName;

use super::{answer, at, name};
use crate::{
    Limits, Names, Namespace, NamespaceAtCap, NamespaceCaps, Namespaces, NoAddress, RuleUse,
};

const CAPS: NamespaceCaps = NamespaceCaps {
    names: 3,
    wildcards: 1,
    addresses: 4,
};

/// A leader's table with the rules of namespaces.
struct Tenants {
    names: Names,
    namespaces: Namespaces,
    now: f64,
}

impl Tenants {
    fn new(rules: &[(&str, &[&str])]) -> Self {
        let limits = Limits {
            lookups: false,
            ..Limits::default()
        };
        let mut tenants = Self {
            names: Names::new(limits, CAPS),
            namespaces: Namespaces::default(),
            now: 0.0,
        };
        tenants.names.set_leads(true);
        tenants.set_rules(rules);
        tenants
    }

    fn set_rules(&mut self, rules: &[(&str, &[&str])]) {
        let now = at(self.now);
        let mut users: BTreeMap<DnsName, Vec<Namespace>> = BTreeMap::new();
        for (namespace, names) in rules {
            let namespace = self.namespaces.number(namespace);
            let names: BTreeSet<DnsName> = names.iter().map(|it| name(it)).collect();
            for name in &names {
                users.entry(name.clone()).or_default().push(namespace);
            }
            let names = names.into_iter().collect();
            self.names.set_names_of_namespace(namespace, Some(names));
        }
        for (name, namespaces) in users {
            let limits = Arc::clone(self.names.limits());
            let rule_use = RuleUse {
                allowed: true,
                namespaces: namespaces.into(),
                ..RuleUse::none(limits)
            };
            self.names.apply_rule(&name, Some(Arc::new(rule_use)), now);
        }
        self.pass(0.0);
    }

    /// Lets time pass, and does what the owner of the table does then. Returns the namespaces that are told of their cap.
    fn pass(&mut self, seconds: f64) -> Vec<Namespace> {
        self.now += seconds;
        let now = at(self.now);
        self.names.advance(true, now);
        let changes = self.names.take_changes();
        for name in changes.dirty.into_keys() {
            self.names.set_wake(&name, None, now);
        }
        changes.at_cap.into_iter().collect()
    }

    /// A client gets an answer. Returns the namespaces that are told of their cap.
    fn answer(&mut self, asked: &str, ip: &str) -> Vec<Namespace> {
        let answer = answer(asked, &[(ip, 30)], self.now);
        self.names.apply_answer(&answer);
        self.pass(0.0)
    }

    fn left_out(&self) -> Vec<&str> {
        let left_out = self.names.iter().filter(|(_, entry)| entry.is_left_out());
        let left_out: BTreeSet<&str> = left_out.map(|(name, _)| name.as_str()).collect();
        assert_eq!(left_out.len(), self.names.names_left_out());
        left_out.into_iter().collect()
    }

    fn addresses(&self, of: &str) -> Vec<String> {
        let entry = self.names.get(&name(of)).unwrap();
        let names = entry.list().names.iter();
        let addresses = names.flat_map(|it| &it.addresses);
        addresses.map(|it| it.ip.to_string()).collect()
    }
}

#[test]
fn names_beyond_cap_are_left_out_in_order_of_name_and_come_back() {
    let mut tenants = Tenants::new(&[(
        "team",
        &[
            "c.test", "a.test", "d.test", "b.test", "*.y.test", "*.x.test",
        ],
    )]);
    assert_eq!(tenants.left_out(), ["*.y.test.", "d.test."]);
    tenants.answer("d.test", "192.0.2.1");
    tenants.answer("a.y.test", "192.0.2.1");
    assert!(tenants.addresses("d.test").is_empty() && tenants.addresses("*.y.test").is_empty());
    let at_cap = NamespaceAtCap {
        namespace: tenants.namespaces.number("team"),
        names_left_out: 2,
        addresses: 0,
    };
    assert_eq!(tenants.names.at_cap().collect::<Vec<_>>(), [at_cap]);
    tenants.set_rules(&[("team", &["d.test", "b.test", "*.y.test"])]);
    assert_eq!(tenants.left_out(), [""; 0]);
    assert_eq!(tenants.names.at_cap().count(), 0);
    tenants.answer("d.test", "192.0.2.1");
    assert_eq!(tenants.addresses("d.test"), ["192.0.2.1"]);
}

#[test]
fn names_with_addresses_stay_when_new_ones_exceed_the_cap() {
    let mut tenants = Tenants::new(&[("team", &["x.test", "y.test", "z.test"])]);
    for known in ["x.test", "y.test", "z.test"] {
        tenants.answer(known, "192.0.2.1");
    }
    tenants.set_rules(&[("team", &["a.test", "x.test", "y.test", "z.test"])]);
    assert_eq!(tenants.left_out(), ["a.test."]);
    assert_eq!(tenants.addresses("z.test"), ["192.0.2.1"]);
}

#[test]
fn name_of_another_namespace_in_its_caps_is_not_left_out() {
    let many: &[&str] = &["a.test", "b.test", "c.test", "d.test", "e.test"];
    let mut tenants = Tenants::new(&[("many", many), ("few", &["e.test"])]);
    assert_eq!(tenants.left_out(), ["d.test."]);
    // Not even if both are over: then each of them has to be over because of this name.
    let few: &[&str] = &["e.test", "f.test", "g.test", "h.test"];
    tenants.set_rules(&[("many", many), ("few", few)]);
    assert_eq!(tenants.left_out(), ["d.test.", "h.test."]);
}

#[test]
fn namespace_at_address_cap_gets_no_new_addresses_and_is_told_once_in_ten_minutes() {
    let rules: [(&str, &[&str]); 2] = [
        ("many", &["a.test", "b.test", "c.test"]),
        ("few", &["b.test"]),
    ];
    let mut tenants = Tenants::new(&rules);
    let many = tenants.namespaces.number("many");
    for last in 1..=4 {
        assert_eq!(tenants.answer("a.test", &format!("192.0.2.{last}")), []);
    }
    assert_eq!(tenants.answer("a.test", "192.0.2.5"), [many]);
    assert_eq!(tenants.answer("c.test", "192.0.2.6"), []);
    assert_eq!(tenants.addresses("a.test").len(), 4);
    let entry = tenants.names.get(&name("c.test")).unwrap();
    assert_eq!(entry.no_address(), Some(NoAddress::LimitExceeded));
    let at_cap = tenants.names.at_cap_of(entry).map(|it| it.namespace);
    assert_eq!(at_cap.collect::<Vec<_>>(), [many]);
    assert_eq!(tenants.names.at_cap().count(), 1);
    // The other namespace has room.
    tenants.answer("b.test", "198.51.100.1");
    assert_eq!(tenants.addresses("b.test"), ["198.51.100.1"]);
    // A known address is renewed, and when the others are over there is room again.
    tenants.pass(20.0);
    assert_eq!(tenants.answer("a.test", "192.0.2.1"), []);
    tenants.pass(16.0);
    tenants.answer("a.test", "192.0.2.9");
    assert_eq!(tenants.addresses("a.test"), ["192.0.2.1", "192.0.2.9"]);
    for last in 11..=12 {
        assert_eq!(tenants.answer("a.test", &format!("192.0.2.{last}")), []);
    }
    assert_eq!(tenants.answer("a.test", "192.0.2.13"), [], "it knows");
    tenants.pass(565.0);
    for last in 21..=24 {
        assert_eq!(tenants.answer("a.test", &format!("192.0.2.{last}")), []);
    }
    assert_eq!(tenants.answer("a.test", "192.0.2.25"), [many]);
}
