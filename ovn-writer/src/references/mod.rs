//! Who refers to address sets: the `match` of ACLs, QoS rules and logical router policies by name ([`rule`]), NAT by row
//! ([`nat`]).
//!
//! [`References`] is an index over the replicas of these tables, kept up by what changes in them. There is no IO here.

pub mod expression;
pub mod nat;
pub mod rule;

use std::collections::BTreeSet;

use foldhash::{HashMap, HashSet};
use proto::api::DEFAULT_NETWORK_CONTROLLER;
use uuid::Uuid;

pub use self::{
    expression::Sense,
    nat::{Nat, NatSets},
    rule::{Acl, Policy, Qos, Rule, RuleDetails, RuleTable, SetName, SetNames},
};
use crate::{
    address_set::AddressSet,
    ovsdb::{Replica, Tables},
};

/// `k8s.ovn.org/owner-type` of the ACLs of EgressFirewalls.
const EGRESS_FIREWALL: &str = "EgressFirewall";

/// The tables of the northbound database that the writer follows.
pub type Northbound = (AddressSet, Rule<Acl>, Rule<Qos>, Rule<Policy>, Nat);

/// Their copies.
pub type NorthboundReplica = <Northbound as Tables>::Replica;

/// What changed in them.
pub type NorthboundChanges = <Northbound as Tables>::Changes;

/// The index.
#[derive(Clone, Debug, Default)]
pub struct References {
    by_name: BTreeSet<(SetName, RuleTable, SetNames)>,
    by_row: BTreeSet<(Uuid, NatSets)>,
    controllers: BTreeSet<Box<str>>,
    managed_rules: usize,
}

/// The sets of which the references changed, perhaps.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    /// By name.
    pub names: HashSet<SetName>,
    /// By row.
    pub rows: HashSet<Uuid>,
    /// Of the names those that ACLs of an EgressFirewall have in another network than the default one, by its controller.
    pub elsewhere: HashMap<Box<str>, HashSet<SetName>>,
}

impl References {
    /// The index of all that is there.
    pub fn of(replica: &NorthboundReplica) -> Self {
        let mut changes = NorthboundChanges::default();
        changes.1.extend(keys(&replica.1));
        changes.2.extend(keys(&replica.2));
        changes.3.extend(keys(&replica.3));
        changes.4.extend(keys(&replica.4));
        let mut references = Self::default();
        references.update(replica, &changes);
        references
    }

    /// Takes over what changed, as the replica has it now.
    pub fn update(&mut self, replica: &NorthboundReplica, changes: &NorthboundChanges) -> Touched {
        let mut touched = Touched::default();
        self.managed_rules = Northbound::counted(replica);
        self.update_rules(&replica.1, &changes.1, &mut touched);
        self.update_rules(&replica.2, &changes.2, &mut touched);
        self.update_rules(&replica.3, &changes.3, &mut touched);
        for sets in &changes.4 {
            let is_there = replica.4.with_key(sets).next().is_some();
            for uuid in sets.iter() {
                touched.rows.insert(uuid);
                if is_there {
                    self.by_row.insert((uuid, *sets));
                } else {
                    self.by_row.remove(&(uuid, *sets));
                }
            }
        }
        touched
    }

    fn update_rules<T: rule::OfTable>(
        &mut self,
        replica: &Replica<Rule<T>>,
        changed: &HashSet<SetNames>,
        touched: &mut Touched,
    ) {
        for sets in changed {
            let mut is_there = false;
            for (_, rule) in replica.with_key(sets) {
                is_there = true;
                let rule = rule.details();
                if let Some(controller) = rule.controller
                    && controller != DEFAULT_NETWORK_CONTROLLER
                    && rule.owner_type == Some(EGRESS_FIREWALL)
                {
                    let names = touched.elsewhere.entry(controller.into()).or_default();
                    names.extend(sets.iter().map(|(name, _)| name.clone()));
                    if !self.controllers.contains(controller) {
                        self.controllers.insert(controller.into());
                    }
                }
            }
            for (name, _) in sets.iter() {
                touched.names.insert(name.clone());
                let entry = (name.clone(), T::TABLE, sets.clone());
                if is_there {
                    self.by_name.insert(entry);
                } else {
                    self.by_name.remove(&entry);
                }
            }
        }
    }

    /// Whether a rule names the set.
    pub fn contain(&self, set: &SetName) -> bool {
        self.keys_of(set).next().is_some()
    }

    /// Whether anything refers to the row.
    pub fn contain_row(&self, uuid: Uuid, set: &AddressSet) -> bool {
        let first = self.by_row.range((uuid, NatSets::default())..).next();
        first.is_some_and(|(of, _)| *of == uuid) || self.contain(&set.name().into())
    }

    /// The rules that name the set.
    pub fn rules<'a>(
        &'a self,
        replica: &'a NorthboundReplica,
        set: &'a SetName,
    ) -> impl Iterator<Item = RuleDetails<'a>> {
        self.keys_of(set).flat_map(|(table, key)| {
            let rules: Vec<_> = match table {
                RuleTable::Acl => details(&replica.1, key).collect(),
                RuleTable::Qos => details(&replica.2, key).collect(),
                RuleTable::Policy => details(&replica.3, key).collect(),
            };
            rules
        })
    }

    /// The rows of NAT that refer to a row, each with the column that does.
    pub fn nats(
        &self,
        replica: &NorthboundReplica,
        set: Uuid,
    ) -> impl Iterator<Item = (Uuid, &'static str)> {
        let entries = self.by_row.range((set, NatSets::default())..);
        let keys = entries.take_while(move |(of, _)| *of == set);
        keys.flat_map(move |(_, key)| {
            let rows = replica.4.with_key(key);
            rows.flat_map(move |(row, _)| key.columns(set).map(move |column| (row, column)))
        })
    }

    /// The controllers whose sets may be named: that of the default network, and those that have ACLs of EgressFirewalls.
    pub fn controllers(&self) -> impl Iterator<Item = &str> {
        let others = self.controllers.iter().map(|controller| &**controller);
        std::iter::once(DEFAULT_NETWORK_CONTROLLER).chain(others)
    }

    /// The number of rules of controllers of ovn-kubernetes, as of the last update. Changes of this number alone are no update,
    /// but for the first rule that comes and the last one that goes.
    pub fn managed_rules(&self) -> usize {
        self.managed_rules
    }

    fn keys_of(&self, set: &SetName) -> impl Iterator<Item = (RuleTable, &SetNames)> + use<'_> {
        let set = set.clone();
        let first = (set.clone(), RuleTable::Acl, SetNames::default());
        let entries = self.by_name.range(first..);
        entries
            .take_while(move |(name, ..)| *name == set)
            .map(|(_, table, key)| (*table, key))
    }
}

fn keys<R: crate::ovsdb::Record>(replica: &Replica<R>) -> impl Iterator<Item = R::Key> {
    replica.iter().filter_map(|(_, row)| row.key())
}

fn details<'a, T: rule::OfTable>(
    replica: &'a Replica<Rule<T>>,
    key: &SetNames,
) -> impl Iterator<Item = RuleDetails<'a>> {
    replica.with_key(key).map(|(_, rule)| rule.details())
}

#[cfg(test)]
mod tests;
