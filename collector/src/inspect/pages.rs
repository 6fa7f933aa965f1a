//! The status page. `maud` escapes every text on it.

use maud::{Markup, html};
use runtime::inspect::html::{explain_form, explain_link, filter_form, page};

use super::status::{Status, is_troubled};
use crate::{
    corefile::live::CorefileState,
    flush::{BlockView, plan::BlockState},
    objects::NameView,
    pods::Whose,
    state::FailureView,
};

/// The most rows of a table; names with trouble come first.
const MAX_ROWS: usize = 500;

/// The selected part of the names.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// Only names that contain this text, ignoring case, or whose objects do.
    pub(super) filter: String,
    /// The page, from 1.
    pub(super) page: usize,
}

/// The response code REFUSED (RFC 1035 section 4.1.1).
const REFUSED: u8 = 5;

pub(super) fn render(status: &Status, shown: &Shown) -> String {
    page(
        "collector",
        html! {
            h1 { "collector " (status.version) }
            p {
                (status.view.at) ". This replica " (if status.view.leader { "leads" } else { "does not lead" }) ". "
                a href="/status.json" { "All of it as JSON" }
            }
            (explain_form(None, None))
            (conditions(status))
            (faults(status))
            (bad_objects(status))
            (dns_blocks(status))
            (refused_dns_servers(status))
            (corefiles(status))
            (pods(status))
            (peers(status))
            (namespaces(status))
            (names(status, shown))
        },
    )
}

fn conditions(status: &Status) -> Markup {
    html! {
        h2 { "Conditions" }
        table {
            @for condition in &status.conditions {
                tr {
                    td { (condition.name) }
                    @match &condition.reason {
                        None => td { "ok" },
                        Some(reason) => td.bad { (reason) },
                    }
                }
            }
        }
    }
}

fn faults(status: &Status) -> Markup {
    let unknown = status.unknown_egress_firewalls.iter();
    let unknown: Vec<String> = unknown.map(ToString::to_string).collect();
    html! {
        h2 { "Rules" }
        p {
            (status.egress_firewalls) " EgressFirewalls"
            @if status.faults.is_empty() { ", without faults" }
            "."
        }
        @if !status.unknown_egress_firewalls.is_empty() {
            p.bad { "Cannot be read, so the collector deletes no object: " (unknown.join(", ")) }
        }
        @if !status.faults.is_empty() {
            table {
                tr { th { "EgressFirewall" } th { "Reason" } th.number { "Count" } th { "Meaning" } th { "Which" } }
                @for fault in &status.faults {
                    tr {
                        td { (fault.egress_firewall) }
                        td { (fault.reason) }
                        td.number { (fault.count) }
                        td { (fault.meaning) }
                        td { @for subject in &fault.subjects { (subject) br; } }
                    }
                }
            }
        }
    }
}

fn bad_objects(status: &Status) -> Markup {
    html! {
        @if !status.bad_objects.is_empty() {
            h2 { "Objects that cannot be read" }
            table {
                tr { th { "Kind" } th { "Which" } th { "Why" } }
                @for bad in &status.bad_objects {
                    tr { td { (bad.kind) } td { (bad.place) } td.bad { (bad.fault) } }
                }
            }
        }
    }
}

fn dns_blocks(status: &Status) -> Markup {
    let mut rows: Vec<&BlockView> = status.dns_blocks.iter().collect();
    rows.sort_by_key(|block| {
        !matches!(block.state, BlockState::NotReporting | BlockState::Forwards)
    });
    html! {
        @if !rows.is_empty() {
            h2 { "DNS servers" }
            table {
                tr {
                    th { "Server" } th { "Probed for" } th { "State" } th.number { "Streams" }
                    th.number { "Last dnstap" } th.number { "Delay" } th { "Trouble" }
                }
                @for block in rows.iter().take(MAX_ROWS) {
                    tr {
                        td { (block.server) }
                        td { (block.name) }
                        td { (block.state.as_str()) }
                        td.number { (block.streams) }
                        td.number { @if let Some(ago) = block.reported { (ago.as_secs()) " s ago" } }
                        td.number { @if let Some(delay) = block.delay { (format!("{:.1} ms", delay.as_secs_f64() * 1e3)) } }
                        td.bad { (block_trouble(block)) }
                    }
                }
            }
        }
    }
}

fn refused_dns_servers(status: &Status) -> Markup {
    html! {
        @if !status.refused_dns_servers.is_empty() {
            h2 { "DNS servers that are refused" }
            table {
                tr { th { "Server" } th { "Trouble" } }
                @for refused in status.refused_dns_servers.iter().take(MAX_ROWS) {
                    tr { td { (refused.server) } td.bad { (refused.words) } }
                }
            }
        }
    }
}

fn corefiles(status: &Status) -> Markup {
    html! {
        @for corefile in &status.corefiles {
            h2 { "Corefile " (corefile.config_map) }
            @match &corefile.state {
                CorefileState::Unknown => p { "The collector has not read it yet." },
                CorefileState::Unreadable { reason } => p { "The collector cannot read it: " (reason) },
                CorefileState::Absent => {},
                CorefileState::Read { findings } if findings.is_empty() => {
                    p { "All its server blocks stream to the collector." }
                },
                CorefileState::Read { findings } => table {
                    tr { th.number { "Line" } th { "What" } }
                    @for finding in findings {
                        tr { td.number { (finding.line) } td.bad[finding.is_fault] { (finding.words) } }
                    }
                },
            }
        }
    }
}

fn pods(status: &Status) -> Markup {
    let pods = status.pods.as_ref().filter(|pods| !pods.pods.is_empty());
    html! {
        @if let Some(pods) = pods {
            h2 { "Pods that bypass the cluster's DNS" }
            table {
                tr { th { "Pod" } th { "Name servers" } th { "Whose" } }
                @for pod in &pods.pods {
                    tr {
                        td { (pod.pod) }
                        td { (pod.servers.join(", ")) }
                        td.bad[matches!(pod.whose, Whose::Foreign | Whose::Node)] { (pod.whose.as_str()) }
                    }
                }
            }
        }
    }
}

fn block_trouble(block: &BlockView) -> &'static str {
    match (block.state, block.rcode) {
        (BlockState::Forwards, _) => {
            "it forwards the probe, so its stream may be a second late: give a name that it answers by itself (--flush-name)"
        }
        (BlockState::NotReporting, None) => "no stream for 30 s, and it does not answer",
        (BlockState::NotReporting, Some(REFUSED)) => {
            "no stream for 30 s: it has no server block for this name"
        }
        (BlockState::NotReporting, Some(_)) => {
            "no stream for 30 s, though it answers: check the `dnstap` line of this server block"
        }
        _ => "",
    }
}

fn peers(status: &Status) -> Markup {
    let hidden = status.peers.len().saturating_sub(MAX_ROWS);
    let drops = &status.drops;
    html! {
        h2 { "Peers" }
        p {
            (status.peers.len()) " peers stream dnstap. Dropped answers, whose names are looked up again: "
            (drops.queue) " since the queue was full, " (drops.share) " since a peer's share of it was full, "
            (drops.unknown) " of peers that were not known yet."
        }
        @if !status.peers.is_empty() {
            table {
                tr {
                    th { "Peer" } th.number { "Connections" } th.number { "Frames" } th.number { "Lag" } th.number { "Dropped" }
                }
                @for peer in status.peers.iter().take(MAX_ROWS) {
                    tr {
                        td { (peer.peer) @if !peer.is_known { " (not known)" } }
                        td.number { (peer.connections) }
                        td.number { (peer.frames) }
                        td.number { @if let Some(lag) = peer.lag { (lag.as_millis()) " ms" } }
                        td.number { (peer.lost) }
                    }
                }
            }
        }
        @for peer in status.reconnecting_peers.iter().take(MAX_ROWS) {
            p.bad {
                (peer.peer) " connects too often: " (peer.connections) " connections so far. The metric egress_collector_connection_errors_total says why they end."
            }
        }
        @if hidden > 0 { p { (hidden) " more peers are in " a href="/status.json" { "/status.json" } "." } }
    }
}

fn namespaces(status: &Status) -> Markup {
    let rows = &status.view.namespaces;
    html! {
        @if !rows.is_empty() {
            h2 { "Namespaces over their limits" }
            table {
                tr { th { "Namespace" } th.number { "Addresses" } th.number { "Names" } th { "Trouble" } }
                @for row in rows {
                    tr {
                        td { (row.namespace) }
                        td.number { (row.used.addresses) " of " (row.quota.addresses) }
                        td.number { (row.used.names) " of " (row.quota.names) }
                        td.bad {
                            @if row.is_closed { "new names under wildcards are left out" }
                        }
                    }
                }
            }
        }
    }
}

fn names(status: &Status, shown: &Shown) -> Markup {
    let wanted = shown.filter.to_ascii_lowercase();
    let holds = |text: &str| text.to_ascii_lowercase().contains(&wanted);
    let view = &status.view;
    let names = view.names.iter().filter(|it| {
        let mut objects = it.objects.iter();
        wanted.is_empty() || holds(it.name.as_str()) || objects.any(|it| holds(&it.to_string()))
    });
    let mut rows: Vec<&NameView> = names.collect();
    rows.sort_by_key(|name| !is_troubled(name));
    let pages = rows.len().div_ceil(MAX_ROWS).max(1);
    let page = shown.page.clamp(1, pages);
    let of_page = rows.iter().skip((page - 1) * MAX_ROWS).take(MAX_ROWS);
    html! {
        h2 { "Names" }
        p {
            (view.names.len()) " names, " (view.lookups) " to be looked up. Evicted because of a limit: "
            (view.evictions.addresses) " addresses, " (view.evictions.names) " names."
        }
        (filter_form("names or objects", &shown.filter))
        p {
            (rows.len()) " names, page " (page) " of " (pages)
            @if page > 1 { " " (link(shown, page - 1, "previous")) }
            @if page < pages { " " (link(shown, page + 1, "next")) }
        }
        table {
            tr {
                th { "Name" } th { "Rules" } th { "Object" } th.number { "Names" } th.number { "Addresses" }
                th.number { "Next look-up" } th { "Trouble" }
            }
            @for name in of_page {
                tr {
                    td { (explain_link(name.name.as_str())) }
                    td { (rules(name)) }
                    td { @for object in &name.objects { (object) br; } }
                    td.number { (name.names) }
                    td.number { (name.addresses) }
                    td.number { @if let Some(next) = name.next_lookup { "in " (next.since(view.at).as_secs()) " s" } }
                    td.bad { (trouble(name)) }
                }
            }
        }
    }
}

/// A link to another page of the same names.
fn link(shown: &Shown, page: usize, words: &str) -> Markup {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("filter", &shown.filter);
    query.append_pair("page", &page.to_string());
    html! { a href=(format!("/?{}", query.finish())) { (words) } }
}

fn rules(name: &NameView) -> &'static str {
    match (name.allowed, name.denied) {
        (true, true) => "Allow, Deny",
        (true, false) => "Allow",
        (false, true) => "Deny",
        (false, false) => "none",
    }
}

fn trouble(name: &NameView) -> Markup {
    let more = name.failing.saturating_sub(name.failures.len());
    let fruitless = name.addresses == 0 && name.fruitless_lookups > 0;
    html! {
        @if name.objects.is_empty() { "no object" br; }
        @if name.objects.len() > 1 { "several objects" br; }
        @if fruitless { "no address in " (name.fruitless_lookups) " look-ups" br; }
        @for failure in &name.failures { (failing(failure)) br; }
        @if more > 0 { (more) " more names cannot be looked up" br; }
        @if name.full {
            "its object is full: the latest addresses were left out, and traffic to them is not blocked (" (name.evictions.addresses) " times)" br;
        } @else if name.evictions.addresses > 0 {
            (name.evictions.addresses) " addresses left out" br;
        }
        @if name.evictions.names > 0 { (name.evictions.names) " names left out" br; }
        @if name.held { "held without an EgressFirewall" br; }
        @if name.left_out { "left out: its namespaces are over their limits, see above" br; }
        @if name.failed_writes > 0 { (name.failed_writes) " writes failed" br; }
    }
}

fn failing(failure: &FailureView) -> Markup {
    let reason = failure.failure.map(|it| it.reason());
    let reason = reason.as_deref().unwrap_or("failed before");
    html! { (failure.name) ": " (reason) ", " (failure.failures) " look-ups failed" }
}
