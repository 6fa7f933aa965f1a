//! Pages of names with their addresses.

use std::{collections::BTreeSet, net::IpAddr};

use proto::{
    api::DnsName,
    facts::{ListedName, Query},
};
use runtime::clock::Timestamp;

use names::Entry;

use super::{
    name_objects::{MOST_NAMESPACES, names_of},
    publisher::Publisher,
};

/// The most addresses of all names together. A single name may exceed it.
const MOST_ADDRESSES: usize = 10_000;

/// The most addresses of each name; further ones are counted.
const MOST_OF_NAME: usize = 1_000;

/// The most clients of a listed name.
const MOST_CLIENTS: usize = 100;

impl Publisher {
    /// A page of the names that are asked for, with their addresses, and its last name if more follow.
    pub(super) fn page(&self, query: &Query, now: Timestamp) -> (Vec<ListedName>, Option<DnsName>) {
        let (selected, has_more) = self.matching(query);
        let (mut names, mut addresses) = (Vec::with_capacity(selected.len()), 0);
        for (name, entry) in &selected {
            let listed = self.listed(name, entry, now);
            addresses += listed.facts.addresses.len();
            if addresses > MOST_ADDRESSES && !names.is_empty() {
                break;
            }
            names.push(listed);
        }
        let has_more = has_more || names.len() < selected.len();
        let last = names.last().filter(|_| has_more);
        let next = last.map(|last| last.facts.name.clone());
        (names, next)
    }

    /// The first names, sorted, and whether there are more.
    fn matching(&self, query: &Query) -> (Vec<(&DnsName, &Entry)>, bool) {
        let after = query.after.as_deref();
        let holds = |text: &str| query.matches(text);
        // A namespace without a number has no rule.
        let namespace = query
            .namespace
            .as_deref()
            .map(|it| self.namespaces.known(it));
        let of_namespace = |entry: &Entry| match namespace {
            Some(Some(namespace)) => {
                let namespaces = &entry.rule_use().namespaces;
                entry.is_used() && namespaces.binary_search(&namespace).is_ok()
            }
            Some(None) => false,
            None => true,
        };
        let is_object_held = |name: &DnsName| {
            let objects = self
                .by_name
                .get(name)
                .into_iter()
                .flat_map(|it| &it.objects);
            let mut keys = objects.map(|it| it.key(self.objects.policy()).to_string());
            keys.any(|key| holds(&key))
        };
        let mut found: Vec<_> = self
            .names
            .iter()
            .filter(|(name, _)| after.is_none_or(|after| after < name.as_str()))
            .filter(|(_, entry)| of_namespace(entry))
            .filter(|(name, entry)| {
                holds(name.as_str())
                    || is_object_held(name)
                    || entry.list().names().any(|it| holds(it.as_str()))
            })
            .collect();
        let has_more = found.len() > query.limit;
        // Sorting all of them would take long.
        if has_more {
            found.select_nth_unstable_by_key(query.limit, |(name, _)| *name);
            found.truncate(query.limit);
        }
        found.sort_unstable_by_key(|(name, _)| *name);
        (found, has_more)
    }

    fn listed(&self, name: &DnsName, entry: &Entry, now: Timestamp) -> ListedName {
        let facts = self.name_facts(name, entry, None, MOST_OF_NAME, now, |_, _| true);
        let list = entry.list();
        let mut listed: Vec<&DnsName> = facts.addresses.iter().map(|it| &it.name).collect();
        listed.dedup();
        let asked_by = listed.into_iter().flat_map(|name| list.clients_of(name));
        let asked_by: BTreeSet<IpAddr> = asked_by.copied().collect();
        let namespaces = match entry.is_used() {
            true => &*entry.rule_use().namespaces,
            false => &[],
        };
        ListedName {
            namespaces: names_of(&self.namespaces, namespaces.iter().copied())
                .iter()
                .map(ToString::to_string)
                .collect(),
            more_namespaces: namespaces.len().saturating_sub(MOST_NAMESPACES),
            asked_by: asked_by.into_iter().take(MOST_CLIENTS).collect(),
            facts,
        }
    }
}
