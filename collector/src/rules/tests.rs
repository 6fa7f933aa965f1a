mod names_read;
pub(super) mod published;

use std::time::Duration;

use kube::ResourceExt;
use proto::{
    api::{DnsName, EgressFirewall, RuleType},
    facts::NameReferences,
};

use self::published::Published;
use super::{rule_object::DENY_RETAIN, sources::egress_firewall::MAX_RULES, validation::Fault, *};

pub(super) fn firewall(namespace: &str, names: &[&str]) -> EgressFirewall {
    let rules: Vec<_> = names
        .iter()
        .map(|name| serde_json::json!({"type": "Allow", "to": {"dnsName": name}}))
        .collect();
    serde_json::from_value(serde_json::json!({
        "apiVersion": "k8s.ovn.org/v1",
        "kind": "EgressFirewall",
        "metadata": {"name": "default", "namespace": namespace},
        "spec": {"egress": rules},
    }))
    .unwrap()
}

/// The annotations by the last part of their keys.
pub(super) fn annotate(object: &mut EgressFirewall, annotations: &[(&str, &str)]) {
    for (key, value) in annotations {
        let key = format!("{}/{key}", super::sources::egress_firewall::ANNOTATIONS);
        object.annotations_mut().insert(key, (*value).to_owned());
    }
}

pub(super) fn key(namespace: &str) -> ObjectKey {
    ObjectKey {
        namespace: namespace.to_owned(),
        name: "default".to_owned(),
    }
}

fn texts(rules: &mut Published) -> Vec<String> {
    rules
        .publish_changes()
        .keys()
        .map(ToString::to_string)
        .collect()
}

/// The faults of the EgressFirewall of a namespace.
fn notes(rules: &mut Published, namespace: &str) -> Vec<(Fault, String)> {
    rules.publish_changes();
    rules.get(&key(namespace)).unwrap().faults.notes().collect()
}

#[test]
fn rule_without_a_known_destination_is_a_fault() {
    let mut rules = Published::default();
    let rule = |to| serde_json::json!({"type": "Allow", "to": to});
    let firewall = serde_json::json!({
        "metadata": {"namespace": "a", "name": "default"},
        "spec": {"egress": [
            rule(serde_json::json!({"dnsName": "www.example.com"})),
            rule(serde_json::json!({"dnsname": "www.example.com"})),
            rule(serde_json::json!({"cidrSelector": "0.0.0.0/0"})),
        ]},
    });
    let firewall: EgressFirewall = serde_json::from_value(firewall).unwrap();
    rules.apply(&firewall);
    let notes = notes(&mut rules, "a");
    let [(Fault::NoDestination, note)] = &notes[..] else {
        panic!("{notes:?}");
    };
    assert!(
        note.starts_with("1 rules have no effect") && note.ends_with(": egress[1]"),
        "{note}"
    );
}

fn references(rules: &Rules, names: [&str; 2], namespace: Option<&str>) -> Vec<NameReferences> {
    let request = ReferencesRequest {
        names: names.map(|name| DnsName::parse(name).unwrap()).into(),
        namespace: namespace.map(str::to_owned),
        answer: tokio::sync::oneshot::channel().0,
    };
    rule_references::references(rules, &request)
}

#[test]
fn rules_of_a_name_are_listed_in_order() {
    let mut rules = Published::default();
    for i in 0..150 {
        rules.apply(&firewall(&format!("n{i:03}"), &["www.example.com"]));
    }
    let uses = |namespace| references(&rules, ["www.example.com", "example.org"], namespace);
    let all = uses(None);
    assert_eq!(
        (all[0].rules.len(), all[0].more, all[0].elsewhere),
        (100, 50, 0)
    );
    assert_eq!(all[0].rules[3].object, key("n003").to_string());
    assert!(all[0].rules[3].allowed && !all[0].rules[3].denied);
    assert_eq!(all[1], NameReferences::default());
    let one = uses(Some("n003"));
    assert_eq!(
        (one[0].rules.len(), one[0].more, one[0].elsewhere),
        (1, 0, 149)
    );
}

#[test]
fn first_rule_has_its_index_and_ports_count_if_all_have_some() {
    let mut rules = Published::default();
    let mut firewall = firewall("a", &["a.example", "b.example", "a.example", "b.example"]);
    let port = serde_json::json!({"protocol": "TCP", "port": 443});
    for index in [0, 1, 2] {
        let port = serde_json::from_value(port.clone()).unwrap();
        firewall.spec.egress[index].ports = vec![port];
    }
    rules.apply(&firewall);
    let uses = references(&rules, ["a.example", "b.example"], None);
    for (it, first, is_for_ports) in [
        (&uses[0], "egress[0]", true),
        (&uses[1], "egress[1]", false),
    ] {
        let rule = &it.rules[0];
        assert_eq!((rule.rule.as_deref(), rule.more_rules), (Some(first), 1));
        assert_eq!(rule.is_for_ports, is_for_ports);
    }
}

#[test]
fn name_that_can_be_no_object_costs_only_itself_and_says_why() {
    let mut rules = Published::default();
    let long = format!("{}.example.com", "a.".repeat(127));
    let names = ["localhost", "a_b.example.com", &long, "www.example.com"];
    rules.apply(&firewall("a", &names));
    assert_eq!(texts(&mut rules), ["www.example.com."]);
    assert_eq!(rules.refused, 3);
    let notes = notes(&mut rules, "a");
    let [(Fault::NameRefused, note)] = notes.as_slice() else {
        panic!("{notes:?}");
    };
    for part in [
        "3 rules have no effect",
        "\"localhost\" (the name has a single label",
        "\"a_b.example.com\" (label `\"a_b\"` is not",
        "…",
        "more than 254",
    ] {
        assert!(note.contains(part), "{part:?} is missing in {note}");
    }
    assert!(note.len() < 1024, "{note}");
}

#[test]
fn new_list_forgets_what_it_lacks_and_not_what_cannot_be_read() {
    let mut rules = Published::default();
    rules.apply(&firewall("a", &["one.example.com"]));
    rules.apply(&firewall("c", &["three.example.com"]));
    let unreadable = BTreeSet::from([key("c"), key("d")]);
    let listed = [firewall("b", &["two.example.com"])];
    rules.reset(&listed, &unreadable);
    assert_eq!(
        texts(&mut rules),
        ["three.example.com.", "two.example.com."]
    );
}

#[test]
fn annotations_override_the_flags_up_to_a_maximum_and_the_largest_wins() {
    let seconds = Duration::from_secs;
    let defaults = RetentionPolicy {
        grace: seconds(5),
        min_ttl: seconds(5),
        ..RetentionPolicy::default()
    };
    let mut rules = Published::new(defaults);
    let mut long = firewall("a", &["www.example.com", "api.example.com"]);
    let own = [("grace", "1m"), ("min-ttl", "1s"), ("retain", "soon\n<b>")];
    annotate(&mut long, &own);
    let mut greedy = firewall("greedy", &["greedy.example.com"]);
    let own = [
        ("grace", "5000000000h"),
        ("min-ttl", "24h"),
        ("retain", "168h"),
    ];
    annotate(&mut greedy, &own);
    for firewall in [long, firewall("b", &["www.example.com"]), greedy] {
        rules.apply(&firewall);
    }
    let names = rules.publish_changes();
    for (text, expected) in [
        ("api.example.com", [60, 1, 0]),
        ("www.example.com", [60, 5, 0]),
        ("greedy.example.com", [3600, 600, 168 * 3600]),
    ] {
        let found = names[&DnsName::parse(text).unwrap()];
        let found = [found.grace, found.min_ttl, found.retain];
        assert_eq!(found, expected.map(seconds), "{text}");
    }
    let note = "1 annotations are ignored, since they are no durations such as 30s: retain: \"soon\\u{a}<b>\"";
    assert_eq!(
        notes(&mut rules, "a"),
        [(Fault::AnnotationIgnored, note.to_owned())]
    );
    assert_eq!(notes(&mut rules, "b"), []);
    let note = "2 annotations are above the administrator's maximum, which counts instead: grace: \"5000000000h\" (counts as 3600s), \
         min-ttl: \"24h\" (counts as 600s)";
    assert_eq!(
        notes(&mut rules, "greedy"),
        [(Fault::AnnotationClamped, note.to_owned())]
    );
}

fn denying(mut firewall: EgressFirewall) -> EgressFirewall {
    firewall.spec.egress[0].rule_type = RuleType::Deny;
    firewall
}

fn kinds(rules: &mut Published, namespace: &str) -> Vec<Fault> {
    let notes = notes(rules, namespace).into_iter();
    notes.map(|(fault, _)| fault).collect()
}

#[test]
fn name_in_a_deny_rule_is_kept_for_a_day_and_reported() {
    let name = "www.example.com";
    let hour = RetentionPolicy {
        retain: Duration::from_secs(3600),
        ..RetentionPolicy::default()
    };
    let mut rules = Published::new(hour);
    rules.apply(&denying(firewall("a", &[name, name])));
    let retention = rules.publish_changes()[&DnsName::parse(name).unwrap()];
    assert!(retention.allowed && retention.denied);
    assert_eq!(retention.retain, DENY_RETAIN);
    // Zero is strict.
    let mut strict = Published::default();
    strict.apply(&denying(firewall("a", &[name])));
    let retention = strict.publish_changes()[&DnsName::parse(name).unwrap()];
    assert_eq!(retention.retain, Duration::ZERO);
    let expected = [Fault::DenyRuleByName, Fault::AllowedAndDenied];
    assert_eq!(kinds(&mut rules, "a"), expected);
}

#[test]
fn deny_rule_of_another_namespace_is_no_fault() {
    let name = "www.example.com";
    let mut rules = Published::default();
    rules.apply(&firewall("allows", &[name]));
    rules.take_changed();
    rules.apply(&denying(firewall("secret", &[name])));
    assert_eq!(notes(&mut rules, "allows"), []);
    assert_eq!(kinds(&mut rules, "secret"), [Fault::DenyRuleByName]);
    assert_eq!(rules.take_changed(), BTreeSet::from([key("secret")]));
}

#[test]
fn rules_over_limit_are_ignored_counted_and_cost_only_limit() {
    let names: Vec<String> = (0..50_000).map(|i| format!("n{i}.example.com")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut rules = Published::default();
    let large = firewall("a", &names);
    rules.apply(&large);
    assert_eq!(rules.publish_changes().len(), MAX_RULES);
    assert_eq!(
        notes(&mut rules, "a"),
        [(
            Fault::TooManyRules,
            "42000 rules are over the limit of 8,000 and are ignored".to_owned()
        )]
    );
    // Applying the same again reports no change.
    rules.take_changed();
    rules.apply(&large);
    rules.publish_changes();
    assert_eq!(rules.take_changed(), BTreeSet::new());
}

#[test]
fn refused_name_of_a_rule_gets_one_event() {
    let reporter = Reporter::default();
    let (mut rules, rule_events) = (Published::default(), RuleEvents::new(reporter.clone()));
    let reported = |rules: &mut Published| {
        rules.publish_changes();
        let changed = rules.take_changed();
        rule_events.report_faults::<EgressFirewall>(changed, rules, &BTreeSet::new());
        let reports = reporter.take().into_iter();
        let reported = reports.map(|it| (it.about.namespace.unwrap(), it.reason));
        reported.collect::<Vec<_>>()
    };
    rules.apply(&firewall("a", &["localhost"]));
    rules.apply(&firewall("b", &["www.example.com"]));
    assert_eq!(reported(&mut rules), [("a".to_owned(), "NameRefused")]);
    assert_eq!(reported(&mut rules), []);
    rules.apply(&firewall("a", &["www.example.com"]));
    assert_eq!(reported(&mut rules), []);
}
