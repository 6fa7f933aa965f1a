//! A model of the northbound database: the effects of transactions, and the updates for clients.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use uuid::Uuid;

use ovsdb_replica::{
    Atom, Condition, Datum, Function, Mutation, Mutator, Operation, Outcome, Refusal, Row,
    ServerError, columns::ColumnValue, transact::OperationResult,
};

/// The used tables, as on the server.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    /// `Address_Set`.
    pub(super) rows: BTreeMap<Uuid, ModelRow>,
    pub(super) acls: BTreeMap<Uuid, ModelAcl>,
    pub(super) made: u128,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct ModelRow {
    pub(super) name: String,
    pub(super) addresses: BTreeSet<String>,
    pub(super) external_ids: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct ModelAcl {
    pub(super) expression: String,
    pub(super) external_ids: BTreeMap<String, String>,
}

impl ModelRow {
    pub(super) fn of(columns: Row) -> Self {
        let mut row = Self::default();
        for (column, value) in columns {
            match column.as_str() {
                "name" => row.name = value.into_string().unwrap().into(),
                "addresses" => row.addresses = strings(value),
                "external_ids" => {
                    row.external_ids.modify(value).unwrap();
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

    fn meets(&self, uuid: Uuid, condition: &Condition) -> bool {
        let Condition(column, function, value) = condition;
        match (&**column, function) {
            ("_uuid", Function::Equal) => *value == Datum::Atom(Atom::Uuid(uuid)),
            ("name", Function::Equal) => *value == Datum::from(self.name.as_str()),
            ("external_ids", Function::Includes | Function::Excludes) => {
                let mut pairs = BTreeMap::<String, String>::new();
                pairs.modify(value.clone()).unwrap();
                let has = |(key, value): (&String, &String)| self.id(key) == value;
                match function {
                    Function::Includes => pairs.iter().all(has),
                    _ => !pairs.iter().any(has),
                }
            }
            _ => panic!("{condition:?}"),
        }
    }
}

impl ModelAcl {
    fn json(&self) -> Value {
        let ids: Vec<_> = self.external_ids.iter().collect();
        json!({"match": self.expression, "external_ids": ["map", ids]})
    }
}

pub(super) fn strings(set: Datum) -> BTreeSet<String> {
    set.into_set()
        .unwrap()
        .into_iter()
        .map(|atom| atom.into_string().unwrap().into())
        .collect()
}

impl Model {
    pub(super) fn insert(&mut self, row: ModelRow) {
        self.made += 1;
        self.rows.insert(Uuid::from_u128(self.made), row);
    }

    pub(super) fn insert_acl(&mut self, acl: ModelAcl) -> Uuid {
        self.made += 1;
        let uuid = Uuid::from_u128(self.made);
        self.acls.insert(uuid, acl);
        uuid
    }

    /// Carries a transaction out like a server.
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
                    let uuids = next.select(&filter);
                    count = Some(uuids.len() as u64);
                    for Mutation(column, mutator, set) in mutations {
                        assert_eq!(column, "addresses");
                        for uuid in &uuids {
                            let row = next.rows.get_mut(uuid).unwrap();
                            match mutator {
                                Mutator::Insert => row.addresses.extend(strings(set.clone())),
                                Mutator::Delete => {
                                    let gone = strings(set.clone());
                                    row.addresses.retain(|address| !gone.contains(address));
                                }
                            }
                        }
                    }
                }
                Operation::Delete { filter, .. } => {
                    let uuids = next.select(&filter);
                    count = Some(uuids.len() as u64);
                    for uuid in &uuids {
                        next.rows.remove(uuid);
                    }
                }
                Operation::Select { .. } => panic!("a writer has a replica"),
                Operation::Wait { filter, rows, .. } => {
                    assert!(rows.is_empty(), "nothing else is waited for");
                    if !next.select(&filter).is_empty() {
                        return refused(Some(index), "timed out");
                    }
                }
            }
            let mut result = OperationResult::default();
            result.count = count;
            results.push(result);
        }
        let names: BTreeSet<_> = next.rows.values().map(|row| &row.name).collect();
        if names.len() != next.rows.len() {
            return refused(None, "constraint violation");
        }
        *self = next;
        Outcome::Done(results)
    }

    fn select(&self, filter: &[Condition]) -> BTreeSet<Uuid> {
        let uuid = filter.iter().find_map(|condition| match condition {
            Condition(column, Function::Equal, Datum::Atom(Atom::Uuid(uuid)))
                if column == "_uuid" =>
            {
                Some(*uuid)
            }
            _ => None,
        });
        let rows = match uuid {
            Some(uuid) => self.rows.range(uuid..=uuid),
            None => self.rows.range(..),
        };
        let met = rows.filter(|(uuid, row)| filter.iter().all(|c| row.meets(**uuid, c)));
        met.map(|(uuid, _)| *uuid).collect()
    }
}

pub(super) fn refused(operation: Option<usize>, error: &str) -> Outcome {
    let reason = ServerError {
        error: error.to_owned(),
        details: None,
    };
    Outcome::Refused(Refusal { operation, reason })
}

/// The server's update for a client that has `before`. Rows of other owners are not monitored.
pub(super) fn updates(before: &Model, after: &Model) -> Value {
    let ours = |row: &&ModelRow| row.id("k8s.ovn.org/owner-type") == "EgressFirewallDNS";
    let mut rows = serde_json::Map::new();
    for (uuid, row) in after.rows.iter().filter(|(_, row)| ours(row)) {
        let update = match before.rows.get(uuid).filter(ours) {
            None => json!({"insert": row.json()}),
            Some(old) if old == row => continue,
            Some(old) => {
                let difference: Vec<_> =
                    old.addresses.symmetric_difference(&row.addresses).collect();
                let pairs = |row: &ModelRow| -> BTreeSet<_> {
                    row.external_ids.clone().into_iter().collect()
                };
                let ids: BTreeMap<_, _> = pairs(old)
                    .symmetric_difference(&pairs(row))
                    .map(|(key, value)| {
                        (
                            key.clone(),
                            row.external_ids.get(key).unwrap_or(value).clone(),
                        )
                    })
                    .collect();
                let ids: Vec<_> = ids.into_iter().collect();
                json!({"modify": {"addresses": ["set", difference], "external_ids": ["map", ids]}})
            }
        };
        rows.insert(uuid.to_string(), update);
    }
    let gone = before
        .rows
        .iter()
        .filter(|(uuid, row)| ours(row) && !after.rows.get(uuid).is_some_and(|row| ours(&row)));
    for (uuid, _) in gone {
        rows.insert(uuid.to_string(), json!({"delete": null}));
    }
    let mut acls = serde_json::Map::new();
    for (uuid, acl) in &after.acls {
        match before.acls.get(uuid) {
            None => acls.insert(uuid.to_string(), json!({"insert": acl.json()})),
            Some(old) => {
                assert_eq!(old, acl, "ACLs come and go as they are");
                None
            }
        };
    }
    for uuid in before
        .acls
        .keys()
        .filter(|uuid| !after.acls.contains_key(uuid))
    {
        acls.insert(uuid.to_string(), json!({"delete": null}));
    }
    let tables = [("Address_Set", rows), ("ACL", acls)].into_iter();
    let tables = tables.filter(|(_, rows)| !rows.is_empty());
    Value::Object(
        tables
            .map(|(table, rows)| (table.to_owned(), rows.into()))
            .collect(),
    )
}
