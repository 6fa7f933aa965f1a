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
        ("w", "[null]"),
        ("w", "[{},{}]"),
        ("w", "[{},{},{\"error\":\"late\"}]"),
        ("w", "[3]"),
        ("w", "[{\"error\":5}]"),
        ("m", "[{}]"),
        ("m", "[{\"count\":-1}]"),
        ("i", "[{}]"),
        ("i", "[{\"uuid\":[\"uuid\",\"x\"]}]"),
        ("i", "[{\"uuid\":[\"named-uuid\",\"x\"]}]"),
        ("s", "[{\"rows\":{}}]"),
        ("s", "[{\"rows\":[3]}]"),
    ] {
        assert!(
            matches!(outcome_of(operations, json), Outcome::Unknown(_)),
            "{operations} {json}"
        );
    }
}
