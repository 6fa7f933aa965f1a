use super::*;
use crate::facts::tests::{name_view, status_of};
use names::Evictions;

fn reasons(name: &NameView) -> Vec<&'static str> {
    let troubles = name_troubles(name);
    troubles.iter().map(|(reason, _)| *reason).collect()
}

#[test]
fn name_without_addresses_is_a_problem_an_unasked_wildcard_not() {
    let empty = |name: &str| NameView {
        addresses: 0,
        ..name_view(name)
    };
    assert!(reasons(&name_view("www.example.com")).is_empty());
    assert_eq!(reasons(&empty("www.example.com")), ["NoAddress"]);
    assert!(reasons(&empty("*.example.com")).is_empty());
    let left_out = NameView {
        left_out: true,
        ..empty("www.example.com")
    };
    assert_eq!(reasons(&left_out), ["LeftOut"]);
}

#[test]
fn each_state_of_a_name_that_needs_somebody_is_a_problem() {
    let name = || name_view("www.example.com");
    let evicted = |addresses, names| Evictions { addresses, names };
    for (name, expected) in [
        (
            NameView {
                failed_writes: 1,
                ..name()
            },
            "NotWritten",
        ),
        (
            NameView {
                objects: Vec::new(),
                ..name()
            },
            "NoObject",
        ),
        (
            NameView {
                failing: 1,
                ..name()
            },
            "LookupFails",
        ),
        (
            NameView {
                evictions: evicted(1, 0),
                ..name()
            },
            "Evicted",
        ),
        (
            NameView {
                evictions: evicted(0, 1),
                ..name()
            },
            "Evicted",
        ),
        (
            NameView {
                evictions: evicted(1, 0),
                full: true,
                ..name()
            },
            "Full",
        ),
    ] {
        assert_eq!(reasons(&name), [expected], "{name:?}");
    }
}

#[test]
fn all_parts_of_the_status_are_searched_the_clusters_first() {
    let names = vec![NameView {
        failed_writes: 2,
        ..name_view("www.example.com")
    }];
    let problems = find(&status_of(names));
    let all: Vec<_> = problems.listed.iter().map(|it| it.reason).collect();
    let expected = [
        "Condition",
        "DnsServerSendsNoDnstap",
        "NamespaceAtCap",
        "NameRefused",
        "NotWritten",
    ];
    assert_eq!(all, expected);
    let name = problems.listed.iter().find(|it| it.reason == "NotWritten");
    let name = name.unwrap();
    assert_eq!(name.subject, "www.example.com.");
    assert_eq!(name.words, "2 writes failed");
}

#[test]
fn without_faults_there_are_no_problems() {
    let mut status = status_of(vec![name_view("www.example.com")]);
    status.conditions.clear();
    status.dns_blocks = Default::default();
    status.view.namespaces.clear();
    // A Deny rule by name is an advice to its author.
    status.faults.retain(|fault| fault.is_advice);
    assert_eq!(status.faults.len(), 1);
    assert_eq!(find(&status).listed, []);
}

#[test]
fn object_for_each_source_is_no_fault_and_two_of_one_are() {
    let key = |namespace: &str, name: &str| ObjectKey {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let of_kube_ovn = [key("", "anp-a-1"), key("", "anp-b-1")];
    let of_each = [
        key("ovn-kubernetes", "dns-1"),
        key("egress-by-name", "dns-1"),
    ];
    for objects in [&of_kube_ovn, &of_each] {
        assert!(!are_several_of_one_source(objects), "{objects:?}");
    }
    let two = [
        key("ovn-kubernetes", "dns-1"),
        key("ovn-kubernetes", "other"),
    ];
    assert!(are_several_of_one_source(&two));
}
