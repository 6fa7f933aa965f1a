//! A writer and its database, with the test in between.

use std::{collections::HashSet, time::Instant};

use proto::api::{DnsNameResolver, Family, address_set_id, address_set_name};
use runtime::store::Event;
use serde_json::value::to_raw_value;

use super::model::{Model, ModelRow, updates};
use crate::{
    address_set::AddressSet,
    ovsdb::{Operation, Outcome, Replica, Tables, replica::TableUpdates},
    sync::{Finished, Reconciler},
};

/// A writer, the database, and what the writer has been told of it.
#[derive(Default)]
pub(super) struct World {
    pub(super) sync: Reconciler,
    pub(super) model: Model,
    pub(super) replica: Replica<AddressSet>,
    pub(super) told: Model,
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
        let json = to_raw_value(&updates(&self.told, &self.model)).unwrap();
        let updates = TableUpdates::read_differences(&json).unwrap();
        let mut touched = HashSet::new();
        AddressSet::apply(&mut self.replica, updates, &mut touched).unwrap();
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
