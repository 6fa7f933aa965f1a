//! The answers as lines of text, in printable ASCII.

use runtime::inspect::text::{few, printable};

use super::{
    Comparison, ExplainedAddress, ExplainedResolver, Explanation, ObjectFacts, ObjectReport, Reason,
};

/// The most lines of a kind; the rest is counted. The JSON has more.
const MOST: usize = 40;

/// The most names or addresses in a line.
const MOST_NAMED: usize = 5;

/// The lines of an explanation.
pub(super) fn explanation(told: &Explanation, whose: &str) -> Vec<String> {
    let is = if told.is_there { "is" } else { "is not" };
    let mut lines = vec![format!(
        "{} {is} in the objects of DNSResolvers{whose}.",
        told.about
    )];
    for resolver in told.dns_resolvers.iter().take(MOST) {
        of_resolver(resolver, &mut lines);
    }
    let beyond = told.dns_resolvers.len().saturating_sub(MOST) + told.more_dns_resolvers;
    more(&mut lines, "", beyond, "DNSResolvers");
    reasons(&mut lines, "", &told.reasons);
    lines.iter().map(|line| printable(line)).collect()
}

fn of_resolver(resolver: &ExplainedResolver, lines: &mut Vec<String>) {
    let ExplainedResolver {
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
    let beyond = resolver.addresses.len().saturating_sub(MOST);
    more(lines, "  ", beyond, "addresses");
    if resolver.addresses.is_empty() {
        lines.push("  no address".to_owned());
    }
    reasons(lines, "  ", &resolver.reasons);
}

fn reasons(lines: &mut Vec<String>, indent: &str, reasons: &[Reason]) {
    let reasons = reasons.iter();
    lines.extend(reasons.map(|it| format!("{indent}- {}", it.words)));
}

fn object(object: &ObjectFacts) -> String {
    let kind = object.kind.name();
    let state = match object {
        ObjectFacts { is_taken: true, .. } => " of another owner",
        ObjectFacts {
            failure: Some(_), ..
        } => " (cannot be written)",
        ObjectFacts {
            is_written: false, ..
        } => " (not written by this process)",
        _ => "",
    };
    format!("{kind}{state}")
}

fn address(told: &ExplainedAddress) -> String {
    let kinds: Vec<_> = told.objects.iter().map(|kind| kind.name()).collect();
    let mut line = match kinds.as_slice() {
        [] => format!("  {}: in no object", told.address),
        kinds => format!("  {}: in the {}", told.address, kinds.join(" and the ")),
    };
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
    reasons(&mut lines, "", &told.reasons);
    let differing = told.differences.len() + told.more_differences;
    let mut last = format!(
        "{} DNSResolvers, {} objects: {differing} differ from the statuses",
        told.dns_resolvers, told.objects
    );
    if told.left_out > 0 {
        last += &format!("; addresses left out at a limit: {}", told.left_out);
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
    for (what, addresses) in [("missing", &report.missing), ("too many", &report.surplus)] {
        if !addresses.is_empty() {
            let addresses = few(addresses.iter(), MOST_NAMED);
            parts.push(format!("{what}: {addresses}"));
        }
    }
    let kind = report.kind.name();
    lines.push(format!("{kind} {namespace}/{name}: {}", parts.join("; ")));
    reasons(lines, "  ", &report.reasons);
}

fn more(lines: &mut Vec<String>, indent: &str, count: usize, what: &str) {
    if count > 0 {
        lines.push(format!(
            "{indent}and {count} more {what}: `-o json` has more"
        ));
    }
}
