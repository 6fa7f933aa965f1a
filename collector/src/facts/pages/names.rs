//! The table of names, page by page.

use std::collections::BTreeMap;

use maud::{Markup, html};
use proto::api::DnsName;
use runtime::inspect::html::{
    Refresh, explain_link, few_of, page_path,
    table::{Column, bad, cell, lines, table},
};

use crate::facts::pages::{MAX_ROWS, Shown};
use crate::{
    facts::{problems::name_troubles, status::Status},
    publish::{ListedName, NameListing, NameSelection, NameView, NamesQuery},
};

/// The most addresses in a row.
const MOST_ADDRESSES: usize = 5;

const COLUMNS: [Column; 8] = [
    Column::text("Name"),
    Column::text("Rules"),
    Column::text("Namespaces"),
    Column::text("Object"),
    Column::number("Names"),
    Column::text("Addresses"),
    Column::number("Next look-up"),
    Column::text("Trouble"),
];

/// The names on the page, those with trouble first.
#[derive(Debug)]
pub(in crate::facts) struct Selected<'a> {
    names: Vec<&'a NameView>,
    /// The number of all matching names.
    matching: usize,
    page: usize,
    pages: usize,
}

impl<'a> Selected<'a> {
    pub(in crate::facts) fn of(status: &'a Status, shown: &Shown) -> Self {
        let wanted = shown.filter.to_ascii_lowercase();
        let holds = |text: &str| text.to_ascii_lowercase().contains(&wanted);
        let names = status.view.names.iter().filter(|it| {
            let mut objects = it.objects.iter();
            wanted.is_empty() || holds(it.name.as_str()) || objects.any(|it| holds(&it.to_string()))
        });
        let mut names: Vec<&NameView> = names.collect();
        names.sort_by_cached_key(|name| name_troubles(name).is_empty());
        let matching = names.len();
        let pages = matching.div_ceil(MAX_ROWS).max(1);
        let page = shown.page.clamp(1, pages);
        names.drain(..(page - 1) * MAX_ROWS);
        names.truncate(MAX_ROWS);
        Self {
            names,
            matching,
            page,
            pages,
        }
    }

    /// The query for their addresses.
    pub(in crate::facts) fn query(&self) -> NamesQuery {
        let names = self.names.iter().map(|name| name.name.clone());
        NamesQuery {
            selection: NameSelection::These(names.collect()),
            addresses: MOST_ADDRESSES,
        }
    }
}

pub(super) fn section(
    status: &Status,
    selected: &Selected<'_>,
    listing: &NameListing,
    shown: &Shown,
) -> Markup {
    let view = &status.view;
    let listed = listing.names.iter().map(|it| (&it.facts.name, it));
    let listed: BTreeMap<&DnsName, &ListedName> = listed.collect();
    let (page, pages) = (selected.page, selected.pages);
    let link = |page, words: &str| html! { a href=(shown.path(page, shown.refresh)) { (words) } };
    html! {
        h2 id="names" { "Names" }
        p {
            (view.names.len()) " names, " (view.lookups) " to be looked up. Evicted because of a limit: "
            (view.evictions.addresses) " addresses, " (view.evictions.names) " names."
        }
        @if !shown.filter.is_empty() {
            p { "Only with " strong { (shown.filter) } ". " a href=(page_path(&[], Refresh::On)) { "Show all" } }
        }
        p {
            (selected.matching) " names, page " (page) " of " (pages)
            @if page > 1 { " " (link(page - 1, "previous")) }
            @if page < pages { " " (link(page + 1, "next")) }
        }
        (table(&COLUMNS, selected.names.iter().map(|name| {
            row(name, listed.get(&name.name).copied(), status)
        })))
    }
}

fn row(name: &NameView, listed: Option<&ListedName>, status: &Status) -> [Markup; 8] {
    let next = name.next_lookup.map(|next| next.since(status.view.at));
    let troubles = name_troubles(name);
    [
        explain_link(name.name.as_str()),
        cell(rules(name)),
        html! {
            @if let Some(listed) = listed {
                (few_of(&listed.namespaces, listed.namespaces.len() + listed.more_namespaces))
            }
        },
        lines(name.objects.iter().map(ToString::to_string)),
        cell(name.names),
        match listed {
            Some(listed) => {
                let addresses = listed.facts.addresses.iter().map(|(it, _)| it.ip);
                cell(few_of(addresses, name.addresses))
            }
            None => cell(name.addresses),
        },
        html! { @if let Some(next) = next { "in " (next.as_secs()) " s" } },
        lines(troubles.iter().map(|(_, words)| bad(words))),
    ]
}

fn rules(name: &NameView) -> &'static str {
    match (name.allowed, name.denied) {
        (true, true) => "Allow, Deny",
        (true, false) => "Allow",
        (false, true) => "Deny",
        (false, false) => "none",
    }
}
