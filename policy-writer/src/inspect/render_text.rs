//! The answers as lines of text, in printable ASCII.

use std::{fmt::Display, time::Duration};

use runtime::inspect::{
    Asked,
    text::{few, printable, span},
};

use crate::planner::{
    AddressExplained, Comparison, Explained, Explanation, ObjectReport, ObjectShown,
};

/// The most lines of a kind; the rest is counted. The JSON has more.
const MOST: usize = 40;

/// The most names or addresses in a line.
const MOST_NAMED: usize = 5;

/// The lines of an explanation.
pub(super) fn explanation(told: &Explanation, asked: &Asked) -> Vec<String> {
    let is = if told.is_there { "is" } else { "is not" };
    let whose = asked.whose();
    let mut lines = vec![format!(
        "{} {is} in the objects of DNSResolvers{whose}.",
        told.about
    )];
    for resolver in told.dns_resolvers.iter().take(MOST) {
        of_resolver(resolver, &mut lines);
    }
    let beyond = told.dns_resolvers.len().saturating_sub(MOST) + told.more_dns_resolvers;
    more(&mut lines, "", beyond, "DNSResolvers");
    let reasons = told.reasons.iter();
    lines.extend(reasons.map(|reason| format!("- {}", reason.words)));
    lines.iter().map(|line| printable(line)).collect()
}

fn of_resolver(resolver: &Explained, lines: &mut Vec<String>) {
    let Explained {
        namespace, name, ..
    } = resolver;
    let objects: Vec<_> = resolver.objects.iter().map(object).collect();
    let lists = match resolver.names.as_slice() {
        [] => String::new(),
        names => format!(", which lists {}", few(names.iter(), MOST_NAMED)),
    };
    lines.push(format!(
        "DNSResolver {namespace}/{name}{lists}: {}",
        objects.join(", ")
    ));
    let addresses = resolver.addresses.iter().take(MOST);
    lines.extend(addresses.map(address));
    let beyond = resolver.addresses.len().saturating_sub(MOST) + resolver.more_addresses;
    more(lines, "  ", beyond, "addresses");
    if resolver.addresses.is_empty() {
        lines.push("  no address".to_owned());
    }
    let reasons = resolver.reasons.iter();
    lines.extend(reasons.map(|reason| format!("  - {}", reason.words)));
}

fn object(object: &ObjectShown) -> String {
    let kind = object.kind.name();
    let state = match object {
        ObjectShown { is_taken: true, .. } => " of another owner",
        ObjectShown {
            failure: Some(_), ..
        } => " (cannot be written)",
        ObjectShown {
            is_written: false, ..
        } => " (not written by this process)",
        _ => "",
    };
    format!("{kind}{state}")
}

fn address(told: &AddressExplained) -> String {
    let kinds: Vec<_> = told.objects.iter().map(|kind| kind.name()).collect();
    let mut line = match kinds.as_slice() {
        [] => format!("  {}: in no object", told.address),
        kinds => format!("  {}: in the {}", told.address, kinds.join(" and the ")),
    };
    if let Some(seconds) = told.since_seconds {
        line += &format!(", for at least {}", span(Duration::from_secs(seconds)));
    }
    if let Some(reason) = told.reason {
        line += &format!("; {reason}");
    }
    line
}

/// The lines of a comparison.
pub(super) fn comparison(told: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    for report in told.differences.iter().take(MOST) {
        of_object(report, &mut lines);
    }
    let beyond = told.differences.len().saturating_sub(MOST) + told.more_differences;
    more(&mut lines, "", beyond, "objects that differ");
    let reasons = told.reasons.iter();
    lines.extend(reasons.map(|reason| format!("- {}", reason.words)));
    let differing = told.differences.len() + told.more_differences;
    let mut last = format!(
        "{} DNSResolvers, {} objects: {differing} differ from the statuses",
        told.dns_resolvers, told.objects
    );
    for (count, what) in [
        (told.left_out, "left out at a limit"),
        (told.kept, "kept without a name"),
    ] {
        if count > 0 {
            last += &format!("; addresses {what}: {count}");
        }
    }
    lines.push(last);
    lines.iter().map(|line| printable(line)).collect()
}

fn of_object(report: &ObjectReport, lines: &mut Vec<String>) {
    let ObjectReport {
        namespace, name, ..
    } = report;
    let mut parts = Vec::new();
    parts.extend(report.fault.map(str::to_owned));
    for (what, addresses, more) in [
        ("missing", &report.missing, report.more_missing),
        ("too many", &report.surplus, report.more_surplus),
    ] {
        if !addresses.is_empty() {
            parts.push(format!("{what}: {}", named(addresses, more)));
        }
    }
    let kind = report.kind.name();
    lines.push(format!("{kind} {namespace}/{name}: {}", parts.join("; ")));
    let reasons = report.reasons.iter();
    lines.extend(reasons.map(|reason| format!("  - {}", reason.words)));
}

fn named<T: Display>(all: &[T], beyond: usize) -> String {
    let named: Vec<_> = all.iter().take(MOST_NAMED).map(T::to_string).collect();
    let more = all.len() - named.len() + beyond;
    match more {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

fn more(lines: &mut Vec<String>, indent: &str, count: usize, what: &str) {
    if count > 0 {
        lines.push(format!(
            "{indent}and {count} more {what}: `-o json` has more"
        ));
    }
}
