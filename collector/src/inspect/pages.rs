//! The page. What stands in it is escaped by `maud`, which knows no other way.

use maud::{Markup, html};
use runtime::inspect::html::{explain_form, explain_link, filter_form, page};

use super::{
    namespaces,
    status::{DnsBlockStatus, FailureStatus, NameStatus, Status},
};

/// How many rows of a table the page shows; of names the troubled ones come first.
const MAX_ROWS: usize = 500;

/// What somebody wants to see of the names.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// Only those that hold this text, in any case, or whose objects do.
    pub(super) filter: String,
    /// Which part of them, from 1 on.
    pub(super) page: usize,
}

/// The response code of a server that does not want to answer (RFC 1035 section 4.1.1).
const REFUSED: u8 = 5;

pub(super) fn render(status: &Status, shown: &Shown) -> String {
    page(
        "collector",
        html! {
            h1 { "collector " (status.version) }
            p {
                (status.at) ". This replica " (if status.leader { "leads" } else { "does not lead" }) ". "
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
            (namespaces::table(&status.namespaces_over_limit))
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
    html! {
        h2 { "Rules" }
        p {
            (status.egress_firewalls) " EgressFirewalls"
            @if status.faults.is_empty() { ", nothing to say against them" }
            "."
        }
        @if !status.unknown_egress_firewalls.is_empty() {
            p.bad { "Cannot be read, so that no object is deleted: " (status.unknown_egress_firewalls.join(", ")) }
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
    let mut rows: Vec<&DnsBlockStatus> = status.dns_blocks.iter().collect();
    rows.sort_by_key(|block| !matches!(block.state, "blind" | "forwards"));
    html! {
        @if !rows.is_empty() {
            h2 { "DNS servers" }
            table {
                tr {
                    th { "Server" } th { "Probed for" } th { "State" } th.number { "Streams" }
                    th.number { "Heard" } th.number { "Delay" } th { "Trouble" }
                }
                @for block in rows.iter().take(MAX_ROWS) {
                    tr {
                        td { (block.server) }
                        td { (block.name) }
                        td { (block.state) }
                        td.number { (block.streams) }
                        td.number { @if let Some(seconds) = block.reported_seconds { (seconds) " s ago" } }
                        td.number { @if let Some(delay) = block.delay_milliseconds { (format!("{delay:.1} ms")) } }
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
            p {
                @match &corefile.unknown {
                    Some(reason) => { "Nothing is known of it: " (reason) },
                    None if corefile.findings.is_empty() => "The answers of all its server blocks are seen.",
                    None => "",
                }
            }
            @if !corefile.findings.is_empty() {
                table {
                    tr { th.number { "Line" } th { "What" } }
                    @for finding in &corefile.findings {
                        tr { td.number { (finding.line) } td.bad[finding.is_fault] { (finding.words) } }
                    }
                }
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
                        td { (pod.name_servers.join(", ")) }
                        td.bad[pod.whose == "foreign" || pod.whose == "node"] { (pod.whose) }
                    }
                }
            }
        }
    }
}

fn block_trouble(block: &DnsBlockStatus) -> &'static str {
    match (block.state, block.rcode) {
        ("forwards", _) => {
            "it sends the probe on, so its stream may be a second late: give a name that it answers by itself (--flush-name)"
        }
        ("blind", None) => "not heard for 30 s, and it does not answer",
        ("blind", Some(REFUSED)) => "not heard for 30 s: it has no server block for this name",
        ("blind", Some(_)) => {
            "not heard for 30 s, though it answers: is there a `dnstap` line in this server block?"
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
            (status.peers.len()) " peers stream dnstap. Answers that were dropped, and are asked for again: "
            (drops.queue) " as the queue was full, " (drops.peer_share) " as a peer's part of it was, "
            (drops.unknown_peer) " of peers that were not known yet."
        }
        @if !status.peers.is_empty() {
            table {
                tr {
                    th { "Peer" } th.number { "Connections" } th.number { "Frames" } th.number { "Lag" } th.number { "Dropped" }
                }
                @for peer in status.peers.iter().take(MAX_ROWS) {
                    tr {
                        td { (peer.peer) @if !peer.known { " (not known)" } }
                        td.number { (peer.connections) }
                        td.number { (peer.frames) }
                        td.number { @if let Some(lag) = peer.lag_milliseconds { (format!("{lag:.0} ms")) } }
                        td.number { (peer.lost) }
                    }
                }
            }
        }
        @if hidden > 0 { p { (hidden) " more peers are in " a href="/status.json" { "/status.json" } "." } }
    }
}

fn names(status: &Status, shown: &Shown) -> Markup {
    let wanted = shown.filter.to_ascii_lowercase();
    let holds = |text: &String| text.to_ascii_lowercase().contains(&wanted);
    let names = status.names.iter();
    let names =
        names.filter(|it| wanted.is_empty() || holds(&it.name) || it.objects.iter().any(holds));
    let mut rows: Vec<&NameStatus> = names.collect();
    rows.sort_by_key(|name| !name.is_troubled());
    let pages = rows.len().div_ceil(MAX_ROWS).max(1);
    let page = shown.page.clamp(1, pages);
    let of_page = rows.iter().skip((page - 1) * MAX_ROWS).take(MAX_ROWS);
    html! {
        h2 { "Names" }
        p {
            (status.names.len()) " names, " (status.lookups) " to be looked up. Left out because a limit was reached: "
            (status.evictions.addresses) " addresses, " (status.evictions.names) " names."
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
                    td { (explain_link(&name.name)) }
                    td { (rules(name)) }
                    td { @for object in &name.objects { (object) br; } }
                    td.number { (name.names) }
                    td.number { (name.addresses) }
                    td.number { @if let Some(seconds) = name.next_lookup_seconds { "in " (seconds) " s" } }
                    td.bad { (trouble(name)) }
                }
            }
        }
    }
}

/// Another part of the same names.
fn link(shown: &Shown, page: usize, words: &str) -> Markup {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("filter", &shown.filter);
    query.append_pair("page", &page.to_string());
    html! { a href=(format!("/?{}", query.finish())) { (words) } }
}

fn rules(name: &NameStatus) -> &'static str {
    match (name.allowed, name.denied) {
        (true, true) => "Allow, Deny",
        (true, false) => "Allow",
        (false, true) => "Deny",
        (false, false) => "none",
    }
}

fn trouble(name: &NameStatus) -> Markup {
    let more = name.failing.saturating_sub(name.failures.len());
    let fruitless = name.addresses == 0 && name.fruitless_lookups > 0;
    html! {
        @if name.objects.is_empty() { "no object" br; }
        @if name.objects.len() > 1 { "several objects" br; }
        @if fruitless { "no address in " (name.fruitless_lookups) " look-ups" br; }
        @for failure in &name.failures { (failing(failure)) br; }
        @if more > 0 { (more) " more names cannot be looked up" br; }
        @if name.full {
            "its object is full: what came last was left out, and is open (" (name.evictions.addresses) " times)" br;
        } @else if name.evictions.addresses > 0 {
            (name.evictions.addresses) " addresses left out" br;
        }
        @if name.evictions.names > 0 { (name.evictions.names) " names left out" br; }
        @if name.held { "held: no EgressFirewall has it any more" br; }
        @if name.left_out { "left out: its namespaces are over their limits, see above" br; }
        @if name.failed_writes > 0 { (name.failed_writes) " writes failed" br; }
    }
}

fn failing(failure: &FailureStatus) -> Markup {
    let reason = failure.degraded.as_deref().unwrap_or("failed before");
    html! { (failure.name) ": " (reason) ", " (failure.failures) " look-ups failed" }
}
