//! The list as a table.

use k8s_openapi::jiff;
use runtime::{
    clock::Timestamp,
    inspect::text::{few, printable, when},
};
use serde_json::Value;

use super::{List, addresses};
use crate::nodes::{field, items};
use crate::pattern::NamePattern;

/// The most namespaces in a cell.
const FEW: usize = 3;

const HEADS: [&str; 7] = [
    "NAME", "ADDRESS", "FROM", "UNTIL", "RULES IN", "ASKED BY", "NODES",
];

/// The column of a list with policies.
const POLICIES: &str = "POLICIES";

const MORE_HEADS: [&str; 6] = ["RULE", "TTL", "SEEN", "FIRST CLIENT", "OBJECT", "SETS"];

pub(super) fn table(list: &List, pattern: Option<&NamePattern>, is_wide: bool) -> String {
    let policies = list.has_policies.then_some(&POLICIES);
    let heads = HEADS.iter().chain(policies);
    let heads = heads.chain(MORE_HEADS.iter().filter(|_| is_wide));
    let mut rows = vec![heads.map(ToString::to_string).collect()];
    let (mut more_addresses, now) = (0, time(&list.at));
    for name in &list.names {
        let row = Row {
            list,
            name,
            now,
            is_wide,
        };
        let before = rows.len();
        rows.extend(row.selected(pattern).map(|it| row.cells(Some(it))));
        if rows.len() == before {
            rows.push(row.cells(None));
        }
        more_addresses += field(name, "moreAddresses").as_u64().unwrap_or(0);
    }
    let mut lines = aligned(&rows);
    if list.names.is_empty() {
        lines = vec!["no name".to_owned()];
    }
    if more_addresses > 0 {
        lines.push(format!("and {more_addresses} more addresses"));
    }
    if !list.is_leader {
        lines.push(format!(
            "? no collector leads: the list is that of {}",
            list.collector
        ));
    }
    lines.extend(list.unreachable.iter().map(|it| format!("? {it}")));
    lines.join("\n")
}

struct Row<'a> {
    list: &'a List,
    name: &'a Value,
    now: Timestamp,
    is_wide: bool,
}

impl<'a> Row<'a> {
    /// The addresses that `--name` selects: all, if it matches the rule's name.
    fn selected(&self, pattern: Option<&NamePattern>) -> impl Iterator<Item = &'a Value> {
        let pattern = pattern.filter(|it| !it.matches(text(field(self.name, "name"))));
        addresses(self.name).filter(move |it| {
            pattern.is_none_or(|pattern| pattern.matches(text(field(it, "name"))))
        })
    }

    /// The cells of an address, or of a name without one.
    fn cells(&self, address: Option<&Value>) -> Vec<String> {
        let Self { name, now, .. } = *self;
        let nothing = Value::Null;
        let told = address.unwrap_or(&nothing);
        let shown_name = match address {
            Some(address) => field(address, "name"),
            None => field(name, "name"),
        };
        let since = |value: &Value| match value {
            Value::Null => "-".to_owned(),
            at => when(time(at), now),
        };
        let until = match field(told, "removedAfterLookup").as_bool() {
            Some(true) => "its next look-up".to_owned(),
            _ => since(field(told, "removedAt")),
        };
        let mut cells = vec![
            text(shown_name).to_owned(),
            or_none(text(field(told, "address"))),
            or_none(source(text(field(told, "seenWhere")))),
            until,
            namespaces(field(name, "namespaces"), field(name, "moreNamespaces")),
            match namespaces(field(name, "askedBy"), &nothing) {
                none if none == "-" => or_none(text(field(told, "firstClient"))),
                namespaces => namespaces,
            },
            self.nodes(text(field(told, "address"))),
        ];
        if self.list.has_policies {
            cells.push(self.policies(text(field(told, "address"))));
        }
        if self.is_wide {
            cells.extend([
                text(field(name, "name")).to_owned(),
                field(told, "ttlSeconds")
                    .as_u64()
                    .map_or("-".to_owned(), |ttl| format!("{ttl} s")),
                since(field(told, "seen")),
                or_none(text(field(told, "firstClient"))),
                self.objects(),
                self.sets(),
            ]);
        }
        cells.iter().map(|cell| printable(cell)).collect()
    }

    fn objects(&self) -> String {
        let objects = field(self.name, "objects").as_array().into_iter().flatten();
        let objects: Vec<&str> = objects.map(text).collect();
        or_none(&few(objects.iter(), FEW))
    }

    fn all_sets(&self) -> impl Iterator<Item = &'a Value> {
        field(self.name, "sets").as_array().into_iter().flatten()
    }

    /// The number of nodes whose sets have the address, of all that answered.
    fn nodes(&self, address: &str) -> String {
        if self.list.writers == 0 || address.is_empty() {
            return "-".to_owned();
        }
        let has = |set: &&Value| {
            let mut members = field(set, "addresses").as_array().into_iter().flatten();
            members.any(|member| member == address)
        };
        let having = self.all_sets().filter(has);
        let nodes = having.flat_map(|set| field(set, "nodes").as_array().into_iter().flatten());
        let nodes: std::collections::BTreeSet<_> = nodes.map(text).collect();
        format!("{}/{}", nodes.len(), self.list.writers)
    }

    /// The DNSResolvers whose objects have the address.
    fn policies(&self, address: &str) -> String {
        let having = items(self.name, "dnsResolvers")
            .filter(|resolver| items(resolver, "addresses").any(|it| it == address));
        let names = having.map(|it| {
            let (namespace, name) = (text(field(it, "namespace")), text(field(it, "name")));
            format!("{namespace}/{name}")
        });
        let names: Vec<String> = names.collect();
        or_none(&few(names.iter(), FEW))
    }

    fn sets(&self) -> String {
        let mut names: Vec<&str> = self.all_sets().map(|set| text(field(set, "set"))).collect();
        names.sort_unstable();
        names.dedup();
        or_none(&few(names.iter(), FEW))
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn or_none(text: &str) -> String {
    match text {
        "" => "-".to_owned(),
        text => text.to_owned(),
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

fn namespaces(value: &Value, more: &Value) -> String {
    let names: Vec<&str> = value.as_array().into_iter().flatten().map(text).collect();
    let beyond = more.as_u64().unwrap_or(0) + names.len().saturating_sub(FEW) as u64;
    let mut shown: Vec<String> = names.iter().take(FEW).map(ToString::to_string).collect();
    if beyond > 0 {
        shown.push(format!("{beyond} more"));
    }
    or_none(&shown.join(","))
}

fn time(value: &Value) -> Timestamp {
    let parsed = text(value).parse::<jiff::Timestamp>();
    parsed.map_or(Timestamp::default(), |at| {
        Timestamp::from_millis(at.as_millisecond())
    })
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
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_with_policies_names_those_that_have_the_address() {
        let resolver = |name: &str, addresses: &[&str]| json!({"namespace": "n1", "name": name, "addresses": addresses});
        let list = List {
            at: json!("2026-01-01T00:00:10Z"),
            collector: "a".to_owned(),
            is_leader: true,
            names: vec![json!({
                "name": "a.test.", "namespaces": ["n1"],
                "addresses": [{"name": "a.test.", "address": "192.0.2.1"}, {"name": "a.test.", "address": "192.0.2.2"}],
                "dnsResolvers": [resolver("one", &["192.0.2.1"]), resolver("two", &["192.0.2.1"]), resolver("three", &[])],
            })],
            unreachable: Vec::new(),
            writers: 0,
            has_policies: true,
        };
        let found = table(&list, None, false);
        let ends: Vec<&str> = found
            .lines()
            .map(|line| line.rsplit_once("  ").unwrap().1)
            .collect();
        assert_eq!(ends, ["POLICIES", "n1/one, n1/two", "-"]);
    }

    #[test]
    fn each_address_has_a_line_and_so_has_a_name_without_one() {
        let address = |name: &str, ip: &str, is_looked_up: bool| {
            json!({
                "name": name, "address": ip, "ttlSeconds": 30, "seen": "2026-01-01T00:00:00Z",
                "seenWhere": "in the dnstap stream of 192.0.2.53", "firstClient": "10.0.0.7",
                "removedAt": "2026-01-01T00:01:00Z", "removedAfterLookup": is_looked_up,
            })
        };
        let list = List {
            at: json!("2026-01-01T00:00:10Z"),
            collector: "a".to_owned(),
            is_leader: true,
            names: vec![
                json!({
                    "name": "*.a.test.", "namespaces": ["n1", "n2", "n3", "n4"], "moreNamespaces": 2,
                    "askedBy": ["n2"], "objects": ["ovn/dns-1"], "moreAddresses": 5,
                    "addresses": [address("x.a.test.", "192.0.2.1", true), address("y.a.test.", "192.0.2.2", false)],
                    "sets": [
                        {"nodes": ["one", "two"], "set": "a1", "addresses": ["192.0.2.1"]},
                        {"nodes": ["three"], "set": "a1", "addresses": ["192.0.2.1", "192.0.2.2"]},
                    ],
                }),
                json!({"name": "b.test.", "namespaces": ["n1"], "askedBy": [], "addresses": [], "sets": []}),
            ],
            unreachable: Vec::new(),
            writers: 3,
            has_policies: false,
        };
        assert_eq!(
            table(&list, None, false),
            "\
NAME       ADDRESS    FROM        UNTIL             RULES IN         ASKED BY  NODES
x.a.test.  192.0.2.1  192.0.2.53  its next look-up  n1,n2,n3,3 more  n2        3/3
y.a.test.  192.0.2.2  192.0.2.53  in 50 s           n1,n2,n3,3 more  n2        1/3
b.test.    -          -           -                 n1               -         -
and 5 more addresses"
        );
        let pattern: NamePattern = "y.a".parse().unwrap();
        let wide = table(&list, Some(&pattern), true);
        let lines: Vec<&str> = wide.lines().collect();
        assert!(
            lines[0].ends_with("NODES  RULE       TTL   SEEN      FIRST CLIENT  OBJECT     SETS")
        );
        assert!(
            lines[1].ends_with("1/3    *.a.test.  30 s  10 s ago  10.0.0.7      ovn/dns-1  a1")
        );
    }
}
