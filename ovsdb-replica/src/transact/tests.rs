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
