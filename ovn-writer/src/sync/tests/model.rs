//! A model of the database and of what its server tells, and a writer in front of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use proto::api::{DnsNameResolver, Family, address_set_id, address_set_name};
use runtime::store::Event;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::ovsdb::{Atom, Datum, Mutation, Mutator, Row, ServerError};

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
    fn of(columns: Row) -> Self {
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

    fn json(&self) -> Value {
        let ids: Vec<_> = self.external_ids.iter().collect();
        json!({"name": self.name, "addresses": ["set", self.addresses], "external_ids": ["map", ids]})
    }

    pub(super) fn id(&self, key: &str) -> &str {
        self.external_ids.get(key).map_or("", String::as_str)
    }
}

fn strings(set: Datum) -> BTreeSet<String> {
    set.into_set()
        .unwrap()
        .into_iter()
        .map(|atom| atom.into_string().unwrap())
        .collect()
}

fn uuid_of(filter: &[crate::ovsdb::Condition]) -> Uuid {
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

fn refused(operation: Option<usize>, error: &str) -> Outcome {
    let reason = ServerError {
        error: error.to_owned(),
        details: None,
    };
    Outcome::Refused(Refusal { operation, reason })
}

/// What the server would send a client that has `before`.
fn updates(before: &Model, after: &Model) -> Value {
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

/// A writer, the database, and what the writer has been told of it.
#[derive(Default)]
pub(super) struct World {
    pub(super) sync: Sync,
    pub(super) model: Model,
    pub(super) replica: Replica<AddressSet>,
    told: Model,
    pub(super) now: Option<Instant>,
}

impl World {
    pub(super) fn new() -> Self {
        let mut world = Self {
            now: Some(Instant::now()),
            ..Self::default()
        };
        world.read();
        world
    }

    pub(super) fn now(&self) -> Instant {
        self.now.unwrap()
    }

    pub(super) fn store(&mut self, event: Event<DnsNameResolver>) {
        let now = self.now();
        self.sync.store_changed(event, now);
    }

    /// The server tells of every change so far.
    pub(super) fn tell(&mut self) {
        let json = updates(&self.told, &self.model).to_string();
        let touched = self
            .replica
            .apply(serde_json::from_str(&json).unwrap())
            .unwrap();
        self.told = self.model.clone();
        self.sync.rows_changed(touched);
    }

    /// A new session.
    pub(super) fn read(&mut self) {
        self.replica = Replica::default();
        self.told = Model::default();
        self.tell();
        self.sync.database_read();
    }

    pub(super) fn next(&mut self) -> Option<Vec<Operation>> {
        let now = self.now();
        self.sync.next_transaction(&self.replica, now)
    }

    pub(super) fn finish(&mut self, outcome: Outcome) -> Finished {
        let now = self.now();
        self.sync.finished(outcome, &self.replica, now)
    }

    /// One transaction, if there is one to be done.
    pub(super) fn step(&mut self) -> Option<Finished> {
        let operations = self.next()?;
        let outcome = self.model.transact(&operations);
        self.tell();
        let finished = self.finish(outcome);
        if let Finished::StartOver(_) = finished {
            self.read();
        }
        Some(finished)
    }

    /// Transactions until there is nothing to do, not even later.
    pub(super) fn settle(&mut self) -> usize {
        self.tell();
        let mut count = 0;
        for _ in 0..1000 {
            match (self.step(), self.sync.next_retry()) {
                (Some(_), _) => count += 1,
                (None, None) => return count,
                (None, Some(retry)) => self.now = Some(retry),
            }
        }
        panic!("no end: {:?}", self.sync)
    }

    pub(super) fn rows(&self, name: &str, family: &str) -> Vec<&ModelRow> {
        let rows = self.model.rows.values();
        rows.filter(|r| r.id("k8s.ovn.org/name") == name && r.id("ip-family") == family)
            .collect()
    }

    pub(super) fn addresses(&self, name: &str, family: &str) -> Vec<&str> {
        match self.rows(name, family).as_slice() {
            [row] => row.addresses.iter().map(String::as_str).collect(),
            rows => panic!("{} rows of {name} {family}", rows.len()),
        }
    }
}

/// A row of another maker.
pub(super) fn foreign(
    controller: &str,
    name: &str,
    family: Family,
    addresses: &[&str],
) -> ModelRow {
    let id = address_set_id(controller, name, family);
    let ids = [
        ("k8s.ovn.org/owner-controller", controller),
        ("k8s.ovn.org/owner-type", "EgressFirewallDNS"),
        ("k8s.ovn.org/name", name),
        ("ip-family", family.as_str()),
        ("k8s.ovn.org/id", &id),
    ];
    ModelRow {
        name: address_set_name(&id),
        addresses: addresses.iter().map(|a| (*a).to_owned()).collect(),
        external_ids: ids
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
    }
}
