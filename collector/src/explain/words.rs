//! The lines that people read.

use runtime::{
    clock::Timestamp,
    inspect::{
        Asked, Subject,
        text::{printable, when},
    },
};

use super::{Explanation, Known, NameExplained, reasons::Reason};
use crate::{
    ingest::Sources,
    owner::NameFacts,
    state::{AddressFacts, Goes},
};

/// So many lines of a kind; the others are counted. The JSON has them.
const MOST: usize = 40;

/// All of it. Every line is printable ASCII.
pub(super) fn lines(
    explanation: &Explanation,
    asked: &Asked,
    known: &Known,
    sources: &Sources,
    now: Timestamp,
) -> Vec<String> {
    let mut lines = vec![first(explanation, asked)];
    let facts = known.facts.iter().flat_map(|facts| &facts.names);
    let names = explanation.names.iter().zip(facts);
    for (name, facts) in names.take(MOST) {
        lines.push(head(name));
        of_name(facts, asked, sources, now, &mut lines);
    }
    more(
        &mut lines,
        explanation.names.len(),
        explanation.more_names,
        "names",
    );
    let reasons = explanation.reasons.iter().take(MOST);
    lines.extend(reasons.map(of_reason));
    more(&mut lines, explanation.reasons.len(), 0, "reasons");
    let leads = match explanation.leader {
        true => "the replica that leads",
        false => "a replica that does not lead",
    };
    if known.facts.is_some() {
        lines.push(format!("As of {}, by {leads}.", explanation.at));
    }
    lines.iter().map(|line| printable(line)).collect()
}

fn first(explanation: &Explanation, asked: &Asked) -> String {
    let Explanation { about, names, .. } = explanation;
    let is = if explanation.is_there {
        "is there"
    } else {
        "is not there"
    };
    let whose = asked.whose();
    let counted = || {
        let names = names.iter().filter(|name| !name.rules.is_empty());
        names
            .map(|name| name.addresses.len() + name.more_addresses)
            .sum::<usize>()
    };
    match &asked.subject {
        _ if !explanation.is_there => format!("{about} {is}{whose}."),
        Ok(Subject::Name(_)) => match counted() {
            1 => format!("{about} {is}{whose}, with 1 address."),
            count => format!("{about} {is}{whose}, with {count} addresses."),
        },
        _ => format!("{about} {is}{whose}."),
    }
}

fn head(name: &NameExplained) -> String {
    let rules = name.rules.iter().take(MOST).map(|rule| {
        let what = match (rule.allowed, rule.denied) {
            (true, true) => "Allow and Deny",
            (false, true) => "Deny",
            _ => "Allow",
        };
        format!("{what} in {}", rule.egress_firewall)
    });
    let mut parts: Vec<String> = rules.collect();
    let more = name.more_rules + name.rules.len().saturating_sub(MOST);
    if parts.is_empty() {
        parts.push("no rule".to_owned());
    }
    if more > 0 {
        parts.push(format!("{more} more"));
    }
    match name.objects.as_slice() {
        [] => parts.push("no object yet".to_owned()),
        [object] => parts.push(format!("object {object}")),
        [object, ..] => parts.push(format!("{} objects, as {object}", name.objects.len())),
    }
    format!("{}: {}", name.name, parts.join(", "))
}

fn of_name(
    name: &NameFacts,
    asked: &Asked,
    sources: &Sources,
    now: Timestamp,
    lines: &mut Vec<String>,
) {
    let is_asked = |facts: &AddressFacts| match &asked.subject {
        Ok(Subject::Name(asked)) => facts.name == *asked,
        _ => facts.name == name.name,
    };
    for (address, in_object) in name.addresses.iter().take(MOST) {
        let mut line = format!("  {}", address.ip);
        if !is_asked(address) {
            line += &format!(" of {}", address.name);
        }
        line += &format!(
            ": seen {} {}; TTL {} s; expires {}; ",
            when(address.seen, now),
            sources.describe(address.source),
            address.ttl,
            when(address.expires, now)
        );
        line += &match address.goes {
            Goes::At(at) => format!("goes {} if it is not seen again", when(at, now)),
            Goes::OnceLookedUp(at) => format!(
                "goes once a look-up no longer gives it, not before {}",
                when(at, now)
            ),
        };
        if let Some(client) = address.first_client {
            line += &format!("; first asked for by {client}");
        }
        if !in_object && !name.objects.is_empty() {
            line += "; not in the object yet";
        }
        lines.push(line);
    }
    more(
        lines,
        name.addresses.len(),
        name.more_addresses,
        "addresses",
    );
    if let Some(next) = name.next_lookup {
        lines.push(format!("  next look-up {}", when(next, now)));
    }
}

fn of_reason(reason: &Reason) -> String {
    match &reason.at {
        Some(at) => format!("- {} ({at})", reason.words),
        None => format!("- {}", reason.words),
    }
}

fn more(lines: &mut Vec<String>, shown: usize, beyond: usize, what: &str) {
    let more = shown.saturating_sub(MOST) + beyond;
    if more > 0 {
        lines.push(format!(
            "  and {more} more {what}: `-o json` has at most 1000"
        ));
    }
}
