use serde_json::{Value, json};

use super::*;

pub(in crate::namespaces) const RULES: QuotaRules = QuotaRules {
    defaults: NamespaceQuota {
        addresses: 100,
        names: 10,
    },
    ceilings: NamespaceQuota {
        addresses: 1_000,
        names: 50,
    },
};

pub(in crate::namespaces) fn namespace(name: &str, annotations: Value) -> AnnotatedNamespace {
    let namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "uid": format!("uid-{name}"),
            "resourceVersion": "7",
            "annotations": annotations,
            "labels": { "a": "b" },
        },
        "spec": { "finalizers": ["kubernetes"] },
        "status": { "phase": "Active" },
    });
    serde_json::from_value(namespace).unwrap()
}

fn outcome(annotations: Value) -> (Option<(usize, usize)>, Vec<String>) {
    let outcome = namespace("team", annotations).outcome(&RULES);
    let quota = outcome.quota.map(|it| (it.addresses, it.names));
    let faults = outcome.faults.into_iter();
    let faults = faults.map(|fault| format!("{}: {}", fault.reason, fault.note));
    (quota, faults.collect())
}

#[test]
fn annotations_set_the_limits_of_a_namespace_and_others_are_not_kept() {
    assert_eq!(outcome(Value::Null), (None, vec![]));
    assert_eq!(outcome(json!({ "a": "b" })), (None, vec![]));
    let addresses = json!({ MAX_ADDRESSES: "1000", "a": "b" });
    assert_eq!(outcome(addresses), (Some((1_000, 10)), vec![]));
    let both = json!({ MAX_ADDRESSES: "1", MAX_NAMES: "50" });
    assert_eq!(outcome(both), (Some((1, 50)), vec![]));
    let team = namespace("team", json!({ "a": "b" }));
    assert_eq!(
        (&team.meta().labels, &team.meta().annotations),
        (&None, &None)
    );
}

#[test]
fn a_limit_above_the_ceiling_counts_as_the_ceiling() {
    for text in ["1001", "100000000000000000000000000"] {
        let (quota, faults) = outcome(json!({ MAX_ADDRESSES: text }));
        assert_eq!(quota, Some((1_000, 10)), "{text}");
        let [fault] = faults.as_slice() else {
            panic!("{faults:?}");
        };
        assert!(
            fault.starts_with("AnnotationClamped: dnsnameresolver."),
            "{fault}"
        );
        assert!(
            fault.contains("counts as 1000 (--max-addresses-by-annotation)"),
            "{fault}"
        );
    }
    // The default of the flags always passes the ceiling.
    let rules = QuotaRules {
        ceilings: NamespaceQuota {
            addresses: 1,
            names: 1,
        },
        ..RULES
    };
    let outcome = namespace("team", json!({ MAX_ADDRESSES: "100" })).outcome(&rules);
    assert_eq!((outcome.used, outcome.faults.len()), (1, 0));
}

#[test]
fn an_annotation_that_is_no_number_is_ignored_and_told() {
    for text in ["", "0", "-1", "10k", "1e3", "\u{202e}"] {
        let annotations = json!({ MAX_NAMES: text, MAX_ADDRESSES: "200" });
        let (quota, faults) = outcome(annotations);
        assert_eq!(quota, Some((200, 10)), "{text}");
        let [fault] = faults.as_slice() else {
            panic!("{faults:?}");
        };
        assert!(
            fault.starts_with("AnnotationIgnored: dnsnameresolver."),
            "{fault}"
        );
        assert!(
            fault.contains("10 applies (--max-names-per-namespace)"),
            "{fault}"
        );
        assert!(fault.is_ascii(), "{fault}");
    }
    let long = "x".repeat(200_000);
    let (_, faults) = outcome(json!({ MAX_NAMES: long }));
    assert!(faults.iter().all(|it| it.len() < 400), "{faults:?}");
}

#[test]
fn events_about_a_namespace_stand_in_it() {
    let about = namespace("team", Value::Null).about();
    let text = |part: Option<String>| part.unwrap_or_default();
    assert_eq!(text(about.kind), "Namespace");
    assert_eq!(
        (text(about.name), text(about.namespace)),
        ("team".to_owned(), "team".to_owned())
    );
    assert_eq!(
        (about.uid.as_deref(), about.resource_version),
        (Some("uid-team"), None)
    );
}
