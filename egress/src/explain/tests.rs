use std::time::Duration;

use proto::facts::{NameExplained, Reason as Why, RowExplained};
use proto::{
    api::DnsName,
    facts::{AddressFacts, AnswerFacts, FailingName, NameFacts, RuleFault, RuleFaultKind},
    timestamp::Timestamp,
};

use super::*;
use crate::nodes::{Group, OfPolicyWriter};

const WWW: &str = "www.example.com.";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000 + seconds * 1000)
}

fn name(text: &str) -> DnsName {
    DnsName::parse(text).unwrap()
}

fn address(of: &str, ip: &str, seen: i64, ttl: u32) -> AddressFacts {
    let expires = at(seen) + Duration::from_secs(ttl.into());
    AddressFacts {
        name: name(of),
        address: ip.parse().unwrap(),
        ttl_seconds: ttl,
        seen: at(seen),
        seen_where: "in a stream".to_owned(),
        first_client: None,
        expires,
        removed_at: expires + Duration::from_secs(5),
        removed_after_lookup: false,
        in_object: true,
        is_covered: false,
    }
}

fn facts(of: &str, addresses: Vec<AddressFacts>) -> NameFacts {
    NameFacts {
        name: name(of),
        wanted: true,
        allowed: true,
        denied: false,
        over_limit: false,
        at_cap: Vec::new(),
        objects: vec!["ovn-kubernetes/dns-1".to_owned()],
        addresses,
        more_addresses: 0,
        next_lookup: Some(at(18)),
        fruitless_lookups: 0,
        no_address: None,
        failures: Vec::new(),
        left_out: 0,
        failed_writes: 0,
    }
}

fn known(names: Vec<NameFacts>) -> SubjectFacts {
    SubjectFacts {
        lookups: true,
        names: names.into_iter().map(Into::into).collect(),
        ..SubjectFacts::default()
    }
}

/// Adds an Allow rule of the namespace `team` for each name.
fn with_rules(mut known: SubjectFacts) -> SubjectFacts {
    for name in &mut known.names {
        name.references.rules.push(RuleReference {
            kind: "EgressFirewall".to_owned(),
            object: "team/default".to_owned(),
            allowed: true,
            denied: false,
            rule: Some("egress[3]".to_owned()),
            more_rules: 0,
            is_for_ports: false,
        });
    }
    known
}

fn explain(about: &str, known: &SubjectFacts) -> OfCollector {
    OfCollector::new(&Asked::new(about, None), (at(0), true), known.clone())
}

fn lines(about: &str, known: &SubjectFacts) -> Vec<String> {
    text::lines(&explain(about, known), &Asked::new(about, None))
}

fn text(about: &str, known: &SubjectFacts) -> String {
    lines(about, known).join("\n")
}

fn reasons(about: &str, known: &SubjectFacts) -> Vec<String> {
    let reasons = explain(about, known).reasons;
    reasons.into_iter().map(|reason| reason.code).collect()
}

#[test]
fn known_address_has_its_source_time_and_expiry() {
    let mut waits = address(WWW, "192.0.2.2", -90, 60);
    (waits.removed_at, waits.removed_after_lookup) = (at(-25), true);
    (waits.first_client, waits.in_object) = (Some([10, 0, 0, 7].into()), false);
    let shown = vec![address(WWW, "192.0.2.1", -12, 30), waits];
    let known = with_rules(known(vec![facts(WWW, shown)]));
    assert_eq!(
        text("WWW.example.com", &known),
        "www.example.com. is there, with 2 addresses.\n\
         www.example.com.: Allow in team/default egress[3], object ovn-kubernetes/dns-1\n\
         \x20 192.0.2.1: seen 12 s ago in a stream; TTL 30 s; expires in 18 s; \
         leaves in 23 s if it is not seen again\n\
         \x20 192.0.2.2: seen 90 s ago in a stream; TTL 60 s; expires 30 s ago; \
         leaves when a look-up no longer has it, not before 25 s ago; first queried by 10.0.0.7; not in the object yet\n\
         \x20 next look-up in 18 s\n\
         As of 2027-01-15T08:00:00Z, by the replica that leads."
    );
    let json = serde_json::to_value(explain(WWW, &known)).unwrap();
    assert_eq!(json["isThere"], true);
    let address = &json["names"][0]["addresses"][0];
    assert_eq!(address["seen"], "2027-01-15T07:59:48Z");
    assert_eq!(address["removedAt"], "2027-01-15T08:00:23Z");
    assert_eq!(address["inObject"], true);
    assert_eq!(json["names"][0]["addresses"][1]["removedAfterLookup"], true);
    assert_eq!(json["names"][0]["rules"][0]["object"], "team/default");
    let read: SubjectFacts = serde_json::from_value(json).unwrap();
    assert_eq!(read, known);
}

#[test]
fn address_has_its_names_under_wildcards() {
    let shown = vec![address("a.example.com", "192.0.2.1", -1, 30)];
    let known = with_rules(known(vec![facts("*.example.com", shown)]));
    let text = text("::ffff:192.0.2.1", &known);
    assert!(
        text.starts_with("192.0.2.1 is there.\n*.example.com.: Allow"),
        "{text}"
    );
    assert!(
        text.contains("\n  192.0.2.1 of a.example.com.: seen 1 s ago"),
        "{text}"
    );
}

#[test]
fn wildcard_that_just_misses_is_named_with_the_depth() {
    let known = SubjectFacts {
        near_misses: vec![name("*.example.com")],
        ..known(Vec::new())
    };
    let deep = text("a.b.example.com", &known);
    assert!(deep.contains("- no rule has it\n"), "{deep}");
    assert!(
        deep.contains("a rule has *.example.com., which matches names with exactly one label in the place of `*`, and this has more"),
        "{deep}"
    );
    let apex = text("example.com", &known);
    assert!(
        apex.contains("matches names with one more label, but not example.com. itself"),
        "{apex}"
    );
}

/// An answer of an ovn-writer about an address of a row.
fn in_database(differences: bool) -> SetsExplained {
    let row = RowExplained {
        uuid: "uuid".to_owned(),
        set: "a1".to_owned(),
        controller: String::new(),
        family: "v4".to_owned(),
        addresses: Vec::new(),
        more_addresses: 3,
        rules: Vec::new(),
        more_rules: 0,
        rules_elsewhere: 2,
    };
    SetsExplained {
        names: vec![NameExplained {
            name: WWW.to_owned(),
            objects: vec!["ns/dns-1".to_owned()],
            is_wanted: differences,
            rows: vec![row],
            differences: Vec::new(),
        }],
        more_names: 7,
        reasons: vec![Why::new("NoRule", "no rule\u{1b} refers to it")],
        ..SetsExplained::default()
    }
}

#[test]
fn rows_of_a_name_are_shown_with_what_is_not_listed() {
    let lines = sets::lines(&in_database(true), &Asked::new(WWW, None), "");
    let expected = [
        "www.example.com. is not in a set that rules refer to.",
        "www.example.com.: object ns/dns-1",
        "  row a1 (v4, uuid)",
        "    and 3 more addresses: `-o json` has more",
        "    nothing that counts refers to it",
        "    rules of other namespaces that refer to it: 2",
        "  and 7 more names: `-o json` has more",
        "- no rule\\u{1b} refers to it",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn rule_has_its_index_its_ports_and_whether_it_denies() {
    let shown = vec![address(WWW, "192.0.2.1", -10, 30)];
    let mut known = with_rules(known(vec![facts(WWW, shown)]));
    let rule = &mut known.names[0].references.rules[0];
    (rule.is_for_ports, rule.more_rules) = (true, 1);
    let shown = text(WWW, &known);
    let words = "Allow in team/default egress[3] and another rule for some ports only, object";
    assert!(shown.contains(words), "{shown}");

    let rule = &mut known.names[0].references.rules[0];
    (rule.allowed, rule.denied) = (false, true);
    for (about, words) in [
        (
            WWW,
            "is there, with 1 address, in Deny rules only: they drop packets to it.\n",
        ),
        (
            "192.0.2.1",
            "is there, in Deny rules only: they drop packets to it.\n",
        ),
    ] {
        let shown = text(about, &known);
        assert!(shown.contains(words), "{shown}");
    }
    // Another namespace allows it.
    let known = with_rules(known);
    assert!(!text(WWW, &known).contains("Deny rules only"));
}

#[test]
fn name_of_another_namespace_is_not_there_for_this_one() {
    let shown = vec![address(WWW, "192.0.2.1", -10, 30)];
    let mut known = known(vec![facts(WWW, shown)]);
    known.names[0].references.elsewhere = 2;
    let asked = Asked::new(WWW, Some("mine".to_owned()));
    let explanation = OfCollector::new(&asked, (at(0), true), known);
    assert!(!explanation.is_there);
    let text = text::lines(&explanation, &asked).join("\n");
    assert!(
        text.starts_with("www.example.com. is not there for namespace mine.\n"),
        "{text}"
    );
    assert!(text.contains("of other namespaces that do: 2"), "{text}");
}

#[test]
fn text_that_is_no_name_says_why_and_which_rules_have_it() {
    let fault = |fault, object: Option<&str>, reason: Option<&str>| RuleFault {
        fault,
        kind: "EgressFirewall".to_owned(),
        object: object.map(ToOwned::to_owned),
        reason: reason.map(ToOwned::to_owned),
    };
    let known = SubjectFacts {
        rule_faults: vec![
            fault(
                RuleFaultKind::NameRefused,
                Some("team/default"),
                Some("why"),
            ),
            fault(RuleFaultKind::NoDestination, Some("team/default"), None),
            fault(RuleFaultKind::RulesOutOfSync, None, Some("gone\u{1b}[2J")),
            fault(
                RuleFaultKind::RulesUnreadable,
                Some("/x/y.yaml"),
                Some("why"),
            ),
            fault(RuleFaultKind::RulesLeftOut, Some("team/last"), None),
        ],
        ..known(Vec::new())
    };
    assert_eq!(
        reasons("a_b.example.com", &known),
        [
            "InvalidName",
            "NameRefused",
            "NoDestination",
            "RulesOutOfSync",
            "RulesUnreadable",
            "RulesLeftOut"
        ]
    );
    let text = text("\u{1b}]0;x\u{7}<b>\u{202e}", &known);
    assert!(
        text.starts_with("\\u{1b}]0;x\\u{7}<b>\\u{202e} is not there."),
        "{text}"
    );
    assert!(
        text.chars()
            .all(|it| it == '\n' || (' '..='~').contains(&it)),
        "{text}"
    );
}

#[test]
fn unwanted_answer_and_object_without_a_rule_are_named() {
    let mut known = known(vec![NameFacts {
        wanted: false,
        ..facts(WWW, Vec::new())
    }]);
    known.unwanted = vec![AnswerFacts {
        name: name(WWW),
        addresses: vec!["192.0.2.7".parse().unwrap()],
        at: at(-3),
    }];
    assert_eq!(
        reasons(WWW, &known),
        ["NoRule", "ObjectWithoutRule", "SeenUnwanted"]
    );
    assert!(text(WWW, &known).contains("www.example.com. has 192.0.2.7 ("));
    let wildcard = with_rules(self::known(vec![facts("*.example.com", Vec::new())]));
    assert_eq!(reasons(WWW, &wildcard), ["NoAddress", "OnlyWildcard"]);
}

#[test]
fn explain_of_a_present_name_lists_its_problems() {
    let shown = vec![address(WWW, "192.0.2.1", -10, 30)];
    let known = with_rules(known(vec![NameFacts {
        denied: true,
        left_out: 4,
        over_limit: true,
        failed_writes: 2,
        failures: vec![FailingName {
            name: name(WWW),
            failures: 3,
            reason: Some("Timeout".to_owned()),
        }],
        ..facts(WWW, shown)
    }]));
    assert!(explain(WWW, &known).is_there);
    assert_eq!(
        reasons(WWW, &known),
        ["Full", "NotWritten", "Degraded", "LimitExceeded"]
    );
}

fn counts(rules: &[&str], in_ovn: bool, in_policies: bool) -> (bool, bool) {
    let mut known = with_rules(known(vec![facts(WWW, Vec::new())]));
    let rule = known.names[0].references.rules.remove(0);
    let rules = rules.iter().map(|kind| RuleReference {
        kind: (*kind).to_owned(),
        ..rule.clone()
    });
    known.names[0].references.rules = rules.collect();
    let answer = if in_ovn {
        in_database(false)
    } else {
        SetsExplained::default()
    };
    let answers = Answers {
        collector: Some(explain(WWW, &known)),
        writers: Writers {
            ovn_writers: vec![Group {
                nodes: vec!["a".to_owned()],
                answer,
            }],
            policy_writer: Some(OfPolicyWriter {
                place: String::new(),
                leader: true,
                answer: PoliciesExplained {
                    is_wanted: in_policies,
                    ..PoliciesExplained::default()
                },
            }),
            unreachable: Vec::new(),
        },
    };
    let counts = answers.counts();
    (counts.ovn_writers, counts.policy_writer)
}

#[test]
fn writer_counts_if_a_rule_is_of_its_kind_or_it_has_the_name() {
    for (rules, in_ovn, in_policies, expected) in [
        (&["EgressFirewall"][..], true, false, (true, false)),
        (&["EgressFirewall"], false, false, (true, false)),
        (&["DNSResolver"], false, true, (false, true)),
        (&["DNSResolver"], false, false, (false, true)),
        (&["EgressFirewall", "DNSResolver"], true, true, (true, true)),
        (
            &["DNSNameResolver.kubeovn.io"],
            false,
            false,
            (false, false),
        ),
        (&[], false, true, (false, true)),
        (&[], true, false, (true, false)),
        (&[], false, false, (true, true)),
    ] {
        let found = counts(rules, in_ovn, in_policies);
        assert_eq!(found, expected, "{rules:?} {in_ovn} {in_policies}");
    }
}
