use serde_json::{Value, json};

use super::*;
use crate::api::Family;

fn rule(owner: &str, priority: i64) -> RuleInDatabase {
    RuleInDatabase {
        table: "ACL".to_owned(),
        action: "allow".to_owned(),
        direction: "to-lport".to_owned(),
        priority: Some(priority),
        owner: Some(owner.to_owned()),
        index: Some(10_000 - priority),
    }
}

fn difference(name: &str, rules: &[RuleInDatabase]) -> SetDifference {
    SetDifference {
        name: name.to_owned(),
        set: "a1".to_owned(),
        controller: String::new(),
        family: Family::V4,
        kind: DifferenceKind::Addresses,
        missing: vec!["192.0.2.1".to_owned()],
        surplus: vec!["192.0.2.2".to_owned()],
        action: Action::Soon,
        rules: rules.to_vec(),
    }
}

#[test]
fn comparison_is_ordered_by_rule() {
    let mut comparison = Comparison {
        objects: 3,
        rows: 4,
        counts: [("missing_address".to_owned(), 3)].into(),
        absent: vec!["z.test.".to_owned()],
        differences: vec![
            difference("a.test.", &[]),
            difference("b.test.", &[rule("team-b", 10_000), rule("team-c", 9_999)]),
            difference("c.test.", &[rule("team-a", 9_998)]),
            difference("d.test.", &[rule("team-b", 10_000)]),
        ],
        ..Comparison::default()
    };
    comparison.sort();
    let set = |name: &str| {
        format!("  {name} a1 v4: +192.0.2.1 -192.0.2.2 (repaired if it lasts for 500 ms)")
    };
    let expected = [
        "ACL allow to-lport 9998 of team-a, egress[2]:".to_owned(),
        set("c.test."),
        "ACL allow to-lport 10000 of team-b, egress[0]:".to_owned(),
        set("b.test."),
        "    also ACL allow to-lport 9999 of team-c, egress[1]".to_owned(),
        set("d.test."),
        "no rule:".to_owned(),
        set("a.test."),
        "1 names in use have no DNSNameResolver object, and their address sets keep their addresses: z.test.".to_owned(),
        "3 objects, 4 rows: 0 missing rows, 0 name clashes, 3 missing addresses, 0 surplus addresses, 0 unwanted rows".to_owned(),
    ];
    assert_eq!(comparison.to_string(), expected.join("\n"));
    assert!(!comparison.is_same());
}

#[test]
fn status_reads_back_as_written_and_begins_with_its_head() {
    let status = Status {
        head: Head {
            schema: SCHEMA,
            program: Program::OvnWriter,
            started: Timestamp::from_millis(1_800_000_000_000),
            ..Head::default()
        },
        history: vec![Series {
            title: "events/s".to_owned(),
            step_seconds: 30,
            values: vec![None, Some(1.5)],
        }],
        ovn_writer: Some(OvnWriterFacts {
            idle: Some(Idle::DryRun),
            ..OvnWriterFacts::default()
        }),
        ..Status::default()
    };
    let json = serde_json::to_value(&status).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["program"], "ovn-writer");
    assert_eq!(json["started"], "2027-01-15T08:00:00Z");
    assert_eq!(json["problems"], json!([]));
    assert_eq!(json["history"][0]["values"], json!([null, 1.5]));
    assert_eq!(json["ovnWriter"]["idle"], "dry-run");
    assert_eq!(json.get("collector"), None::<&Value>);
    assert_eq!(serde_json::from_value::<Status>(json).unwrap(), status);
}
