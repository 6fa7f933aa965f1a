//! Operations as they are written, and replies as they are read.

use super::*;

fn outcome_of(operations: usize, json: &str) -> Outcome {
    outcome(operations, &RawValue::from_string(json.to_owned()).unwrap())
}

#[test]
fn operations_are_written_as_the_rfc_has_them() {
    let uuid: Uuid = "b487b549-9d01-481e-aaf8-d194f26edc55".parse().unwrap();
    let table = || "Book".to_owned();
    for (operation, json) in [
        (
            Operation::Insert {
                table: table(),
                row: Row::from([("title".into(), "x".into())]),
            },
            r#"{"op":"insert","table":"Book","row":{"title":"x"}}"#,
        ),
        (
            Operation::Mutate {
                table: table(),
                filter: vec![Condition::uuid(uuid)],
                mutations: vec![Mutation(
                    "authors".into(),
                    Mutator::Insert,
                    Datum::strings(["a"]),
                )],
            },
            r#"{"op":"mutate","table":"Book","where":[["_uuid","==",["uuid","b487b549-9d01-481e-aaf8-d194f26edc55"]]],"mutations":[["authors","insert",["set",["a"]]]]}"#,
        ),
        (
            Operation::Delete {
                table: table(),
                filter: vec![Condition::has_pair("ids", "k", "v")],
            },
            r#"{"op":"delete","table":"Book","where":[["ids","includes",["map",[["k","v"]]]]]}"#,
        ),
        (
            Operation::Wait {
                table: table(),
                filter: vec![],
                columns: vec!["title".into()],
                until: Until::NotEqual,
                rows: vec![],
                timeout: 0,
            },
            r#"{"op":"wait","table":"Book","where":[],"columns":["title"],"until":"!=","rows":[],"timeout":0}"#,
        ),
    ] {
        assert_eq!(serde_json::to_string(&operation).unwrap(), json);
    }
}

#[test]
fn the_length_is_known_before_it_is_written() {
    let addresses: Vec<_> = (0..1000)
        .map(|n| format!("10.0.{}.{}", n / 250, n % 250))
        .collect();
    let operation = Operation::Mutate {
        table: "Book".into(),
        filter: vec![Condition::uuid(Uuid::nil())],
        mutations: vec![Mutation(
            "authors".into(),
            Mutator::Insert,
            Datum::strings(addresses),
        )],
    };
    let (known, written) = (
        operation.approximate_len(),
        serde_json::to_string(&operation).unwrap().len(),
    );
    assert!(known.abs_diff(written) < written / 5, "{known} {written}");
}

#[test]
fn results_are_told_apart_operation_by_operation() {
    let json = r#"[{"uuid":["uuid","b487b549-9d01-481e-aaf8-d194f26edc55"]},{"count":1},{}]"#;
    match outcome_of(3, json) {
        Outcome::Done(results) => {
            let told: Vec<_> = results
                .iter()
                .map(|r| (r.uuid().is_some(), r.count))
                .collect();
            assert_eq!(told, [(true, None), (false, Some(1)), (false, None)]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_failed_operation_is_named() {
    let refusal = |operations, json| match outcome_of(operations, json) {
        Outcome::Refused(refusal) => (refusal.operation, refusal.to_string()),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refusal(
            3,
            r#"[{"count":1},{"error":"timed out","details":"no"},null]"#
        ),
        (Some(1), "operation 1: timed out: no".to_owned())
    );
    assert_eq!(
        refusal(1, r#"[{},{"error":"constraint violation"}]"#),
        (None, "constraint violation".to_owned())
    );
}

#[test]
fn a_reply_that_makes_no_sense_leaves_the_outcome_unknown() {
    for (operations, json) in [
        (1, "{}"),
        (1, "[]"),
        (2, "[{}]"),
        (1, "[null]"),
        (1, "[{},{}]"),
        (1, "[3]"),
    ] {
        assert!(
            matches!(outcome_of(operations, json), Outcome::Unknown(_)),
            "{json}"
        );
    }
}
