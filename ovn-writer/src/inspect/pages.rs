//! The page of all sets. `maud` escapes every text.

use maud::{Markup, html};
use proto::api::DEFAULT_NETWORK_CONTROLLER;
use runtime::{
    VERSION,
    inspect::html::{explain_form, explain_link, filter_form, page},
};

use crate::explain::{SetShown, Sets};

pub(super) fn render(sets: &Sets, filter: &str) -> String {
    page(
        "ovn-writer",
        html! {
            h1 { "ovn-writer " (VERSION) }
            (explain_form(None, None))
            @for condition in &sets.conditions { p.bad { (condition.words) } }
            @if let Some(words) = sets.realized.as_ref().and_then(|it| it.words()) { p { (words) "." } }
            h2 { "Address sets" }
            (filter_form("names or sets", filter))
            p {
                (sets.names) " names"
                @if !filter.is_empty() { ", " (sets.matching) " of them with " (filter) }
                "."
                @if sets.hidden > 0 { " Of " (sets.hidden) " the sets are not shown: filter for them." }
            }
            (table(&sets.sets))
        },
    )
}

fn table(sets: &[SetShown]) -> Markup {
    html! {
        table {
            tr {
                th { "Name" } th { "Set" } th { "Family" } th.number { "Wanted" } th.number { "Present" }
                th.number { "Referring rules" } th.number { "Last repair" } th { "Trouble" }
            }
            @for set in sets {
                tr {
                    td { (explain_link(&set.name)) }
                    td {
                        (set.set)
                        @if set.controller != DEFAULT_NETWORK_CONTROLLER { " of " (set.controller) }
                    }
                    td { (set.family) }
                    td.number { (set.wanted) }
                    td.number { @match set.present { Some(present) => (present), None => "no row" } }
                    td.number { (set.rules) }
                    td.number { @if let Some(seconds) = set.repaired { (seconds) " s ago" } }
                    td.bad { @if let Some(trouble) = &set.trouble { (trouble) } }
                }
            }
        }
    }
}
