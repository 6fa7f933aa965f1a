use std::{collections::BTreeSet, time::Duration};

use proto::api::Family;
use runtime::store::ObjectKey;

use super::*;
use crate::publish::CapView;
use crate::rules::{RuleUse, Source};
use names::{Failure, FailureView, Provenance};

mod limits;

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
        ip: ip.parse().unwrap(),
        ttl,
        looked_up: at(seen),
        seen: at(seen),
        source: Provenance::LOOKUP,
        first_client: None,
        expires,
        goes: expires + Duration::from_secs(5),
        goes_once_looked_up: false,
    }
}

fn facts(of: &str, addresses: Vec<(AddressFacts, bool)>) -> NameFacts {
    NameFacts {
        name: name(of),
        wanted: true,
        allowed: true,
        denied: false,
        over_limit: false,
        at_cap: Vec::new(),
        objects: vec![key("ovn-kubernetes", "dns-1")],
        addresses,
        more_addresses: 0,
        next_lookup: Some(at(18)),
        fruitless_lookups: 0,
        failures: Vec::new(),
        left_out: 0,
        failed_writes: 0,
    }
}

fn key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn known(names: Vec<NameFacts>) -> KnownFacts {
    KnownFacts {
        at: at(0),
        facts: Some(Facts {
            at: at(0),
            leader: true,
            lookups: true,
            guarded: None,
            names,
            more_names: 0,
        }),
        uses: BTreeMap::new(),
        unwanted: Vec::new(),
        refused_rules: Vec::new(),
        out_of_sync: Vec::new(),
        unreadable: Vec::new(),
        left_out: Vec::new(),
    }
}

/// An Allow rule of the namespace `team`.
fn rule(known: &mut KnownFacts, of: &str) {
    let rule = RuleUse {
        kind: Source::EgressFirewall,
        object: key("team", "default"),
        allowed: true,
        denied: false,
        index: 3,
        more_rules: 0,
        is_for_ports: false,
    };
    let uses = known.uses.entry(name(of)).or_default();
    uses.rules.push(rule);
}

fn explain(about: &str, known: &KnownFacts) -> Explanation {
    Explanation::new(&Asked::new(about, None), known, &PeerIds::default())
}

fn text(about: &str, known: &KnownFacts) -> String {
    explain(about, known).text.join("\n")
}

fn reasons(about: &str, known: &KnownFacts) -> Vec<&'static str> {
    let reasons = explain(about, known).reasons;
    reasons.iter().map(|reason| reason.reason).collect()
}

#[test]
fn a_known_address_is_explained_with_its_source_time_and_expiry() {
    let mut waits = address(WWW, "192.0.2.2", -90, 60);
    (waits.goes, waits.goes_once_looked_up) = (at(-25), true);
    waits.first_client = Some([10, 0, 0, 7].into());
    let shown = vec![(address(WWW, "192.0.2.1", -12, 30), true), (waits, false)];
    let mut known = known(vec![facts(WWW, shown)]);
    rule(&mut known, WWW);
    assert_eq!(
        text("WWW.example.com", &known),
        "www.example.com. is there, with 2 addresses.\n\
         www.example.com.: Allow in team/default egress[3], object ovn-kubernetes/dns-1\n\
         \x20 192.0.2.1: seen 12 s ago in the reply to this replica's own look-up; TTL 30 s; expires in 18 s; \
         goes in 23 s if it is not seen again\n\
         \x20 192.0.2.2: seen 90 s ago in the reply to this replica's own look-up; TTL 60 s; expires 30 s ago; \
         goes when a look-up no longer has it, not before 25 s ago; first queried by 10.0.0.7; not in the object yet\n\
         \x20 next look-up in 18 s\n\
         As of 2027-01-15T08:00:00Z, by the replica that leads."
    );
    let json = serde_json::to_value(explain(WWW, &known)).unwrap();
    assert_eq!(json["isThere"], true);
    let address = &json["names"][0]["addresses"][0];
    assert_eq!(address["seen"], "2027-01-15T07:59:48Z");
    assert_eq!(address["goes"], "2027-01-15T08:00:23Z");
    assert_eq!(address["inObject"], true);
    assert_eq!(json["names"][0]["addresses"][1]["goesOnceLookedUp"], true);
    assert_eq!(json["names"][0]["rules"][0]["object"], "team/default");
}

#[test]
fn an_address_is_explained_with_its_names_including_wildcard_names() {
    let shown = vec![(address("a.example.com", "192.0.2.1", -1, 30), true)];
    let mut known = known(vec![facts("*.example.com", shown)]);
    rule(&mut known, "*.example.com");
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
fn a_wildcard_that_a_name_just_misses_is_named_with_the_depth() {
    let mut known = known(Vec::new());
    rule(&mut known, "*.example.com");
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
    assert_eq!(reasons("www.example.org", &known), ["NoRule"]);
    let near: BTreeSet<_> = near_misses(&Asked::new("a.b.example.com", None))
        .into_iter()
        .collect();
    // Without the wildcard that matches it.
    let expected = ["*.a.b.example.com", "*.example.com"].map(name);
    assert_eq!(near, expected.into());
}

#[test]
fn a_name_that_no_answer_had_says_what_is_done_about_it() {
    let empty = |lookups: u32| NameFacts {
        fruitless_lookups: lookups,
        ..facts(WWW, Vec::new())
    };
    let mut it = known(vec![empty(0)]);
    rule(&mut it, WWW);
    assert_eq!(reasons(WWW, &it), ["NoAddress", "NotLookedUp"]);
    it.facts.as_mut().unwrap().names = vec![empty(3)];
    assert_eq!(reasons(WWW, &it), ["NoAddress", "FruitlessLookups"]);
    it.facts.as_mut().unwrap().leader = false;
    assert_eq!(reasons(WWW, &it), ["NoAddress", "NotLeader"]);
    it.facts.as_mut().unwrap().lookups = false;
    assert_eq!(reasons(WWW, &it), ["NoAddress", "NoLookups"]);
    let mut wildcard = known(vec![facts("*.example.com", Vec::new())]);
    rule(&mut wildcard, "*.example.com");
    assert_eq!(reasons(WWW, &wildcard), ["NoAddress", "OnlyWildcard"]);
}

#[test]
fn a_rule_is_told_with_its_index_its_ports_and_whether_it_denies() {
    let shown = || vec![(address(WWW, "192.0.2.1", -10, 30), true)];
    let mut known = known(vec![facts(WWW, shown())]);
    rule(&mut known, WWW);
    let uses = known.uses.get_mut(&name(WWW)).unwrap();
    let rule = &mut uses.rules[0];
    (rule.is_for_ports, rule.more_rules) = (true, 1);
    let said = text(WWW, &known);
    let words = "Allow in team/default egress[3] and another rule for some ports only, object";
    assert!(said.contains(words), "{said}");

    let uses = known.uses.get_mut(&name(WWW)).unwrap();
    (uses.rules[0].allowed, uses.rules[0].denied) = (false, true);
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
        let said = text(about, &known);
        assert!(said.contains(words), "{said}");
    }
    // Another namespace allows it.
    let uses = known.uses.get_mut(&name(WWW)).unwrap();
    let allowing = RuleUse {
        allowed: true,
        denied: false,
        ..uses.rules[0].clone()
    };
    uses.rules.push(allowing);
    assert!(!text(WWW, &known).contains("Deny rules only"));
}

#[test]
fn an_address_that_a_guard_refuses_says_which() {
    let mut it = known(Vec::new());
    assert_eq!(reasons("198.51.100.1", &it), ["NoAddress"]);
    it.facts.as_mut().unwrap().guarded = Some("cloud-metadata");
    assert_eq!(reasons("169.254.169.254", &it), ["Guarded"]);
    let words = text("169.254.169.254", &it);
    assert!(words.contains("the guard `cloud-metadata` refuses it") && !words.contains("--"));
    it.facts.as_mut().unwrap().guarded = Some("node");
    let words = text("198.51.100.1", &it);
    assert!(
        words.contains("the guard `node` refuses it") && words.contains("--allow-node-addresses")
    );
}

#[test]
fn what_is_there_for_another_namespace_is_not_there_for_this_one() {
    let shown = vec![(address(WWW, "192.0.2.1", -10, 30), true)];
    let mut known = known(vec![facts(WWW, shown)]);
    known.uses.insert(
        name(WWW),
        NameUses {
            elsewhere: 2,
            ..NameUses::default()
        },
    );
    let asked = Asked::new(WWW, Some("mine".to_owned()));
    let explanation = Explanation::new(&asked, &known, &PeerIds::default());
    assert!(!explanation.is_there);
    let text = explanation.text.join("\n");
    assert!(
        text.starts_with("www.example.com. is not there for namespace mine.\n"),
        "{text}"
    );
    assert!(text.contains("of other namespaces that do: 2"), "{text}");
}

#[test]
fn a_text_that_is_no_name_says_why_and_which_rules_have_it_in_vain() {
    let mut known = KnownFacts {
        facts: None,
        ..known(Vec::new())
    };
    known.refused_rules = vec![(
        key("team", "default"),
        "\"a_b.example.com\" (why)".to_owned(),
    )];
    known.out_of_sync = vec![(Source::EgressFirewall, "gone\u{1b}[2J".to_owned())];
    known.unreadable = vec![(Source::EgressFirewall, key("x", "y"))];
    known.left_out = vec![(Source::DnsResolver, key("team", "last"))];
    assert_eq!(
        reasons("a_b.example.com", &known),
        [
            "InvalidName",
            "NameRefused",
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
fn an_unwanted_answer_and_an_object_without_a_rule_are_told() {
    let mut known = known(vec![NameFacts {
        wanted: false,
        ..facts(WWW, Vec::new())
    }]);
    known.unwanted = vec![Observation {
        name: name(WWW),
        family: Family::V4,
        addresses: [("192.0.2.7".parse().unwrap(), 30)].into_iter().collect(),
        at: at(-3),
        answered_at: None,
        given: at(-3),
        client: None,
        truncated: false,
        source: Provenance::REMEMBERED,
    }];
    assert_eq!(
        reasons(WWW, &known),
        ["NoRule", "ObjectWithoutRule", "SeenUnwanted"]
    );
    assert!(text(WWW, &known).contains("www.example.com. has 192.0.2.7 ("));
}

#[test]
fn what_is_wrong_is_told_of_what_is_there_too() {
    let shown = vec![(address(WWW, "192.0.2.1", -10, 30), true)];
    let mut known = known(vec![NameFacts {
        left_out: 4,
        over_limit: true,
        failed_writes: 2,
        failures: vec![FailureView {
            name: name(WWW),
            failures: 3,
            failure: Some(Failure::Timeout),
        }],
        ..facts(WWW, shown)
    }]);
    rule(&mut known, WWW);
    assert!(explain(WWW, &known).is_there);
    assert_eq!(
        reasons(WWW, &known),
        ["Full", "NotWritten", "Degraded", "LimitExceeded"]
    );
}

#[test]
fn however_much_there_is_the_lines_are_few() {
    let many = |of: &str| {
        let all = (0..1_000_u32).map(|i| {
            (
                address(of, &std::net::Ipv4Addr::from(i + 1).to_string(), 0, 30),
                true,
            )
        });
        NameFacts {
            more_addresses: 5,
            ..facts(of, all.collect())
        }
    };
    let mut known = known(
        (0..1_000)
            .map(|i| many(&format!("n{i}.example.com")))
            .collect(),
    );
    for i in 0..1_000 {
        rule(&mut known, &format!("n{i}.example.com"));
    }
    let lines = explain("192.0.2.1", &known).text;
    assert!(lines.len() < 2_000, "{}", lines.len());
    assert!(lines.contains(&"  and 965 more addresses: `-o json` has at most 1000".to_owned()));
    assert!(lines.contains(&"  and 960 more names: `-o json` has at most 1000".to_owned()));
}
