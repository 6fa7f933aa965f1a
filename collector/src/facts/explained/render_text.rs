//! The explanation as text.

use runtime::{
    clock::Timestamp,
    inspect::{
        Asked, Subject,
        text::{printable, when},
    },
};

use crate::facts::explained::{Explanation, NameExplained, reasons::Reason};
use names::AddressFacts;

/// The most lines of a kind; further ones are counted. The JSON has them.
const MOST: usize = 40;

/// All lines, in printable ASCII.
pub(super) fn lines(explanation: &Explanation, asked: &Asked) -> Vec<String> {
    let mut lines = vec![first(explanation, asked)];
    for name in explanation.names.iter().take(MOST) {
        lines.push(head(name));
        of_name(name, asked, explanation.at, &mut lines);
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
    if asked.subject.is_ok() {
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
        let names = names.iter().filter(|name| !name.uses.rules.is_empty());
        names
            .map(|name| name.addresses.len() + name.facts.more_addresses)
            .sum::<usize>()
    };
    let rules = names.iter().filter(|name| !name.addresses.is_empty());
    let mut rules = rules.flat_map(|name| &name.uses.rules);
    let only = match rules.all(|rule| rule.denied && !rule.allowed) {
        true => ", in Deny rules only: they drop packets to it",
        false => "",
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

fn head(name: &NameExplained) -> String {
    let rules = name.uses.rules.iter().take(MOST).map(|rule| {
        let what = match (rule.allowed, rule.denied) {
            (true, true) => "Allow and Deny",
            (false, true) => "Deny",
            _ => "Allow",
        };
        let object = &rule.object;
        let mut text = match rule.kind.field() {
            Some(field) => format!("{what} in {object} {field}[{}]", rule.index),
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
    let more = name.uses.more + name.uses.rules.len().saturating_sub(MOST);
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

fn of_name(explained: &NameExplained, asked: &Asked, now: Timestamp, lines: &mut Vec<String>) {
    let name = &explained.facts;
    let is_asked = |facts: &AddressFacts| match &asked.subject {
        Ok(Subject::Name(asked)) => facts.name == *asked,
        _ => facts.name == name.name,
    };
    for explained in explained.addresses.iter().take(MOST) {
        let address = &explained.facts;
        let mut line = format!("  {}", address.ip);
        if !is_asked(address) {
            line += &format!(" of {}", address.name);
        }
        line += &format!(
            ": seen {} {}; TTL {} s; expires {}; ",
            when(address.seen, now),
            explained.seen_where,
            address.ttl,
            when(address.expires, now)
        );
        let goes = when(address.goes, now);
        line += &match address.goes_once_looked_up {
            false => format!("goes {goes} if it is not seen again"),
            true => format!("goes when a look-up no longer has it, not before {goes}"),
        };
        if let Some(client) = address.first_client {
            line += &format!("; first queried by {client}");
        }
        if !explained.in_object && !name.objects.is_empty() {
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
