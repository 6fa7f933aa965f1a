//! The parsing of replies. Real servers show the encoding of operations.

use super::*;

/// The outcome of operations, each given by its first letter, for this reply.
fn outcome_of(operations: &str, json: &str) -> Outcome {
    let (table, filter) = (|| Cow::from("Book"), Vec::new);
    let operation = |letter| match letter {
        'i' => Operation::insert(table(), Row::new()),
        'm' => Operation::Mutate {
            table: table(),
            filter: filter(),
            mutations: vec![],
        },
        'd' => Operation::Delete {
            table: table(),
            filter: filter(),
        },
        's' => Operation::Select {
            table: table(),
            filter: filter(),
            columns: vec![],
        },
        _ => Operation::wait_for_none(table(), filter()),
    };
    let operations: Vec<_> = operations.chars().map(operation).collect();
    outcome(&operations, &json.into())
}

#[test]
fn outcome_done_has_result_of_each_operation() {
    let json = r#"[{"uuid":["uuid","b487b549-9d01-481e-aaf8-d194f26edc55"]},{"count":1},{"count":0},{},{"rows":[{"title":"x"}]}]"#;
    match outcome_of("imdws", json) {
        Outcome::Done(results) => {
            let told: Vec<_> = results
                .iter()
                .map(|r| (r.uuid().is_some(), r.count))
                .collect();
            let expected = [
                (true, None),
                (false, Some(1)),
                (false, Some(0)),
                (false, None),
                (false, None),
            ];
            assert_eq!(told, expected);
            let row = Row::from([("title".into(), "x".into())]);
            assert_eq!(results[4].rows, Some(vec![row]));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn outcome_refused_names_failed_operation() {
    let refusal = |operations, json| match outcome_of(operations, json) {
        Outcome::Refused(refusal) => (refusal.operation, refusal.to_string()),
        other => panic!("{other:?}"),
    };
    let json = r#"[{"count":1},{"error":"timed out","details":"no"},null]"#;
    assert_eq!(
        refusal("dwd", json),
        (Some(1), "operation 1: timed out: no".to_owned())
    );
    let json = r#"[{"count":1},{"error":"constraint violation"}]"#;
    assert_eq!(
        refusal("d", json),
        (None, "constraint violation".to_owned())
    );
}

#[test]
fn outcome_of_other_reply_is_unknown() {
    for (operations, json) in [
        ("w", "{}"),
        ("w", "[]"),
        ("ww", "[{}]"),
        ("w", "[null]"),
        ("w", "[{},{}]"),
        ("w", "[{},null]"),
        ("w", "[{},{},{\"error\":\"late\"}]"),
        ("w", "[3]"),
        ("w", "[[]]"),
        ("w", "[{\"error\":5}]"),
        ("w", "[{\"error\":\"x\",\"details\":5}]"),
        ("m", "[{}]"),
        ("d", "[{}]"),
        ("d", "[{\"error\":null}]"),
        ("m", "[{\"count\":\"1\"}]"),
        ("m", "[{\"count\":-1}]"),
        ("m", "[{\"count\":null}]"),
        ("i", "[{}]"),
        ("i", "[{\"count\":1}]"),
        ("i", "[{\"uuid\":[\"uuid\",\"x\"]}]"),
        ("i", "[{\"uuid\":[\"named-uuid\",\"x\"]}]"),
        ("i", "[{\"uuid\":\"x\"}]"),
        ("s", "[{}]"),
        ("s", "[{\"rows\":{}}]"),
        ("s", "[{\"rows\":[3]}]"),
    ] {
        assert!(
            matches!(outcome_of(operations, json), Outcome::Unknown(_)),
            "{operations} {json}"
        );
    }
}

#[test]
fn next_step_follows_outcome() {
    let step = |json| outcome_of("m", json).next_step();
    assert_eq!(step(r#"[{"count":1}]"#), None);
    assert_eq!(step(r#"[{"error":"timed out"}]"#), Some(NextStep::Retry));
    let constraint = r#"[{"count":1},{"error":"constraint violation"}]"#;
    assert_eq!(step(constraint), Some(NextStep::Refuse));
    assert_eq!(step("[]"), Some(NextStep::UnknownOutcome));
}
