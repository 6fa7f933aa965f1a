//! Several tables in one monitor.

use serde_json::{Value, json, value::to_raw_value};

use super::{
    testing::{Book, Shelf},
    *,
};

const A: &str = "b487b549-9d01-481e-aaf8-d194f26edc55";

type Library = (Book, Shelf);

pub(crate) fn schema(tables: Value) -> Schema {
    let schema = json!({"name": "Library", "version": "1.0.0", "tables": tables});
    serde_json::from_value(schema).unwrap()
}

pub(crate) fn books() -> Value {
    let strings = json!({"key": "string", "min": 0, "max": "unlimited"});
    let map = json!({"key": "string", "value": "string", "min": 0, "max": "unlimited"});
    json!({"columns": {
        "title": {"type": "string"}, "authors": {"type": strings}, "ids": {"type": map},
    }})
}

#[test]
fn everything_is_asked_for_that_the_schema_has() {
    let asked = |tables: Value| {
        let requests = Library::requests(&schema(tables)).map_err(|error| error.to_string())?;
        let requests = serde_json::to_value(requests).unwrap();
        Ok::<_, String>(requests["Shelf"].clone())
    };
    let shelves = json!({"columns": {"place": {"type": "string"}}});
    assert_eq!(
        asked(json!({"Book": books(), "Shelf": shelves})),
        Ok(json!([{"columns": ["place"]}]))
    );
    assert_eq!(
        asked(json!({"Book": books(), "Shelf": {"columns": {}}})),
        Ok(json!([{"columns": []}]))
    );
    assert_eq!(asked(json!({"Book": books()})), Ok(Value::Null));
    assert_eq!(
        asked(json!({"Shelf": shelves})),
        Err("the schema of Library 1.0.0 has no column Book.title".to_owned())
    );
}

#[test]
fn each_table_has_its_own_rows_and_changes() {
    let (mut replica, mut changes) = Default::default();
    let mut apply = |updates: Value| {
        let json = to_raw_value(&updates).unwrap();
        let updates = TableUpdates::read_differences(&json).unwrap();
        Library::apply(&mut replica, updates, &mut changes).map_err(|error| error.to_string())?;
        let (books, shelves) = &replica;
        Ok::<_, String>((books.len(), shelves.len()))
    };
    assert_eq!(
        apply(json!({"Shelf": {A: {"insert": {"place": "left"}}}})),
        Ok((0, 1))
    );
    // The same `_uuid` in another table is another row.
    assert_eq!(
        apply(json!({"Book": {A: {"insert": {"title": "x"}}}})),
        Ok((1, 1))
    );
    assert_eq!(
        apply(json!({"Magazine": {A: {"insert": {}}}})).unwrap_err(),
        "an update of the table Magazine, which is not monitored"
    );
    let (books, shelves): &(HashSet<String>, HashSet<String>) = &changes;
    assert!(books.contains("x") && shelves.contains("left"));
    assert!(!Library::nothing_changed(&changes));
    assert!(Library::nothing_changed(&Default::default()));
}
