//! Several tables in one monitor.

use serde_json::{Value, json, value::to_raw_value};

use super::{
    testing::{Book, Shelf},
    *,
};

const A: &str = "b487b549-9d01-481e-aaf8-d194f26edc55";

type Library = (Book, Shelf);

#[test]
fn apply_to_each_table_its_own_rows() {
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
