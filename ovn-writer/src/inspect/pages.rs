//! The status page: problems, conditions and address sets. `maud` escapes every text.

use maud::{Markup, html};
use proto::api::DEFAULT_NETWORK_CONTROLLER;
use runtime::inspect::html::{
    Refresh, Site, conditions as conditions_of, controls, explain_link, few_of, page_path,
    table::{Column, bad, cell, lines, table},
};

use super::Status;
use crate::explain::{SetShown, Sets};

/// The selected part of the sets.
#[derive(Debug)]
pub(super) struct Shown {
    /// Only sets whose DNS name or row name contains this text.
    pub(super) filter: String,
    pub(super) refresh: Refresh,
}

const SETS: [Column; 9] = [
    Column::text("Name"),
    Column::text("Set"),
    Column::text("Family"),
    Column::number("Wanted"),
    Column::number("Present"),
    Column::text("Addresses"),
    Column::number("Rules"),
    Column::text("Namespaces"),
    Column::text("Difference"),
];

pub(super) fn render(site: &Site, status: &Status, sets: &Sets, shown: &Shown) -> String {
    let body = html! {
        (controls(shown.refresh, "names or sets", &shown.filter, |refresh| {
            page_path(&[("filter", &shown.filter)], refresh)
        }))
        (conditions(status))
        (bad_objects(status))
        h2 id="sets" { "Address sets" }
        p {
            (sets.names) " names"
            @if !shown.filter.is_empty() { ", " (sets.matching) " of them with " (shown.filter) }
            "."
            @if sets.hidden > 0 { " Of " (sets.hidden) " the sets are not shown: filter for them." }
        }
        (table(&SETS, sets.sets.iter().map(row)))
    };
    site.status(&status.problems, shown.refresh, body)
}

fn conditions(status: &Status) -> Markup {
    let database = &status.snapshot.database;
    html! {
        h2 id="conditions" { "Conditions" }
        (conditions_of(&status.conditions))
        p {
            "Database " code { (database.remote) } ": "
            @match database.rows {
                Some(rows) => { (rows) " address sets of names" },
                None => "not connected",
            }
            @if database.is_managed { ", managed by ovn-kubernetes" }
            ". " (status.snapshot.objects) " DNSNameResolver objects."
            @if let Some(idle) = status.snapshot.idle { " Note: " (idle.as_str()) "." }
        }
    }
}

fn bad_objects(status: &Status) -> Markup {
    let columns = [
        Column::text("Kind"),
        Column::text("Which"),
        Column::text("Why"),
    ];
    html! {
        @if !status.bad_objects.is_empty() {
            h2 id="bad-objects" { "Objects that cannot be read" }
            (table(&columns, status.bad_objects.iter().map(|object| {
                [cell(&object.kind), cell(&object.place), bad(&object.fault)]
            })))
        }
    }
}

fn row(set: &SetShown) -> [Markup; 9] {
    let controller = match set.controller.as_str() {
        DEFAULT_NETWORK_CONTROLLER => String::new(),
        controller => format!(" of {controller}"),
    };
    let namespaces = set.namespaces.len() + set.more_namespaces;
    [
        explain_link(&set.name),
        cell(format!("{}{controller}", set.set)),
        cell(set.family),
        cell(set.wanted),
        match set.present {
            Some(present) => cell(present),
            None => cell("no row"),
        },
        cell(few_of(&set.addresses, set.present.unwrap_or(0))),
        cell(set.rules),
        match set.rules {
            0 => html! { span.quiet { "no rule refers to it" } },
            _ => cell(few_of(&set.namespaces, namespaces)),
        },
        match &set.trouble {
            Some(trouble) if set.is_being_written => lines([trouble.as_str(), "(being written)"]),
            Some(trouble) => bad(trouble),
            None => html! {},
        },
    ]
}
