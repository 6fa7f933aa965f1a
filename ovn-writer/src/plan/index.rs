//! An index from the names of address sets to their DNS names.
//!
//! The name of a set is a hash of the network's controller, the DNS name and the family. For the default network it is
//! computed for every name of the store. There may be hundreds of other networks, and a name is in the rules of few. So
//! for these the index has only the sets with a row, and those that an EgressFirewall of the network names.
//!
//! | event | cost |
//! |---|---|
//! | a name changes | its rows, and its sets in the networks with a rule that names one |
//! | a rule of another network is added or removed | the sets that it names |
//! | … and one of them is of no known name | once, a hash for each name of the store |
//! | a name is added | a hash for each network with a rule that names a set of no known name |

use std::sync::Arc;

use foldhash::{HashMap, HashSet};
use proto::api::{AddressSetHasher, DEFAULT_NETWORK_CONTROLLER, DnsName, Family};

use super::set_of::SetOf;
use crate::{
    address_set::AddressSet,
    references::{NorthboundChanges, NorthboundReplica, References, SetName, Touched},
};

#[derive(Debug, Default)]
pub(super) struct Index {
    /// The names of the store.
    known: HashSet<DnsName>,
    by_set: HashMap<SetName, DnsName>,
    /// The sets of a name besides those of a known name in the default network. Each has a row, or a rule of another
    /// network names it. Correctly named sets of other networks have their [`SetOf`].
    others: HashMap<DnsName, HashMap<SetName, Option<SetOf>>>,
    /// The sets of unknown names in rules of other networks, by the controller of the network.
    unknown: HashMap<Arc<str>, HashSet<SetName>>,
}

impl Index {
    /// Adds a name of the store.
    pub(super) fn add(&mut self, name: &DnsName) {
        if !self.known.insert(name.clone()) {
            return;
        }
        let default = sets(DEFAULT_NETWORK_CONTROLLER, name);
        for (_, set) in &default {
            let by_set = self.by_set.entry(set.clone());
            by_set.or_insert_with(|| name.clone());
            if let Some(others) = self.others.get_mut(name) {
                others.remove(set);
            }
        }
        let mut found = Vec::new();
        self.unknown.retain(|controller, unknown| {
            for (_, set) in &default {
                unknown.remove(set);
            }
            let of_name = sets(controller, name).into_iter();
            found.extend(of_name.filter_map(|(family, set)| {
                let controller = (&**controller).into();
                unknown
                    .remove(&set)
                    .then_some((set, SetOf { controller, family }))
            }));
            !unknown.is_empty()
        });
        for (set, of) in found {
            self.add_other(name, set, Some(of));
        }
    }

    /// Removes a name that left the store and has no rows.
    pub(super) fn remove(&mut self, name: &DnsName, references: &References) {
        if !self.known.remove(name) {
            return;
        }
        for (_, set) in sets(DEFAULT_NETWORK_CONTROLLER, name) {
            self.remove_set(&set, name);
        }
        for (set, of) in self.others.remove(name).into_iter().flatten() {
            self.remove_set(&set, name);
            if let Some(SetOf { controller, .. }) = of
                && references.contain_elsewhere(&controller, &set)
            {
                let unknown = self.unknown.entry((&*controller).into());
                unknown.or_default().insert(set);
            }
        }
    }

    /// Rebuilds the index after a new read of the database; the store has these names.
    pub(super) fn read<'a>(
        &mut self,
        replica: &NorthboundReplica,
        references: &References,
        names: impl Iterator<Item = &'a DnsName>,
    ) {
        *self = Self::default();
        names.for_each(|name| self.add(name));
        replica.0.iter().for_each(|(_, row)| self.add_row(row));
        self.look_up(references.elsewhere());
    }

    /// Applies changes of the database, and returns the names for whose sets the references may have changed.
    pub(super) fn changed(
        &mut self,
        replica: &NorthboundReplica,
        changes: &NorthboundChanges,
        references: &References,
        touched: &Touched,
    ) -> HashSet<DnsName> {
        let rows = changes.0.iter().flat_map(|name| replica.0.with_key(name));
        rows.for_each(|(_, row)| self.add_row(row));
        let known = touched.names.iter().filter_map(|set| self.by_set.get(set));
        let mut names: HashSet<DnsName> = known.cloned().collect();
        let mut named = Vec::new();
        for (controller, sets) in &touched.elsewhere {
            for set in sets {
                if references.contain_elsewhere(controller, set) {
                    named.push((controller, set));
                } else {
                    self.remove_unknown(controller, set);
                }
            }
        }
        names.extend(self.look_up(named.into_iter()));
        names
    }

    /// Records that the name has exactly these rows. Other sets that no rule names are dropped.
    pub(super) fn settle<'a>(
        &mut self,
        name: &DnsName,
        rows: impl Iterator<Item = &'a AddressSet> + Clone,
        references: &References,
    ) {
        rows.clone().for_each(|row| self.add_row(row));
        let Some(mut others) = self.others.remove(name) else {
            return;
        };
        let there: HashSet<SetName> = rows.map(|row| row.name().into()).collect();
        others.retain(|set, of| {
            // When the row is deleted, every rule that names it misses it.
            let is_named = of.is_some() && references.contain(set);
            let is_needed = there.contains(set) || is_named;
            if !is_needed {
                self.remove_set(set, name);
            }
            is_needed
        });
        if !others.is_empty() {
            self.others.insert(name.clone(), others);
        }
    }

    /// The sets of the name that may exist or be missing: those of the default network, and those of other networks
    /// with a row or a rule.
    pub(super) fn sets(&self, name: &DnsName) -> impl Iterator<Item = (SetOf, SetName)> {
        let default = sets(DEFAULT_NETWORK_CONTROLLER, name).into_iter();
        let default = default.map(|(family, set)| (SetOf::default_network(family), set));
        let others = self.others.get(name).into_iter().flatten();
        default.chain(others.filter_map(|(set, of)| Some((of.clone()?, set.clone()))))
    }

    fn add_row(&mut self, row: &AddressSet) {
        let Some(identity) = row.identity() else {
            return;
        };
        let (name, family) = (&identity.name, identity.family);
        let controller = row.controller().filter(|_| row.is_well_named());
        let set = SetName::from(row.name());
        let of = match controller {
            Some(DEFAULT_NETWORK_CONTROLLER) if self.known.contains(name) => return,
            None | Some(DEFAULT_NETWORK_CONTROLLER) => None,
            Some(controller) => {
                self.remove_unknown(controller, &set);
                let controller = controller.into();
                Some(SetOf { controller, family })
            }
        };
        self.add_other(name, set, of);
    }

    fn add_other(&mut self, name: &DnsName, set: SetName, of: Option<SetOf>) {
        let by_set = self.by_set.entry(set.clone());
        by_set.or_insert_with(|| name.clone());
        let others = self.others.entry(name.clone()).or_default();
        let known = others.entry(set).or_default();
        if of.is_some() {
            *known = of;
        }
    }

    fn remove_set(&mut self, set: &SetName, name: &DnsName) {
        if self.by_set.get(set) == Some(name) {
            self.by_set.remove(set);
        }
    }

    fn remove_unknown(&mut self, controller: &str, set: &SetName) {
        if let Some(unknown) = self.unknown.get_mut(controller) {
            unknown.remove(set);
            if unknown.is_empty() {
                self.unknown.remove(controller);
            }
        }
    }

    /// Resolves the set names in rules of other networks, and returns the DNS names of those that were unknown before.
    fn look_up<'a>(
        &mut self,
        named: impl Iterator<Item = (&'a Arc<str>, &'a SetName)>,
    ) -> HashSet<DnsName> {
        let mut new = HashMap::<&Arc<str>, HashSet<&SetName>>::default();
        for (controller, set) in named {
            if let Some(name) = self.by_set.get(set).cloned() {
                // A rule may also name a set of the default network.
                let of_name = sets(controller, &name).into_iter();
                for (family, _) in of_name.filter(|(_, other)| other == set) {
                    let controller = (&**controller).into();
                    self.add_other(&name, set.clone(), Some(SetOf { controller, family }));
                }
                continue;
            }
            let unknown = self.unknown.entry(controller.clone()).or_default();
            if unknown.insert(set.clone()) {
                new.entry(controller).or_default().insert(set);
            }
        }
        let mut found = Vec::new();
        for (controller, wanted) in new {
            let hasher = AddressSetHasher::new(controller);
            for name in &self.known {
                let of_name = hashed(hasher, name).into_iter();
                found.extend(of_name.filter(|(_, set)| wanted.contains(set)).map(
                    |(family, set)| {
                        let controller = (&**controller).into();
                        (name.clone(), set, SetOf { controller, family })
                    },
                ));
            }
        }
        for (name, set, of) in &found {
            self.remove_unknown(&of.controller, set);
            self.add_other(name, set.clone(), Some(of.clone()));
        }
        found.into_iter().map(|(name, ..)| name).collect()
    }
}

/// The sets of a DNS name in the network of a controller.
pub(super) fn sets(controller: &str, name: &DnsName) -> [(Family, SetName); 2] {
    hashed(AddressSetHasher::new(controller), name)
}

fn hashed(hasher: AddressSetHasher, name: &DnsName) -> [(Family, SetName); 2] {
    let numbers = hasher.numbers(name.as_str());
    numbers.map(|(family, number)| (family, SetName::Number(number)))
}
