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
fn a_table_asks_for_its_columns_and_for_optional_ones_that_are_there() {
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
fn a_column_that_the_schema_lacks_or_has_otherwise_is_named() {
    let at_most_one = json!({"type": {"key": "string", "min": 0}});
    let several = json!({"type": {"key": "string", "min": 0, "max": "unlimited"}});
    let pair = json!({"type": {"key": "string", "value": "string", "min": 0}});
    for (column, kind, words) in [
        ("count", Value::Null, "has no column Everything.count"),
        (
            "count",
            json!({"type": "string"}),
            "Everything.count is not one integer",
        ),
        ("nick", several, "Everything.nick is not one string or none"),
        (
            "newer",
            at_most_one,
            "Everything.newer is not a set of integer",
        ),
        (
            "notes",
            pair,
            "Everything.notes is not a map of string to string",
        ),
    ] {
        let mut columns = columns();
        if kind.is_null() {
            columns.as_object_mut().unwrap().remove(column);
        } else {
            columns[column] = kind;
        }
        let error = asked(&columns).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn differences_change_each_kind_of_column_as_the_protocol_says() {
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
fn a_value_of_another_type_is_refused_with_the_column() {
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
