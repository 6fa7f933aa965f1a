use proto::{facts::UnallowedName, timestamp::Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::list::{ResolverOfName, SetOnNodes};

fn listed(name: &str, more: Value) -> Listed {
    let mut value = json!({
        "name": name, "wanted": true, "allowed": true, "denied": false, "overLimit": false, "objects": [], "addresses": [],
        "moreAddresses": 0, "nextLookup": null, "fruitlessLookups": 0, "noAddress": null, "failures": [], "leftOut": 0,
        "failedWrites": 0, "namespaces": ["n1"], "moreNamespaces": 0, "askedBy": [],
    });
    for (key, field) in more.as_object().unwrap() {
        value[key] = field.clone();
    }
    Listed {
        name: serde_json::from_value(value).unwrap(),
        sets: Vec::new(),
        dns_resolvers: Vec::new(),
    }
}

fn address(name: &str, ip: &str, is_looked_up: bool) -> Value {
    json!({
        "name": name, "address": ip, "ttlSeconds": 30, "seen": "2026-01-01T00:00:00Z",
        "seenWhere": "in the dnstap stream of 192.0.2.53", "firstClient": "10.0.0.7", "expires": "2026-01-01T00:00:30Z",
        "removedAt": "2026-01-01T00:01:00Z", "removedAfterLookup": is_looked_up, "inObject": true,
    })
}

fn set(nodes: &[&str], addresses: &[&str]) -> SetOnNodes {
    SetOnNodes {
        nodes: nodes.iter().map(ToString::to_string).collect(),
        set: serde_json::from_value(json!({
            "name": "*.a.test.", "set": "a1", "controller": "", "family": "v4", "wanted": 1, "present": 1, "addresses": addresses,
            "rules": 1, "namespaces": [], "moreNamespaces": 0, "difference": null, "isBeingWritten": false,
        }))
        .unwrap(),
    }
}

fn list(names: Vec<Listed>) -> List {
    List {
        // 2026-01-01T00:00:10Z
        at: Timestamp::from_millis(1_767_225_610_000),
        collector: "a".to_owned(),
        is_leader: true,
        names,
        not_allowed_by_name: Vec::new(),
        unreachable: Vec::new(),
        problems: 0,
        writers: 0,
        has_policies: false,
    }
}

#[test]
fn list_with_policies_names_those_that_have_the_address() {
    let resolver = |name: &str, addresses: &[&str]| ResolverOfName {
        namespace: "n1".to_owned(),
        name: name.to_owned(),
        objects: Vec::new(),
        addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
    };
    let both = [
        address("a.test.", "192.0.2.1", true),
        address("a.test.", "192.0.2.2", true),
    ];
    let mut a = listed("a.test.", json!({"addresses": both}));
    a.dns_resolvers = vec![
        resolver("one", &["192.0.2.1"]),
        resolver("two", &["192.0.2.1"]),
        resolver("three", &[]),
    ];
    let mut list = list(vec![a]);
    list.has_policies = true;
    let found = table(&list, None);
    let ends: Vec<&str> = found
        .lines()
        .map(|line| line.rsplit_once("  ").unwrap().1)
        .collect();
    assert_eq!(ends, ["POLICIES", "n1/one, n1/two", "-"]);
}

#[test]
fn each_address_has_a_line_and_a_name_without_one_has_the_reason() {
    let addresses = [
        address("x.a.test.", "192.0.2.1", true),
        address("y.a.test.", "192.0.2.2", false),
    ];
    let mut wildcard = listed(
        "*.a.test.",
        json!({
            "addresses": addresses, "moreAddresses": 5, "objects": ["ovn/dns-1"], "askedBy": ["10.0.0.9"],
            "namespaces": ["n1", "n2", "n3", "n4"], "moreNamespaces": 2,
        }),
    );
    wildcard.sets = vec![
        set(&["one", "two"], &["192.0.2.1"]),
        set(&["three"], &["192.0.2.1", "192.0.2.2"]),
    ];
    let why = json!({"code": "NXDOMAIN", "sentence": "the DNS server answered NXDOMAIN"});
    let mut list = list(vec![wildcard, listed("b.test.", json!({"noAddress": why}))]);
    list.writers = 3;
    assert_eq!(
        table(&list, None),
        "\
NAME       ADDRESS    FROM        UNTIL             RULES IN         ASKED BY  NODES
x.a.test.  192.0.2.1  192.0.2.53  its next look-up  n1,n2,n3,3 more  10.0.0.9  3/3
y.a.test.  192.0.2.2  192.0.2.53  in 50 s           n1,n2,n3,3 more  10.0.0.9  1/3
b.test.    -          NXDOMAIN    -                 n1               -         -
and 5 more addresses"
    );
    let pattern: NamePattern = "y.a".parse().unwrap();
    let selected = table(&list, Some(&pattern));
    let lines: Vec<&str> = selected.lines().collect();
    assert!(lines[1].starts_with("y.a.test.  192.0.2.2"), "{lines:?}");
}

#[test]
fn names_that_no_rule_has_are_one_line_unless_names_are_selected() {
    let mut list = list(Vec::new());
    list.not_allowed_by_name = [("a.test.", 9), ("b.test.", 3)]
        .map(|(name, seconds_asked)| UnallowedName {
            name: name.to_owned(),
            seconds_asked,
            last_client: None,
        })
        .to_vec();
    let lines = "no name\nnot allowed by name: a.test. (9 s), b.test. (3 s)";
    assert_eq!(table(&list, None), lines);
    let pattern = "c".parse().unwrap();
    assert_eq!(table(&list, Some(&pattern)), "no name");
}
