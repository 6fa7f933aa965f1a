//! Updates in the form of ovsdb-server, applied to books.

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

fn book(replica: &Replica<Book>) -> Book {
    replica.get(A.parse().unwrap()).unwrap().clone()
}

#[test]
fn rows_come_change_and_go() {
    let mut replica = with_one_book();
    let insert = format!(r#"{{"Book":{{"{B}":{{"insert":{{"title":"x","authors":"c"}}}}}}}}"#);
    assert_eq!(apply(&mut replica, &insert).unwrap(), ["x"]);
    assert_eq!(replica.len(), 2);
    assert_eq!(replica.with_key(&"x".into()).count(), 2);
    let change =
        format!(r#"{{"Book":{{"{A}":{{"modify":{{"title":"y"}}}},"{B}":{{"delete":null}}}}}}"#);
    assert_eq!(apply(&mut replica, &change).unwrap(), ["x", "y"]);
    assert_eq!(replica.with_key(&"x".into()).count(), 0);
    assert_eq!(replica.with_key(&"y".into()).count(), 1);
    assert_eq!(apply(&mut replica, &one("delete", "null")).unwrap(), ["y"]);
    assert!(replica.is_empty() && replica.keys().next().is_none());
}

#[test]
fn a_difference_is_the_exclusive_or() {
    let mut replica = with_one_book();
    let row = r#"{"authors":["set",["b","c"]],"ids":["map",[["k","9"],["l","2"],["n","3"]]]}"#;
    apply(&mut replica, &one("modify", row)).unwrap();
    let expected = Book {
        title: "x".into(),
        authors: ["a".into(), "c".into()].into(),
        ids: [("k".into(), "9".into()), ("n".into(), "3".into())].into(),
    };
    assert_eq!(book(&replica), expected);
    apply(&mut replica, &one("modify", r#"{"authors":"a"}"#)).unwrap();
    assert_eq!(book(&replica).authors, ["c".to_owned()].into());
}

#[test]
fn columns_that_are_left_out_have_their_default_or_their_value() {
    let mut replica = Replica::default();
    assert_eq!(
        apply(&mut replica, &one("insert", "{}")).unwrap(),
        Vec::<String>::new()
    );
    assert_eq!(book(&replica), Book::default());
    apply(&mut replica, &one("modify", r#"{"title":"x"}"#)).unwrap();
    apply(&mut replica, &one("modify", r#"{"authors":"a"}"#)).unwrap();
    assert_eq!(book(&replica).title, "x");
}

#[test]
fn what_does_not_fit_is_refused() {
    for (json, expected) in [
        (one("insert", r#"{"title":"z"}"#), "exists already"),
        (one("delete", "null").replace(A, B), "does not exist"),
        (one("modify", "{}").replace(A, B), "does not exist"),
        (r#"{"Magazine":{}}"#.to_owned(), "the table Magazine"),
        (
            one("modify", r#"{"pages":3}"#),
            "column pages: the client did not request it",
        ),
        (
            one("modify", r#"{"title":["set",[]]}"#),
            "column title: the value is not a string",
        ),
        (
            one("modify", r#"{"authors":["map",[]]}"#),
            "column authors: the value is not a set",
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

#[test]
fn a_row_that_stands_twice_in_one_message_is_not_lost() {
    let mut replica = Replica::default();
    let twice = format!(r#"{{"Book":{{"{A}":{{"insert":{{}}}},"{A}":{{"insert":{{}}}}}}}}"#);
    assert!(
        apply(&mut replica, &twice)
            .unwrap_err()
            .contains("exists already")
    );
}
