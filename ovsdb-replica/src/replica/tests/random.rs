//! Random updates: valid ones are applied, and invalid ones are at worst refused.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Map, Value, json, value::to_raw_value};

use super::*;

/// A small database, so that random changes hit the same rows.
type Model = BTreeMap<Uuid, Columns>;

#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Columns {
    title: String,
    authors: BTreeSet<String>,
    ids: BTreeMap<String, String>,
}

fn model() -> impl Strategy<Value = Model> {
    let columns = (
        "[xy]?",
        prop::collection::btree_set("[a-e]", 0..4),
        prop::collection::btree_map("[k-m]", "[0-2]", 0..3),
    );
    let columns = columns.prop_map(|(title, authors, ids)| Columns {
        title,
        authors,
        ids,
    });
    let uuid = (0_u128..6).prop_map(Uuid::from_u128);
    prop::collection::btree_map(uuid, columns, 0..6)
}

fn set(elements: impl IntoIterator<Item = String>) -> Value {
    let elements: Vec<_> = elements.into_iter().collect();
    match elements.as_slice() {
        [one] => json!(one),
        more => json!(["set", more]),
    }
}

fn map(pairs: impl IntoIterator<Item = (String, String)>) -> Value {
    json!(["map", pairs.into_iter().collect::<Vec<_>>()])
}

impl Columns {
    /// A row with every column.
    fn whole(&self) -> Value {
        json!({"title": self.title, "authors": set(self.authors.clone()), "ids": map(self.ids.clone())})
    }

    /// The difference in the form of `update3`.
    fn difference(&self, new: &Self) -> Value {
        let mut row = Map::new();
        if self.title != new.title {
            row.insert("title".to_owned(), json!(new.title));
        }
        let authors: Vec<_> = self
            .authors
            .symmetric_difference(&new.authors)
            .cloned()
            .collect();
        if !authors.is_empty() {
            row.insert("authors".to_owned(), set(authors));
        }
        let keys: BTreeSet<_> = self.ids.keys().chain(new.ids.keys()).collect();
        let pair = |key: &String| {
            let (before, after) = (self.ids.get(key), new.ids.get(key));
            // A removed pair comes with its old value, another one with its new value.
            (before != after).then(|| Some((key.clone(), after.or(before)?.clone())))?
        };
        let ids: Vec<_> = keys.into_iter().filter_map(pair).collect();
        if !ids.is_empty() {
            row.insert("ids".to_owned(), map(ids));
        }
        Value::Object(row)
    }
}

/// The server's update for a change.
fn updates(before: &Model, after: &Model) -> Value {
    let mut differences = Map::new();
    let uuids: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    for uuid in uuids {
        let difference = match (before.get(uuid), after.get(uuid)) {
            (None, Some(new)) => json!({"insert": new.whole()}),
            (Some(_), None) => json!({"delete": null}),
            (Some(old), Some(new)) if old != new => json!({"modify": old.difference(new)}),
            _ => continue,
        };
        differences.insert(uuid.to_string(), difference);
    }
    json!({ "Book": differences })
}

fn contents(replica: &Replica<Book>) -> Model {
    let columns = |book: &Book| Columns {
        title: book.title.clone(),
        authors: book.authors.clone(),
        ids: book.ids.clone(),
    };
    replica
        .iter()
        .map(|(uuid, book)| (uuid, columns(book)))
        .collect()
}

proptest! {
    #[test]
    fn apply_any_updates_gives_rows_of_server(states in prop::collection::vec(model(), 1..8)) {
        let mut replica = Replica::default();
        let mut before = Model::new();
        for after in states {
            let json = to_raw_value(&updates(&before, &after)).unwrap();
            let mut touched = HashSet::default();
            let updates = TableUpdates::read_differences(&json).unwrap();
            Book::apply(&mut replica, updates, &mut touched).unwrap();
            prop_assert_eq!(contents(&replica), after.clone());
            let titles = |model: &Model| -> BTreeSet<String> {
                let changed = |uuid: &&Uuid| before.get(uuid) != after.get(uuid);
                let rows = model.keys().filter(changed).map(|uuid| model[uuid].title.clone());
                rows.filter(|title| !title.is_empty()).collect()
            };
            let expected: BTreeSet<_> = titles(&before).union(&titles(&after)).cloned().collect();
            prop_assert_eq!(touched.into_iter().collect::<BTreeSet<_>>(), expected);
            let counted = after.values().filter(|row| row.authors.len() > 1).count();
            prop_assert_eq!(replica.counted(), counted);
            for title in ["x", "y"] {
                let found = replica.with_key(&title.to_owned()).count();
                prop_assert_eq!(found, after.values().filter(|row| row.title == title).count());
            }
            before = after;
        }
    }
}
