//! The page. What stands in it is escaped by `maud`, which knows no other way.

use maud::{Markup, html};
use runtime::inspect::html::{explain_form, page};

use super::status::{DnsBlockStatus, FailureStatus, NameStatus, Status};

/// How many names the page shows; the troubled ones come first.
const MAX_ROWS: usize = 1_000;

/// The response code of a server that does not want to answer (RFC 1035 section 4.1.1).
const REFUSED: u8 = 5;

pub(super) fn render(status: &Status) -> String {
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
            (corefile(status))
            (names(status))
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

fn corefile(status: &Status) -> Markup {
    html! {
        @if let Some(corefile) = &status.corefile {
            h2 { "Corefile" }
            p {
                "ConfigMap " (corefile.config_map)
                @match &corefile.unknown {
                    Some(reason) => { ": nothing is known of it: " (reason) },
                    None if corefile.findings.is_empty() => ": the answers of all its server blocks are seen.",
                    None => ":",
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

fn names(status: &Status) -> Markup {
    let mut rows: Vec<&NameStatus> = status.names.iter().collect();
    rows.sort_by_key(|name| !name.is_troubled());
    let hidden = rows.len().saturating_sub(MAX_ROWS);
    html! {
        h2 { "Names" }
        p {
            (status.names.len()) " names, " (status.lookups) " to be looked up. Left out because a limit was reached: "
            (status.evictions.addresses) " addresses, " (status.evictions.names) " names."
        }
        table {
            tr {
                th { "Name" } th { "Rules" } th { "Object" } th.number { "Names" } th.number { "Addresses" }
                th.number { "Next look-up" } th { "Trouble" }
            }
            @for name in rows.iter().take(MAX_ROWS) {
                tr {
                    td { (name.name) }
                    td { (rules(name)) }
                    td { @for object in &name.objects { (object) br; } }
                    td.number { (name.names) }
                    td.number { (name.addresses) }
                    td.number { @if let Some(seconds) = name.next_lookup_seconds { "in " (seconds) " s" } }
                    td.bad { (trouble(name)) }
                }
            }
        }
        @if hidden > 0 { p { (hidden) " more names are in " a href="/status.json" { "/status.json" } "." } }
    }
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
        @if name.failed_writes > 0 { (name.failed_writes) " writes failed" br; }
    }
}

fn failing(failure: &FailureStatus) -> Markup {
    let reason = failure.degraded.as_deref().unwrap_or("failed before");
    html! { (failure.name) ": " (reason) ", " (failure.failures) " look-ups failed" }
}
