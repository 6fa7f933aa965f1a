//! What a policy-writer knows, as text.

use proto::{
    facts::{Asked, ExplainedAddress, ExplainedResolver, ObjectFacts, PoliciesExplained, Reason},
    text::{few, printable},
};

use super::more;
use crate::output::{MOST_LINES, MOST_NAMED};

/// All lines, in printable ASCII.
pub(super) fn lines(explained: &PoliciesExplained, asked: &Asked) -> Vec<String> {
    let is = if explained.is_there { "is" } else { "is not" };
    let (about, whose) = (asked.text(), asked.whose());
    let mut lines = vec![format!(
        "{about} {is} in the objects of DNSResolvers{whose}."
    )];
    for resolver in explained.dns_resolvers.iter().take(MOST_LINES) {
        of_resolver(resolver, &mut lines);
    }
    let listed = explained.dns_resolvers.len();
    let beyond = listed.saturating_sub(MOST_LINES) + explained.more_dns_resolvers;
    more(&mut lines, "", beyond, "DNSResolvers");
    reasons(&mut lines, "", &explained.reasons);
    lines.iter().map(|line| printable(line)).collect()
}

fn of_resolver(resolver: &ExplainedResolver, lines: &mut Vec<String>) {
    let (namespace, name) = (&resolver.namespace, &resolver.name);
    let objects: Vec<_> = resolver.objects.iter().map(object).collect();
    let lists = match resolver.names.as_slice() {
        [] => String::new(),
        names => format!(", which lists {}", few(names.iter(), MOST_NAMED)),
    };
    let objects = objects.join(", ");
    lines.push(format!("DNSResolver {namespace}/{name}{lists}: {objects}"));
    let addresses = resolver.addresses.iter().take(MOST_LINES);
    lines.extend(addresses.map(address));
    let beyond = resolver.addresses.len().saturating_sub(MOST_LINES);
    more(lines, "  ", beyond, "addresses");
    if resolver.addresses.is_empty() {
        lines.push("  no address".to_owned());
    }
    reasons(lines, "  ", &resolver.reasons);
}

fn reasons(lines: &mut Vec<String>, indent: &str, reasons: &[Reason]) {
    let reasons = reasons.iter();
    lines.extend(reasons.map(|it| format!("{indent}- {}", it.sentence)));
}

fn object(object: &ObjectFacts) -> String {
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
    format!("{}{state}", object.kind)
}

fn address(explained: &ExplainedAddress) -> String {
    let mut line = match explained.objects.as_slice() {
        [] => format!("  {}: in no object", explained.address),
        kinds => format!(
            "  {}: in the {}",
            explained.address,
            kinds.join(" and the ")
        ),
    };
    if let Some(reason) = &explained.reason {
        line += &format!("; {reason}");
    }
    line
}
