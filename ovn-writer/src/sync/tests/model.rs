//! The table `Address_Set` as a server has it: what transactions do to it, and what clients are told.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::ovsdb::{
    Atom, Condition, Datum, Mutation, Mutator, Operation, Outcome, Refusal, Row, ServerError,
};

/// The table `Address_Set` as the server has it.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) rows: BTreeMap<Uuid, ModelRow>,
    pub(super) made: u128,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct ModelRow {
    pub(super) name: String,
    pub(super) addresses: BTreeSet<String>,
    pub(super) external_ids: BTreeMap<String, String>,
}

impl ModelRow {
    pub(super) fn of(columns: Row) -> Self {
        let mut row = Self::default();
        for (column, value) in columns {
            match column.as_str() {
                "name" => row.name = value.into_string().unwrap(),
                "addresses" => row.addresses = strings(value),
                "external_ids" => {
                    row.external_ids = value.into_string_map().unwrap().into_iter().collect();
                }
                other => panic!("{other}"),
            }
        }
        row
    }

    pub(super) fn json(&self) -> Value {
        let ids: Vec<_> = self.external_ids.iter().collect();
        json!({"name": self.name, "addresses": ["set", self.addresses], "external_ids": ["map", ids]})
    }

    pub(super) fn id(&self, key: &str) -> &str {
        self.external_ids.get(key).map_or("", String::as_str)
    }
}

pub(super) fn strings(set: Datum) -> BTreeSet<String> {
    set.into_set()
        .unwrap()
        .into_iter()
        .map(|atom| atom.into_string().unwrap())
        .collect()
}

pub(super) fn uuid_of(filter: &[Condition]) -> Uuid {
    match filter {
        [condition] => match condition.2 {
            Datum::Atom(Atom::Uuid(uuid)) => uuid,
            _ => panic!("{condition:?}"),
        },
        _ => panic!("{filter:?}"),
    }
}

impl Model {
    pub(super) fn insert(&mut self, row: ModelRow) {
        self.made += 1;
        self.rows.insert(Uuid::from_u128(self.made), row);
    }

    /// Carries a transaction out as the server would.
    pub(super) fn transact(&mut self, operations: &[Operation]) -> Outcome {
        let mut next = self.clone();
        let mut results = Vec::new();
        for (index, operation) in operations.iter().enumerate() {
            let mut count = None;
            match operation.clone() {
                Operation::Insert { row, .. } => next.insert(ModelRow::of(row)),
                Operation::Mutate {
                    filter, mutations, ..
                } => {
                    let mut row = next.rows.get_mut(&uuid_of(&filter));
                    count = Some(u64::from(row.is_some()));
                    for Mutation(column, mutator, set) in mutations {
                        assert_eq!(column, "addresses");
                        let Some(row) = row.as_mut() else { continue };
                        match mutator {
                            Mutator::Insert => row.addresses.extend(strings(set)),
                            Mutator::Delete => {
                                let gone = strings(set);
                                row.addresses.retain(|address| !gone.contains(address));
                            }
                        }
                    }
                }
                Operation::Delete { filter, .. } => {
                    count = Some(u64::from(next.rows.remove(&uuid_of(&filter)).is_some()));
                }
                Operation::Wait { filter, rows, .. } => {
                    let there = next
                        .rows
                        .get(&uuid_of(&filter))
                        .map(|row| row.external_ids.clone());
                    let expected = rows
                        .into_iter()
                        .next()
                        .map(|row| ModelRow::of(row).external_ids);
                    if there != expected {
                        return refused(Some(index), "timed out");
                    }
                }
            }
            let result = json!({"count": count});
            results.push(serde_json::from_value(result).unwrap());
        }
        let names: BTreeSet<_> = next.rows.values().map(|row| &row.name).collect();
        if names.len() != next.rows.len() {
            return refused(None, "constraint violation");
        }
        *self = next;
        Outcome::Done(results)
    }
}

pub(super) fn refused(operation: Option<usize>, error: &str) -> Outcome {
    let reason = ServerError {
        error: error.to_owned(),
        details: None,
    };
    Outcome::Refused(Refusal { operation, reason })
}

/// What the server would send a client that has `before`.
pub(super) fn updates(before: &Model, after: &Model) -> Value {
    let mut rows = serde_json::Map::new();
    for (uuid, row) in &after.rows {
        let update = match before.rows.get(uuid) {
            None => json!({"insert": row.json()}),
            Some(old) if old == row => continue,
            Some(old) => {
                let difference: Vec<_> =
                    old.addresses.symmetric_difference(&row.addresses).collect();
                assert_eq!(old.external_ids, row.external_ids);
                json!({"modify": {"addresses": ["set", difference]}})
            }
        };
        rows.insert(uuid.to_string(), update);
    }
    for uuid in before
        .rows
        .keys()
        .filter(|uuid| !after.rows.contains_key(uuid))
    {
        rows.insert(uuid.to_string(), json!({"delete": null}));
    }
    if rows.is_empty() {
        json!({})
    } else {
        json!({"Address_Set": rows})
    }
}
