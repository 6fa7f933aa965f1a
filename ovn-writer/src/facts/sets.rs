//! A table of address sets.

use std::collections::BTreeSet;

use foldhash::HashSet;
use proto::{
    api::{DnsName, Family},
    facts::{Action, DifferenceKind, Query, SetDifference, SetFacts},
};
use uuid::Uuid;

use super::Sides;
use crate::{
    address_set::AddressSet,
    references::{NorthboundReplica, SetName},
    report::differences,
};

/// The maximum number of addresses per set; the rest is counted.
const MOST_OF_SET: usize = 1_000;

/// The maximum number of addresses of all sets together. A single name may exceed it.
const MOST_ADDRESSES: usize = 20_000;

/// The maximum number of namespaces per set; the rest is counted.
const MOST_NAMESPACES: usize = 100;

/// The maximum length of foreign text, in characters.
const MOST_OF_TEXT: usize = 128;

/// A page of sets, and the last name of it if more follow.
pub(super) type Page = (Vec<SetFacts>, Option<DnsName>);

impl Sides<'_> {
    /// All names in the store or the database. The text is the name of a row, or empty.
    pub(super) fn all_names(&self) -> impl Iterator<Item = (&DnsName, &str)> {
        let rows = self.replica.into_iter().flat_map(|it| it.0.iter());
        let rows = rows.filter_map(|(_, row)| Some((&row.identity()?.name, row.name())));
        let desired = self.state().desired.names();
        desired.map(|name| (name, "")).chain(rows)
    }

    /// The sets of a page of names.
    pub(super) fn page(&self, query: &Query) -> Page {
        let after = query.after.as_deref();
        let of_namespace = |name: &DnsName| {
            let namespace = query.namespace.as_deref();
            namespace.is_none_or(|namespace| self.is_in_rules_of(name, namespace))
        };
        let matching = self
            .all_names()
            .filter(|(name, _)| after.is_none_or(|after| after < name.as_str()))
            .filter(|(name, row)| query.matches(name.as_str()) || query.matches(row))
            .map(|(name, _)| name);
        let matching: HashSet<&DnsName> = matching.collect();
        let matching = matching.into_iter().filter(|name| of_namespace(name));
        self.sets_of(matching.collect(), query.limit)
    }

    /// The sets that differ, and the number of further names with such sets.
    pub(super) fn differing(&self) -> (Vec<SetFacts>, usize) {
        let differing: Vec<&DnsName> = self.state().differing().collect();
        let count = differing.len();
        let (mut sets, _) = self.sets_of(differing, Query::MOST);
        sets.retain(|set| set.difference.is_some());
        (sets, count.saturating_sub(Query::MOST))
    }

    fn sets_of(&self, mut names: Vec<&DnsName>, limit: usize) -> Page {
        let Some(replica) = self.replica else {
            return (Vec::new(), None);
        };
        let count = names.len();
        // Sorting all of them would take long.
        if count > limit {
            names.select_nth_unstable(limit);
            names.truncate(limit);
        }
        names.sort_unstable();
        let (mut sets, mut shown, mut addresses) = (Vec::new(), 0, 0);
        for name in &names {
            let of_name = self.sets(name, replica, MOST_OF_SET);
            addresses += of_name.iter().map(|it| it.addresses.len()).sum::<usize>();
            if addresses > MOST_ADDRESSES && !sets.is_empty() {
                break;
            }
            sets.extend(of_name);
            shown += 1;
        }
        let last = names.get(..shown).and_then(|shown| shown.last());
        let last = last.filter(|_| shown < count).map(|name| (*name).clone());
        (sets, last)
    }

    /// Whether a rule of this namespace refers to a set of the name.
    fn is_in_rules_of(&self, name: &DnsName, namespace: &str) -> bool {
        let references = &self.state().references;
        let mut rows = self.rows_of(name);
        rows.any(|(replica, row)| {
            let set = SetName::from(row.name());
            let mut rules = references.rules(replica, &set);
            rules.any(|rule| rule.namespace() == Some(namespace))
        })
    }

    /// Whether any rule refers to a set of the name.
    pub(super) fn is_referenced(&self, name: &DnsName) -> bool {
        let references = &self.state().references;
        let mut rows = self.rows_of(name);
        rows.any(|(replica, row)| {
            let set = SetName::from(row.name());
            references.rules(replica, &set).next().is_some()
        })
    }

    fn rows_of<'a>(
        &'a self,
        name: &'a DnsName,
    ) -> impl Iterator<Item = (&'a NorthboundReplica, &'a AddressSet)> {
        self.replica.into_iter().flat_map(move |replica| {
            let rows = replica.0.with_key(name);
            rows.map(move |(_, row)| (replica, row))
        })
    }
}

impl Sides<'_> {
    /// The sets of a name, sorted; those with a missing row first.
    fn sets(&self, name: &DnsName, replica: &NorthboundReplica, most: usize) -> Vec<SetFacts> {
        let plan = self.state().look(name, replica, self.now);
        let differences = differences(name, &plan, replica, &self.state().references);
        let (missing, mut differing): (Vec<_>, Vec<_>) = differences.into_iter().partition(|set| {
            matches!(
                set.kind,
                DifferenceKind::MissingRow | DifferenceKind::NameClash
            )
        });
        let missing = missing.iter().map(|set| {
            let of = (set.set.as_str(), set.controller.as_str(), set.family);
            let shown = self.set(name, of, None, replica, most);
            self.with_difference(name, shown, Some(set))
        });
        let rows = replica.0.with_key(name).filter_map(|(uuid, row)| {
            let family = row.identity()?.family;
            let is_this = |set: &SetDifference| set.set == row.name() && set.family == family;
            let differs = differing.iter().position(is_this);
            let difference = differs.map(|place| differing.swap_remove(place));
            let of = (row.name(), row.controller().unwrap_or_default(), family);
            let shown = self.set(name, of, Some((uuid, row)), replica, most);
            Some(self.with_difference(name, shown, difference.as_ref()))
        });
        let mut sets: Vec<_> = missing.chain(rows).collect();
        sets.sort_by(|a, b| {
            let key = |set: &SetFacts| (set.present.is_some(), set.family, set.controller.clone());
            key(a).cmp(&key(b))
        });
        sets
    }

    fn set(
        &self,
        name: &DnsName,
        (set, controller, family): (&str, &str, Family),
        row: Option<(Uuid, &AddressSet)>,
        replica: &NorthboundReplica,
        most: usize,
    ) -> SetFacts {
        let (references, set_name) = (&self.state().references, SetName::from(set));
        let (mut rules, mut namespaces) = (0, BTreeSet::new());
        for rule in references.rules(replica, &set_name) {
            rules += 1;
            namespaces.extend(rule.namespace());
        }
        let wanted = self.state().desired.wanted(name);
        let members = row.into_iter().flat_map(|(_, row)| row.addresses().iter());
        SetFacts {
            name: name.to_string(),
            set: beginning(set),
            controller: beginning(controller),
            family,
            wanted: wanted.map_or(0, |wanted| wanted.of_family(family).len()),
            present: row.map(|(_, row)| row.addresses().len() + row.others().len()),
            addresses: members.take(most).collect(),
            rules,
            more_namespaces: namespaces.len().saturating_sub(MOST_NAMESPACES),
            namespaces: namespaces
                .into_iter()
                .take(MOST_NAMESPACES)
                .map(beginning)
                .collect(),
            difference: None,
            is_being_written: false,
        }
    }

    fn with_difference(
        &self,
        name: &DnsName,
        set: SetFacts,
        difference: Option<&SetDifference>,
    ) -> SetFacts {
        let Some(difference) = difference else {
            return set;
        };
        let refused = self.sync.refused_for(name, self.now);
        let is_now = difference.action == Action::Now;
        let trouble = match refused {
            Some(wait) => format!(
                "{}; the server refused the change: the log says why; again in {} s",
                words(difference),
                wait.as_secs()
            ),
            None => words(difference),
        };
        SetFacts {
            difference: Some(trouble),
            is_being_written: is_now && refused.is_none() && !self.is_dry_run(),
            ..set
        }
    }
}

fn beginning(text: &str) -> String {
    text.chars().take(MOST_OF_TEXT).collect()
}

/// The difference of a set, and the planned action.
fn words(set: &SetDifference) -> String {
    let what = match set.kind {
        DifferenceKind::MissingRow => "the row is missing".to_owned(),
        DifferenceKind::NameClash => "the row cannot be created".to_owned(),
        DifferenceKind::Addresses => format!(
            "{} missing, {} too many",
            set.missing.len(),
            set.surplus.len()
        ),
        DifferenceKind::UnwantedRow => "it has neither an object nor a rule".to_owned(),
    };
    what + set.action.as_str()
}
