//! Declared tables against schemas and updates.

use serde_json::{Value, json};

use super::*;
use crate::{Condition, Record, Row, Schema, Tables};

table! {
    /// A row with a column of each kind.
    struct Everything in "Everything", key name: SmolStr, where [Condition::has_pair("notes", "k", "v")] {
        name: SmolStr,
        r#type: String,
        count: i64,
        ratio: f64,
        works: bool,
        parent: Uuid,
        nick: Option<String>,
        members: BTreeSet<Uuid>,
        notes: BTreeMap<String, String>,
        newer: BTreeSet<i64> = optional,
    }
}

fn columns() -> Value {
    let many = |kind: Value| json!({"type": {"key": kind, "min": 0, "max": "unlimited"}});
    json!({
        "name": {"type": "string"},
        "type": {"type": {"key": {"type": "string", "enum": ["set", ["a", "b"]]}}},
        "count": {"type": "integer"},
        "ratio": {"type": "real"},
        "works": {"type": "boolean"},
        "parent": {"type": {"key": {"type": "uuid", "refTable": "Everything"}}},
        "nick": {"type": {"key": "string", "min": 0}},
        "members": many(json!({"type": "uuid", "refTable": "Everything"})),
        "notes": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}},
        "newer": many(json!("integer")),
    })
}

fn asked(columns: &Value) -> Result<Value, String> {
    let schema: Schema = serde_json::from_value(json!({
        "name": "Library", "version": "1.0.0", "tables": {"Everything": {"columns": columns}}
    }))
    .unwrap();
    let requests = Everything::requests(&schema).map_err(|error| error.to_string())?;
    Ok(serde_json::to_value(requests).unwrap())
}

fn row(json: Value) -> Row {
    serde_json::from_value(json).unwrap()
}

#[test]
fn table_requests_its_columns_and_optional_ones_that_exist() {
    let mut columns = columns();
    let all = asked(&columns).unwrap();
    let request = &all["Everything"][0];
    assert_eq!(request["columns"].as_array().unwrap().len(), 10);
    assert_eq!(request["columns"][1], "type");
    assert_eq!(request["where"][0][0], "notes");
    columns.as_object_mut().unwrap().remove("newer");
    let older = asked(&columns).unwrap();
    assert_eq!(
        older["Everything"][0]["columns"].as_array().unwrap().len(),
        9
    );
}

#[test]
fn modify_each_kind_of_column_as_protocol_says() {
    let [a, b] = [1, 2].map(Uuid::from_u128);
    let mut it = Everything::read(row(json!({
        "name": "x", "type": "a", "count": -3, "ratio": 2, "works": true, "parent": ["uuid", a],
        "nick": "n", "members": ["set", [["uuid", a], ["uuid", b]]],
        "notes": ["map", [["k", "1"], ["l", "2"]]],
    })))
    .unwrap();
    assert_eq!(
        (it.key(), it.count, it.ratio, it.works),
        (Some("x".into()), -3, 2.0, true)
    );
    it.modify(row(json!({
        "ratio": 1.5, "nick": ["set", []], "members": ["uuid", a], "newer": 7,
        "notes": ["map", [["k", "1"], ["l", "3"], ["m", "4"]]],
    })))
    .unwrap();
    let expected = Everything {
        name: "x".into(),
        r#type: "a".to_owned(),
        count: -3,
        ratio: 1.5,
        works: true,
        parent: a,
        nick: None,
        members: [b].into(),
        notes: [("l", "3"), ("m", "4")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into(),
        newer: [7].into(),
    };
    assert_eq!(it, expected);
}

#[test]
fn read_value_of_other_type_names_column() {
    for (difference, words) in [
        (json!({"name": 1}), "column name: the value is not a string"),
        (
            json!({"count": ["set", [1, 2]]}),
            "column count: the value is not one element",
        ),
        (
            json!({"nick": ["set", ["a", "b"]]}),
            "column nick: the value is not a set of one at most",
        ),
        (
            json!({"newer": ["set", [1, 1]]}),
            "column newer: it has an element twice",
        ),
        (
            json!({"notes": ["map", [["k", "1"], ["k", "2"]]]}),
            "column notes: it has an element twice",
        ),
        (
            json!({"works": "yes"}),
            "column works: the value is not a boolean",
        ),
        (
            json!({"other": 1}),
            "column other: the client did not request it",
        ),
    ] {
        let error = Everything::read(row(difference)).unwrap_err().to_string();
        assert!(error.starts_with(words), "{error}");
    }
}
