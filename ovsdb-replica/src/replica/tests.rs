//! Updates that do not fit. Those that do are in [`random`].

mod random;

use serde_json::value::RawValue;

use super::{
    super::{Tables, tables::testing::Book},
    *,
};

const A: &str = "b487b549-9d01-481e-aaf8-d194f26edc55";
const B: &str = "c7e50270-1e45-417a-ade9-4c901800968a";

fn apply(replica: &mut Replica<Book>, json: &str) -> Result<Vec<String>, String> {
    let json = RawValue::from_string(json.to_owned()).unwrap();
    let mut touched = HashSet::default();
    Book::apply(
        replica,
        TableUpdates::read_differences(&json).map_err(|error| error.to_string())?,
        &mut touched,
    )
    .map_err(|error| error.to_string())?;
    let mut touched: Vec<_> = touched.into_iter().collect();
    touched.sort();
    Ok(touched)
}

fn one(kind: &str, row: &str) -> String {
    format!(r#"{{"Book":{{"{A}":{{"{kind}":{row}}}}}}}"#)
}

fn with_one_book() -> Replica<Book> {
    let mut replica = Replica::default();
    let row = r#"{"title":"x","authors":["set",["a","b"]],"ids":["map",[["k","1"],["l","2"]]]}"#;
    assert_eq!(apply(&mut replica, &one("initial", row)).unwrap(), ["x"]);
    replica
}

#[test]
fn apply_update_that_does_not_fit_is_refused() {
    for (json, expected) in [
        (one("insert", r#"{"title":"z"}"#), "exists already"),
        (one("delete", "null").replace(A, B), "does not exist"),
        (one("modify", "{}").replace(A, B), "does not exist"),
        (r#"{"Magazine":{}}"#.to_owned(), "the table Magazine"),
        (
            one("modify", r#"{"pages":3}"#),
            "column pages: the client did not request it",
        ),
        (one("modify", "[]"), "invalid type"),
        (one("modify", r#"{"title":["bag",[]]}"#), "unknown tag"),
        (one("new", "{}"), "unknown variant"),
        (one("delete", "{}"), "invalid type"),
        (one("modify", "{}").replace(A, "1"), "UUID"),
    ] {
        let error = apply(&mut with_one_book(), &json).unwrap_err();
        assert!(error.contains(expected), "{json}: {error}");
    }
}
