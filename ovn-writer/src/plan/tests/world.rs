//! A writer and its database, connected by the test.

use std::time::{Duration, Instant};

use proto::api::{
    DEFAULT_NETWORK_CONTROLLER, DnsNameResolver, Family, address_set_id, address_set_name,
};
use runtime::store::Event;
use serde_json::value::to_raw_value;
use uuid::Uuid;

use super::model::{Model, ModelAcl, ModelRow, updates};
use ovsdb_replica::{Operation, Outcome, Tables, replica::TableUpdates};

use crate::{
    desired::Filter,
    plan::{Finished, Policy, Reconciler, SyncEvent},
    references::{Northbound, NorthboundChanges, NorthboundReplica},
};

/// The mark of the writer's rows.
pub(super) const STORE: &str = "kube/ns";

/// A writer, the database, and the last state that the writer was told.
pub(super) struct World {
    pub(super) sync: Reconciler,
    pub(super) model: Model,
    pub(super) replica: NorthboundReplica,
    pub(super) told: Model,
    pub(super) now: Instant,
}

pub(super) fn policy() -> Policy {
    Policy::new(STORE, Filter::default())
}

impl World {
    pub(super) fn new() -> Self {
        Self::with(policy())
    }

    pub(super) fn with(policy: Policy) -> Self {
        Self::on(policy, Model::default())
    }

    pub(super) fn on(policy: Policy, model: Model) -> Self {
        let mut world = Self {
            sync: Reconciler::new(policy),
            model,
            replica: Default::default(),
            told: Model::default(),
            now: Instant::now(),
        };
        world.read();
        world
    }

    pub(super) fn store(&mut self, event: Event<DnsNameResolver>) {
        self.sync.handle(SyncEvent::Store(&event), self.now);
    }

    /// Sends the writer every change so far.
    pub(super) fn tell(&mut self) {
        let json = to_raw_value(&updates(&self.told, &self.model)).unwrap();
        let updates = TableUpdates::read_differences(&json).unwrap();
        let mut changes = NorthboundChanges::default();
        Northbound::apply(&mut self.replica, updates, &mut changes).unwrap();
        self.told = self.model.clone();
        let event = SyncEvent::DatabaseChanged(&self.replica, changes);
        self.sync.handle(event, self.now);
    }

    pub(super) fn read(&mut self) {
        self.sync.handle(SyncEvent::DatabaseLost, self.now);
        self.replica = NorthboundReplica::default();
        self.told = Model::default();
        self.tell();
        let event = SyncEvent::DatabaseRead(&self.replica);
        self.sync.handle(event, self.now);
    }

    pub(super) fn next(&mut self) -> Option<Vec<Operation>> {
        self.sync.next_transaction(&self.replica, self.now)
    }

    pub(super) fn finish(&mut self, outcome: Outcome) -> Finished {
        self.sync.finished(0, outcome, &self.replica, self.now)
    }

    /// One transaction, if one is due.
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

    /// Runs transactions until none is due. Returns how many were done.
    pub(super) fn work(&mut self) -> usize {
        self.tell();
        let mut done = 0;
        for _ in 0..1000 {
            match self.step() {
                Some(Finished::Done(_)) => done += 1,
                Some(_) => {}
                None => return done,
            }
        }
        panic!("no end: {:?}", self.sync)
    }

    /// Lets time pass, timer by timer, with all due work. Returns how many transactions were done.
    pub(super) fn pass(&mut self, time: Duration) -> usize {
        let end = self.now + time;
        let mut done = self.work();
        while let Some(timer) = self.sync.next_timer().filter(|it| *it <= end) {
            self.now = self.now.max(timer);
            done += self.work();
        }
        self.now = end;
        done
    }

    /// Lets time pass until no work is left, not even later.
    pub(super) fn settle(&mut self) -> usize {
        let mut done = self.work();
        for _ in 0..1000 {
            match self.sync.next_timer() {
                None => return done,
                Some(timer) => done += self.pass(timer.saturating_duration_since(self.now)),
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

    /// Adds a rule that names the sets of a name.
    pub(super) fn refer(&mut self, controller: &str, name: &str) -> Uuid {
        let set = |family| set_name(controller, name, family);
        let expression = format!(
            "ip4.dst == ${} || ip6.dst == ${}",
            set(Family::V4),
            set(Family::V6)
        );
        self.model.insert_acl(ModelAcl {
            expression,
            ..ModelAcl::default()
        })
    }

    /// Adds a rule of an EgressFirewall of ovn-kubernetes that names them.
    pub(super) fn refer_as_ovn_kubernetes(&mut self, controller: &str, name: &str) -> Uuid {
        let uuid = self.refer(controller, name);
        let acl = self.model.acls.get_mut(&uuid).unwrap();
        for (key, value) in [
            ("owner-controller", controller),
            ("owner-type", "EgressFirewall"),
        ] {
            acl.external_ids
                .insert(format!("k8s.ovn.org/{key}"), value.to_owned());
        }
        uuid
    }
}

pub(super) fn set_name(controller: &str, name: &str, family: Family) -> String {
    address_set_name(&address_set_id(controller, name, family))
}

/// A row of another owner.
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

/// A row of a writer for this store.
pub(super) fn made_for(store: &str, name: &str, family: Family, addresses: &[&str]) -> ModelRow {
    let mut row = foreign(DEFAULT_NETWORK_CONTROLLER, name, family, addresses);
    row.external_ids
        .insert("ovn-writer/created".to_owned(), store.to_owned());
    row
}

/// A set for another purpose, typical of ovn-kubernetes.
pub(super) fn namespace_set() -> ModelRow {
    let mut row = foreign(
        DEFAULT_NETWORK_CONTROLLER,
        "team",
        Family::V4,
        &["10.128.0.5"],
    );
    row.name = "a77".to_owned();
    row.external_ids
        .insert("k8s.ovn.org/owner-type".to_owned(), "Namespace".to_owned());
    row
}
