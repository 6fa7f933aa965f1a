//! What the collector knows, as text.

use proto::{
    facts::{AddressFacts, Asked, ExplainedName, Subject},
    text::{printable, when},
    timestamp::Timestamp,
};

use super::{OfCollector, more, reasons::Reason};
use crate::output::MOST_LINES;

/// All lines, in printable ASCII.
pub(super) fn lines(explanation: &OfCollector, asked: &Asked) -> Vec<String> {
    let mut lines = vec![first(explanation, asked)];
    let facts = &explanation.facts;
    for name in facts.names.iter().take(MOST_LINES) {
        lines.push(head(name));
        of_name(name, asked, explanation.now, &mut lines);
    }
    let beyond = facts.names.len().saturating_sub(MOST_LINES) + facts.more_names;
    more(&mut lines, "  ", beyond, "names");
    let reasons = explanation.reasons.iter().take(MOST_LINES);
    lines.extend(reasons.map(of_reason));
    let beyond = explanation.reasons.len().saturating_sub(MOST_LINES);
    more(&mut lines, "  ", beyond, "reasons");
    let leads = if explanation.leader {
        "the replica that leads"
    } else {
        "a replica that does not lead"
    };
    if asked.subject.is_ok() {
        lines.push(format!("As of {}, by {leads}.", explanation.now));
    }
    lines.iter().map(|line| printable(line)).collect()
}

fn first(explanation: &OfCollector, asked: &Asked) -> String {
    let (about, names) = (&explanation.about, &explanation.facts.names);
    let is = if explanation.is_there {
        "is there"
    } else {
        "is not there"
    };
    let whose = asked.whose();
    let counted = || {
        let names = names
            .iter()
            .filter(|name| !name.references.rules.is_empty());
        names
            .map(|name| name.facts.addresses.len() + name.facts.more_addresses)
            .sum::<usize>()
    };
    let rules = names.iter().filter(|name| !name.facts.addresses.is_empty());
    let mut rules = rules.flat_map(|name| &name.references.rules);
    let only = if rules.all(|rule| rule.denied && !rule.allowed) {
        ", in Deny rules only: they drop packets to it"
    } else {
        ""
    };
    match &asked.subject {
        _ if !explanation.is_there => format!("{about} {is}{whose}."),
        Ok(Subject::Name(_)) => match counted() {
            1 => format!("{about} {is}{whose}, with 1 address{only}."),
            count => format!("{about} {is}{whose}, with {count} addresses{only}."),
        },
        _ => format!("{about} {is}{whose}{only}."),
    }
}

fn head(name: &ExplainedName) -> String {
    let rules = name.references.rules.iter().take(MOST_LINES).map(|rule| {
        let what = match (rule.allowed, rule.denied) {
            (true, true) => "Allow and Deny",
            (false, true) => "Deny",
            _ => "Allow",
        };
        let object = &rule.object;
        let mut text = match &rule.rule {
            Some(rule) => format!("{what} in {object} {rule}"),
            None => format!("{what} by {} {object}", rule.kind),
        };
        match rule.more_rules {
            0 => {}
            1 => text += " and another rule",
            more => text += &format!(" and {more} more rules"),
        }
        if rule.is_for_ports {
            text += " for some ports only";
        }
        text
    });
    let mut parts: Vec<String> = rules.collect();
    let more = name.references.more + name.references.rules.len().saturating_sub(MOST_LINES);
    if parts.is_empty() {
        parts.push("no rule".to_owned());
    }
    if more > 0 {
        parts.push(format!("{more} more"));
    }
    match name.facts.objects.as_slice() {
        [] => parts.push("no object yet".to_owned()),
        [object] => parts.push(format!("object {object}")),
        [object, ..] => parts.push(format!("{} objects, as {object}", name.facts.objects.len())),
    }
    format!("{}: {}", name.facts.name, parts.join(", "))
}

fn of_name(name: &ExplainedName, asked: &Asked, now: Timestamp, lines: &mut Vec<String>) {
    let name = &name.facts;
    let is_asked = |facts: &AddressFacts| match &asked.subject {
        Ok(Subject::Name(asked)) => facts.name == *asked,
        _ => facts.name == name.name,
    };
    for address in name.addresses.iter().take(MOST_LINES) {
        let mut line = format!("  {}", address.address);
        if !is_asked(address) {
            line += &format!(" of {}", address.name);
        }
        line += &format!(
            ": seen {} {}; TTL {} s; expires {}; ",
            when(address.seen, now),
            address.seen_where,
            address.ttl_seconds,
            when(address.expires, now)
        );
        let leaves = when(address.removed_at, now);
        line += &if address.removed_after_lookup {
            format!("leaves when a look-up no longer has it, not before {leaves}")
        } else {
            format!("leaves {leaves} if it is not seen again")
        };
        if let Some(client) = address.first_client {
            line += &format!("; first queried by {client}");
        }
        if address.is_covered {
            line += "; covered by the wildcard's own entry in the object";
        } else if !address.in_object && !name.objects.is_empty() {
            line += "; not in the object yet";
        }
        lines.push(line);
    }
    let beyond = name.addresses.len().saturating_sub(MOST_LINES) + name.more_addresses;
    more(lines, "  ", beyond, "addresses");
    if let Some(next) = name.next_lookup {
        lines.push(format!("  next look-up {}", when(next, now)));
    }
}

fn of_reason(reason: &Reason) -> String {
    match &reason.at {
        Some(at) => format!("- {} ({at})", reason.sentence),
        None => format!("- {}", reason.sentence),
    }
}
