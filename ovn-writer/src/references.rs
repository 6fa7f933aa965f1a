//! The references to address sets. ACLs, QoS rules and logical router policies refer by name in their `match`
//! ([`rule`]). NAT refers by row and by name ([`nat`]).
//!
//! [`References`] is an index over the replicas of these tables, updated incrementally. There is no IO here.

pub mod expression;
pub mod nat;
pub mod rule;

use std::{collections::BTreeSet, sync::Arc};

use foldhash::{HashMap, HashSet};
use uuid::Uuid;

pub use self::{
    expression::Sense,
    nat::{Nat, NatKey},
    rule::{Acl, Policy, Qos, Rule, RuleDetails, RuleKey, RuleTable, SetName, SetNames},
};
use crate::address_set::AddressSet;
use ovsdb_replica::{Replica, Tables};

/// The tables of the northbound database that the writer follows.
pub type Northbound = (AddressSet, Rule<Acl>, Rule<Qos>, Rule<Policy>, Nat);

/// Their copies.
pub type NorthboundReplica = <Northbound as Tables>::Replica;

/// Their changes.
pub type NorthboundChanges = <Northbound as Tables>::Changes;

/// The index.
///
/// An update costs as much as the changed rules and the sets that they name. Rules without a set cost nothing.
#[derive(Clone, Debug, Default)]
pub struct References {
    by_name: BTreeSet<(SetName, RuleTable, RuleKey)>,
    nat_by_name: BTreeSet<(SetName, NatKey)>,
    nat_by_row: BTreeSet<(Uuid, NatKey)>,
    /// The sets that EgressFirewalls of other networks than the default one name. They are keyed by the controller of
    /// the network, with the number of kinds of rules that name each.
    elsewhere: HashMap<Arc<str>, HashMap<SetName, usize>>,
    managed_rules: usize,
}

/// The sets whose references may have changed.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    pub names: HashSet<SetName>,
    pub rows: HashSet<Uuid>,
    /// The names that rules of EgressFirewalls in other networks than the default one have or had, by the controller of
    /// the network.
    pub elsewhere: HashMap<Arc<str>, HashSet<SetName>>,
}

impl References {
    /// Builds the index of a whole replica.
    pub fn of(replica: &NorthboundReplica) -> Self {
        let mut changes = NorthboundChanges::default();
        changes.1.extend(replica.1.keys().cloned());
        changes.2.extend(replica.2.keys().cloned());
        changes.3.extend(replica.3.keys().cloned());
        changes.4.extend(replica.4.keys().cloned());
        let mut references = Self::default();
        references.update(replica, &changes);
        references
    }

    /// Applies changes that the replica already has.
    pub fn update(&mut self, replica: &NorthboundReplica, changes: &NorthboundChanges) -> Touched {
        let mut touched = Touched::default();
        self.managed_rules = Northbound::counted(replica);
        self.update_rules(&replica.1, &changes.1, &mut touched);
        self.update_rules(&replica.2, &changes.2, &mut touched);
        self.update_rules(&replica.3, &changes.3, &mut touched);
        for key in &changes.4 {
            let is_there = replica.4.has_key(key);
            for uuid in key.rows.into_iter().flatten() {
                touched.rows.insert(uuid);
                update(&mut self.nat_by_row, (uuid, key.clone()), is_there);
            }
            for (name, _) in key.names.iter() {
                touched.names.insert(name.clone());
                update(&mut self.nat_by_name, (name.clone(), key.clone()), is_there);
            }
        }
        touched
    }

    fn update_rules<T: rule::OfTable>(
        &mut self,
        replica: &Replica<Rule<T>>,
        changed: &HashSet<RuleKey>,
        touched: &mut Touched,
    ) {
        for key in changed {
            let is_there = replica.has_key(key);
            for (name, _) in key.sets.iter() {
                touched.names.insert(name.clone());
                let entry = (name.clone(), T::TABLE, key.clone());
                let is_news = update(&mut self.by_name, entry, is_there);
                let Some(network) = &key.network else {
                    continue;
                };
                let touched = touched.elsewhere.entry(network.clone()).or_default();
                touched.insert(name.clone());
                if is_news {
                    self.count_elsewhere(network, name, is_there);
                }
            }
        }
    }

    fn count_elsewhere(&mut self, network: &Arc<str>, set: &SetName, is_there: bool) {
        let sets = self.elsewhere.entry(network.clone()).or_default();
        let count = sets.entry(set.clone()).or_default();
        *count = if is_there {
            count.saturating_add(1)
        } else {
            count.saturating_sub(1)
        };
        if *count == 0 {
            sets.remove(set);
            if sets.is_empty() {
                self.elsewhere.remove(network);
            }
        }
    }

    /// Whether a rule names the set.
    pub fn contain(&self, set: &SetName) -> bool {
        self.keys_of(set).next().is_some() || self.nats_naming(set).next().is_some()
    }

    /// Whether anything refers to the row.
    pub fn contain_row(&self, uuid: Uuid, set: &AddressSet) -> bool {
        self.nats_of_row(uuid).next().is_some() || self.contain(&set.name().into())
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

    /// The NAT rows that refer to a set, which may have a row, each with the referring column.
    pub fn nats(
        &self,
        replica: &NorthboundReplica,
        set: &SetName,
        row: Option<Uuid>,
    ) -> impl Iterator<Item = (Uuid, &'static str)> {
        let by_row = row.into_iter().flat_map(|row| self.nats_of_row(row));
        // A NAT row that refers in both ways counts once.
        let keys: BTreeSet<_> = by_row.chain(self.nats_naming(set)).collect();
        keys.into_iter().flat_map(move |key| {
            let columns = key.columns(set, row);
            let nats = replica.4.with_key(key);
            nats.flat_map(move |(nat, _)| columns.clone().into_iter().map(move |it| (nat, it)))
        })
    }

    fn nats_of_row(&self, row: Uuid) -> impl Iterator<Item = &NatKey> {
        let entries = self.nat_by_row.range((row, NatKey::default())..);
        entries
            .take_while(move |(of, _)| *of == row)
            .map(|(_, key)| key)
    }

    fn nats_naming(&self, set: &SetName) -> impl Iterator<Item = &NatKey> + use<'_> {
        let set = set.clone();
        let entries = self.nat_by_name.range((set.clone(), NatKey::default())..);
        entries
            .take_while(move |(name, _)| *name == set)
            .map(|(_, key)| key)
    }

    /// The sets that EgressFirewalls of other networks than the default one name, each with the controller of the
    /// network.
    pub fn elsewhere(&self) -> impl Iterator<Item = (&Arc<str>, &SetName)> {
        let networks = self.elsewhere.iter();
        networks.flat_map(|(network, sets)| sets.keys().map(move |set| (network, set)))
    }

    /// Whether an EgressFirewall in the network of this controller, other than the default one, names the set.
    pub fn contain_elsewhere(&self, controller: &str, set: &SetName) -> bool {
        let sets = self.elsewhere.get(controller);
        sets.is_some_and(|sets| sets.contains_key(set))
    }

    /// The number of rules of ovn-kubernetes' controllers, as of the last update. Changes of this number alone cause no
    /// update, except between zero and one.
    pub fn managed_rules(&self) -> usize {
        self.managed_rules
    }

    fn keys_of(&self, set: &SetName) -> impl Iterator<Item = (RuleTable, &RuleKey)> + use<'_> {
        let set = set.clone();
        let first = (set.clone(), RuleTable::Acl, RuleKey::default());
        let entries = self.by_name.range(first..);
        entries
            .take_while(move |(name, ..)| *name == set)
            .map(|(_, table, key)| (*table, key))
    }
}

/// Adds or removes the entry. Returns whether that changed anything.
fn update<T: Ord>(entries: &mut BTreeSet<T>, entry: T, is_there: bool) -> bool {
    if is_there {
        entries.insert(entry)
    } else {
        entries.remove(&entry)
    }
}

fn details<'a, T: rule::OfTable>(
    replica: &'a Replica<Rule<T>>,
    key: &RuleKey,
) -> impl Iterator<Item = RuleDetails<'a>> {
    replica.with_key(key).map(|(_, rule)| rule.details())
}

#[cfg(test)]
mod tests;
