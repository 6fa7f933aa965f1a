//! The status page. `maud` escapes every text on it.
//!
//! `names`: the table of names, which is the largest.

mod names;

use maud::{Markup, html};
use runtime::{
    inspect::html::{
        Refresh, Site, conditions, controls, page_path,
        table::{Column, bad, cell, lines, table},
    },
    store::ObjectKey,
};

pub(super) use self::names::Selected;
use crate::facts::{
    problems::block_trouble,
    status::{FaultStatus, Status},
};
use crate::{flush::BlockView, publish::NameListing};

/// The most rows of a table; those with trouble come first.
const MAX_ROWS: usize = 500;

/// The selected part of the names.
#[derive(Debug)]
pub(super) struct Shown {
    /// Only names that contain this text, ignoring case, or whose objects do.
    pub(super) filter: String,
    /// The page, from 1.
    pub(super) page: usize,
    pub(super) refresh: Refresh,
}

impl Shown {
    /// The path of another page of the same names.
    fn path(&self, page: usize, refresh: Refresh) -> String {
        let number = if page > 1 {
            page.to_string()
        } else {
            String::new()
        };
        page_path(&[("filter", &self.filter), ("page", &number)], refresh)
    }
}

pub(super) fn render(
    site: &Site,
    status: &Status,
    selected: &Selected<'_>,
    listing: &NameListing,
    shown: &Shown,
) -> String {
    let leads = match status.view.leader {
        true => "This replica leads",
        false => "This replica does not lead",
    };
    let path = |refresh| shown.path(shown.page, refresh);
    let body = html! {
        (controls(shown.refresh, "names or objects", &shown.filter, path))
        p { "As of " (status.view.at.floor_second()) ". " (leads) "." }
        h2 id="conditions" { "Conditions" }
        (conditions(&status.conditions))
        (faults(status))
        (bad_objects(status))
        (dns_blocks(status))
        (peers(status))
        (namespaces(status))
        (names::section(status, selected, listing, shown))
    };
    site.status(&status.problems, shown.refresh, body)
}

fn faults(status: &Status) -> Markup {
    let columns = [
        Column::text("Object"),
        Column::text("Reason"),
        Column::number("Count"),
        Column::text("Meaning"),
        Column::text("Which"),
    ];
    html! {
        h2 id="rules" { "Rules" }
        @for rules in &status.rules {
            p {
                (rules.objects) " " (rules.kind) "s"
                @if status.faults.is_empty() { ", without faults" }
                "."
            }
            @if let Some(why) = &rules.out_of_sync {
                p.bad { (rules.kind) "s cannot be read: " (why) }
            }
            @if !rules.unknown.is_empty() {
                p.bad {
                    "Cannot be read, so the collector deletes no object: "
                    (joined(&rules.unknown))
                }
            }
        }
        (table(&columns, status.faults.iter().map(fault)))
    }
}

fn joined(keys: &[ObjectKey]) -> String {
    let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
    keys.join(", ")
}

fn fault(fault: &FaultStatus) -> [Markup; 5] {
    [
        cell(format!("{} {}", fault.kind, fault.object)),
        match fault.is_advice {
            true => cell(fault.reason),
            false => bad(fault.reason),
        },
        cell(fault.count),
        cell(fault.meaning),
        lines(&fault.subjects),
    ]
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

fn dns_blocks(status: &Status) -> Markup {
    let mut rows: Vec<&BlockView> = status.dns_blocks.iter().collect();
    rows.sort_by_key(|block| block_trouble(block).is_none());
    let columns = [
        Column::text("Server"),
        Column::text("Probed for"),
        Column::text("State"),
        Column::number("Last dnstap"),
        Column::number("Delay"),
        Column::text("Trouble"),
    ];
    let row = |block: &BlockView| {
        let delay = |delay: f64| format!("{:.1} ms", delay * 1e3);
        [
            cell(block.server.to_string()),
            cell(&block.name),
            cell(block.state.as_str()),
            html! { @if let Some(ago) = block.reported { (ago.as_secs()) " s ago" } },
            html! { @if let Some(it) = block.delay { (delay(it.as_secs_f64())) } },
            bad(block_trouble(block).unwrap_or_default()),
        ]
    };
    html! {
        @if !rows.is_empty() {
            h2 id="dns-servers" { "DNS servers" }
            (table(&columns, rows.into_iter().take(MAX_ROWS).map(row)))
        }
    }
}

fn peers(status: &Status) -> Markup {
    let hidden = status.peers.len().saturating_sub(MAX_ROWS);
    let drops = &status.drops;
    let columns = [
        Column::text("Peer"),
        Column::number("Connections"),
        Column::number("Frames"),
        Column::number("Dropped"),
    ];
    html! {
        h2 id="peers" { "Peers" }
        p {
            (status.peers.len()) " peers stream dnstap. Dropped answers, whose names are looked up again: "
            (drops.queue) " since the queue was full, " (drops.share) " since a peer's share of it was full."
        }
        (table(&columns, status.peers.iter().take(MAX_ROWS).map(|peer| [
            html! { (peer.peer) @if !peer.is_known { " (not known)" } },
            cell(peer.connections),
            cell(peer.frames),
            cell(peer.lost),
        ])))
        @if hidden > 0 { p { (hidden) " more peers are in " a href="/status.json" { "/status.json" } "." } }
    }
}

fn namespaces(status: &Status) -> Markup {
    let rows = &status.view.namespaces;
    let columns = [
        Column::text("Namespace"),
        Column::number("Addresses of names"),
        Column::number("Names left out"),
    ];
    html! {
        @if !rows.is_empty() {
            h2 id="namespaces" { "Namespaces at a cap" }
            (table(&columns, rows.iter().map(|row| [
                cell(&*row.namespace),
                cell(row.addresses),
                cell(row.names_left_out),
            ])))
        }
    }
}
