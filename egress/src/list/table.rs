//! The list as a table.

use std::{collections::BTreeSet, net::IpAddr};

use proto::{
    facts::AddressFacts,
    text::{few, printable, when},
};

use super::{List, Listed};
use crate::pattern::NamePattern;

/// The most namespaces in a cell.
const FEW: usize = 3;

const HEADS: [&str; 7] = [
    "NAME", "ADDRESS", "FROM", "UNTIL", "RULES IN", "ASKED BY", "NODES",
];

/// The column of a list with policies.
const POLICIES: &str = "POLICIES";

pub(super) fn table(list: &List, pattern: Option<&NamePattern>) -> String {
    let policies = list.has_policies.then_some(&POLICIES);
    let heads = HEADS.iter().chain(policies);
    let mut rows = vec![heads.map(ToString::to_string).collect()];
    let mut more_addresses = 0;
    for listed in &list.names {
        let row = Row { list, listed };
        let before = rows.len();
        rows.extend(row.selected(pattern).map(|it| row.cells(Some(it))));
        if rows.len() == before {
            rows.push(row.cells(None));
        }
        more_addresses += listed.name.facts.more_addresses;
    }
    let mut lines = aligned(&rows);
    if list.names.is_empty() {
        lines = vec!["no name".to_owned()];
    }
    if more_addresses > 0 {
        lines.push(format!("and {more_addresses} more addresses"));
    }
    // A selection of names has no line about others.
    if pattern.is_none() && !list.not_allowed_by_name.is_empty() {
        let names = list.not_allowed_by_name.iter();
        let names = names.map(|it| format!("{} ({} s)", it.name, it.seconds_asked));
        let names: Vec<String> = names.collect();
        lines.push(format!(
            "not allowed by name: {}",
            printable(&names.join(", "))
        ));
    }
    if !list.is_leader {
        lines.push(format!(
            "? no collector leads: the list is that of {}",
            list.collector
        ));
    }
    if list.problems > 0 {
        let count = list.problems;
        lines.push(format!(
            "! problems of the collector: {count}; egress check names them"
        ));
    }
    lines.extend(list.unreachable.iter().map(|it| format!("? {it}")));
    lines.join("\n")
}

struct Row<'a> {
    list: &'a List,
    listed: &'a Listed,
}

impl<'a> Row<'a> {
    /// The addresses that `--name` selects: all, if it matches the rule's name.
    fn selected(&self, pattern: Option<&NamePattern>) -> impl Iterator<Item = &'a AddressFacts> {
        let facts = &self.listed.name.facts;
        let pattern = pattern.filter(|it| !it.matches(facts.name.as_str()));
        let addresses = facts.addresses.iter();
        addresses.filter(move |it| pattern.is_none_or(|pattern| pattern.matches(it.name.as_str())))
    }

    /// The cells of an address, or of a name without one.
    fn cells(&self, address: Option<&AddressFacts>) -> Vec<String> {
        let (name, now) = (&self.listed.name, self.list.at);
        let none = || "-".to_owned();
        let client = address.and_then(|it| it.first_client);
        let client = client.map_or_else(none, |it| it.to_string());
        let asked_by: Vec<String> = name.asked_by.iter().map(ToString::to_string).collect();
        let mut cells = vec![
            address.map_or(&name.facts.name, |it| &it.name).to_string(),
            address.map_or_else(none, |it| it.address.to_string()),
            match address {
                Some(address) => source(&address.seen_where).to_owned(),
                None => self.why(),
            },
            match address {
                Some(it) if it.removed_after_lookup => "its next look-up".to_owned(),
                Some(it) => when(it.removed_at, now),
                None => none(),
            },
            shortened(&name.namespaces, name.more_namespaces),
            match asked_by.as_slice() {
                [] => client,
                clients => shortened(clients, 0),
            },
            self.nodes(address.map(|it| it.address)),
        ];
        if self.list.has_policies {
            cells.push(self.policies(address.map(|it| it.address)));
        }
        cells.iter().map(|cell| printable(cell)).collect()
    }

    /// Why the name has no address: the last failure.
    fn why(&self) -> String {
        let why = self.listed.name.facts.no_address.as_ref();
        why.map_or_else(|| "-".to_owned(), |why| why.code.clone())
    }

    /// The number of nodes whose sets have the address, of all that answered.
    fn nodes(&self, address: Option<IpAddr>) -> String {
        let Some(address) = address.filter(|_| self.list.writers > 0) else {
            return "-".to_owned();
        };
        let sets = self.listed.sets.iter();
        let having = sets.filter(|it| it.set.addresses.contains(&address));
        let has_rule = having.clone().any(|it| it.set.rules > 0);
        let nodes: BTreeSet<&String> = having.flat_map(|it| &it.nodes).collect();
        let no_rule = match nodes.is_empty() || has_rule {
            true => "",
            false => " no rule",
        };
        format!("{}/{}{no_rule}", nodes.len(), self.list.writers)
    }

    /// The DNSResolvers whose objects have the address.
    fn policies(&self, address: Option<IpAddr>) -> String {
        let resolvers = self.listed.dns_resolvers.iter();
        let having = resolvers.filter(|it| address.is_some_and(|ip| it.addresses.contains(&ip)));
        let names = having.map(|it| format!("{}/{}", it.namespace, it.name));
        let names: Vec<String> = names.collect();
        or_none(few(names.iter(), FEW))
    }
}

fn or_none(text: String) -> String {
    if text.is_empty() {
        "-".to_owned()
    } else {
        text
    }
}

/// The origin in a few words.
fn source(seen_where: &str) -> &str {
    match seen_where {
        "in the reply to this replica's own look-up" => "look-up",
        "in a dnstap stream, before a rule wanted the name" => "cached answer",
        "by another replica or an earlier run, which wrote it into the object" => "object",
        other => other.trim_start_matches("in the dnstap stream of "),
    }
}

fn shortened(texts: &[String], more: usize) -> String {
    let beyond = more + texts.len().saturating_sub(FEW);
    let mut shown: Vec<String> = texts.iter().take(FEW).cloned().collect();
    if beyond > 0 {
        shown.push(format!("{beyond} more"));
    }
    or_none(shown.join(","))
}

/// Pads the cells of each column to the same width.
fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(String::len).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests;
