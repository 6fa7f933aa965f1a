//! From the names of address sets back to the DNS names that they are for.

use foldhash::{HashMap, HashSet};
use proto::api::{DEFAULT_NETWORK_CONTROLLER, DnsName, Family, address_set_id, address_set_name};

use crate::references::{SetName, Touched};

/// The set of a DNS name in a network.
pub(super) fn set_name(controller: &str, name: &DnsName, family: Family) -> SetName {
    let id = address_set_id(controller, name.as_str(), family);
    SetName::from(address_set_name(&id).as_str())
}

#[derive(Debug, Default)]
pub(super) struct Index(HashMap<SetName, DnsName>);

impl Index {
    /// The sets of this name in the default network are known from now on.
    pub(super) fn add(&mut self, name: &DnsName) {
        for family in Family::ALL {
            self.add_set(set_name(DEFAULT_NETWORK_CONTROLLER, name, family), name);
        }
    }

    /// This set is known from now on.
    pub(super) fn add_set(&mut self, set: SetName, name: &DnsName) {
        self.0.entry(set).or_insert_with(|| name.clone());
    }

    /// No set of this name is known any more.
    pub(super) fn remove(&mut self, name: &DnsName) {
        for family in Family::ALL {
            self.0
                .remove(&set_name(DEFAULT_NETWORK_CONTROLLER, name, family));
        }
    }

    /// Nothing is known any more.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The names of the sets that were touched. Those of other networks need not be known: they are searched for among `all`.
    pub(super) fn names<'a>(
        &self,
        touched: &Touched,
        all: impl Iterator<Item = &'a DnsName> + Clone,
    ) -> HashSet<DnsName> {
        let known = touched.names.iter().filter_map(|set| self.0.get(set));
        let mut names: HashSet<DnsName> = known.cloned().collect();
        for (controller, sets) in &touched.elsewhere {
            let is_named = |name: &&DnsName| {
                let mut sets_of = Family::ALL
                    .map(|family| set_name(controller, name, family))
                    .into_iter();
                sets_of.any(|set| sets.contains(&set))
            };
            names.extend(all.clone().filter(is_named).cloned());
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::dns;

    #[test]
    fn names_are_found_by_their_sets_in_every_network() {
        let all = [dns("a.example."), dns("b.example.")];
        let one = |name: &DnsName| HashSet::from_iter([name.clone()]);
        let mut index = Index::default();
        all.iter().for_each(|name| index.add(name));
        let of = |controller, name| HashSet::from_iter([set_name(controller, name, Family::V4)]);
        let touched = Touched {
            names: of(DEFAULT_NETWORK_CONTROLLER, &all[0]),
            ..Touched::default()
        };
        assert_eq!(index.names(&touched, all.iter()), one(&all[0]));
        let elsewhere = Touched {
            elsewhere: HashMap::from_iter([("blue".into(), of("blue", &all[1]))]),
            ..Touched::default()
        };
        assert_eq!(index.names(&elsewhere, all.iter()), one(&all[1]));
        index.remove(&all[0]);
        assert!(index.names(&touched, all.iter()).is_empty());
        // One that is known needs no search.
        let set = set_name("blue", &all[0], Family::V6);
        index.add_set(set.clone(), &all[0]);
        let gone = Touched {
            names: HashSet::from_iter([set]),
            ..Touched::default()
        };
        assert_eq!(index.names(&gone, all.iter()), one(&all[0]));
        index.clear();
        assert!(index.names(&gone, all.iter()).is_empty());
    }
}
