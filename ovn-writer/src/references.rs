//! The references to address sets: `$name` in the `match` of ACLs, QoS rules, logical router policies and NAT rows
//! ([`rule`]).
//!
//! [`References`] is an index over the replicas of these tables, updated incrementally. There is no IO here.
//!
//! NAT rows also refer to rows of sets by `_uuid`. The server refuses to delete such a row, so it is not looked up here.

pub mod rule;

use std::{collections::BTreeSet, sync::Arc};

use foldhash::{HashMap, HashSet};

pub use self::rule::{
    Acl, Nat, Policy, Qos, Rule, RuleDetails, RuleKey, RuleTable, SetName, SetNames,
};
use crate::address_set::AddressSet;
use ovsdb_replica::{Replica, Tables};

/// The tables of the northbound database that the writer follows.
pub type Northbound = (AddressSet, Rule<Acl>, Rule<Qos>, Rule<Policy>, Rule<Nat>);

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
    /// The sets that EgressFirewalls of other networks than the default one name. They are keyed by the controller of
    /// the network, with the number of kinds of rules that name each.
    elsewhere: HashMap<Arc<str>, HashMap<SetName, usize>>,
    managed_rules: usize,
}

/// The sets whose references may have changed.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    pub names: HashSet<SetName>,
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
        self.update_rules(&replica.4, &changes.4, &mut touched);
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
            for name in key.sets.iter() {
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
        self.keys_of(set).next().is_some()
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
                RuleTable::Nat => details(&replica.4, key).collect(),
            };
            rules
        })
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
