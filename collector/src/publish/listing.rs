//! Lists of names with their addresses, for `/names.json`.

use std::{collections::BTreeSet, net::IpAddr};

use proto::{
    api::DnsName,
    facts::{ListedName, NameList},
};
use runtime::clock::Timestamp;

use names::Entry;

use super::{
    name_objects::{MOST_NAMESPACES, names_of},
    publisher::Publisher,
};

/// The most names of a list.
const MOST: usize = 500;

/// The most addresses of all names together. A single name may exceed it.
const MOST_ADDRESSES: usize = 10_000;

/// The most clients of a listed name.
const MOST_CLIENTS: usize = 100;

/// Which names are asked for.
#[derive(Clone, Debug)]
pub struct NamesQuery {
    /// Only names that contain this text, ignoring case, or whose objects do, or the names under them.
    pub filter: String,
    /// Only names in rules of this namespace.
    pub namespace: Option<String>,
    /// Only names after this one.
    pub after: Option<DnsName>,
    /// The most addresses for each name; further ones are counted.
    pub addresses: usize,
}

impl Publisher {
    /// The names that are asked for, with their addresses.
    pub(crate) fn list_names(&self, query: &NamesQuery, now: Timestamp) -> NameList {
        let (selected, has_more) = self.matching(query);
        let (mut names, mut addresses) = (Vec::with_capacity(selected.len()), 0);
        for (name, entry) in &selected {
            let listed = self.listed(name, entry, query.addresses, now);
            addresses += listed.facts.addresses.len();
            if addresses > MOST_ADDRESSES && !names.is_empty() {
                break;
            }
            names.push(listed);
        }
        let has_more = has_more || names.len() < selected.len();
        let last = names.last().filter(|_| has_more);
        NameList {
            at: now,
            leader: self.names.leads(),
            next: last.map(|last| last.facts.name.clone()),
            names,
        }
    }

    /// The first names, sorted, and whether there are more.
    fn matching(&self, query: &NamesQuery) -> (Vec<(&DnsName, &Entry)>, bool) {
        let filter = query.filter.to_ascii_lowercase();
        let holds = |text: &str| text.to_ascii_lowercase().contains(&filter);
        // A namespace without a number has no rule.
        let namespace = query
            .namespace
            .as_deref()
            .map(|it| self.namespaces.known(it));
        let of_namespace = |entry: &Entry| match namespace {
            Some(Some(namespace)) => entry
                .rule_use()
                .namespaces
                .binary_search(&namespace)
                .is_ok(),
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
            .filter(|(name, _)| query.after.as_ref().is_none_or(|after| after < *name))
            .filter(|(_, entry)| of_namespace(entry))
            .filter(|(name, entry)| {
                filter.is_empty()
                    || holds(name.as_str())
                    || is_object_held(name)
                    || entry.list().names().any(|it| holds(it.as_str()))
            })
            .collect();
        let has_more = found.len() > MOST;
        // Sorting all of them would take long.
        if has_more {
            found.select_nth_unstable_by_key(MOST, |(name, _)| *name);
            found.truncate(MOST);
        }
        found.sort_unstable_by_key(|(name, _)| *name);
        (found, has_more)
    }

    fn listed(&self, name: &DnsName, entry: &Entry, most: usize, now: Timestamp) -> ListedName {
        let facts = self.name_facts(name, entry, None, most, now, |_, _| true);
        let list = entry.list();
        let mut listed: Vec<&DnsName> = facts.addresses.iter().map(|it| &it.name).collect();
        listed.dedup();
        let asked_by = listed.into_iter().flat_map(|name| list.clients_of(name));
        let asked_by: BTreeSet<IpAddr> = asked_by.copied().collect();
        let namespaces = &entry.rule_use().namespaces;
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
