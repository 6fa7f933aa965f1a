//! A joined address as a line of text or JSON.

use std::net::IpAddr;

use runtime::inspect::text::{self, few, printable};
use serde::Serialize;

use super::{
    join::{Row, Told},
    lines::{Realized, Time},
};

/// The most nodes named in a line.
const MOST_NAMED: usize = 3;

/// The times of the legs in milliseconds. Later versions add further ones.
#[derive(Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Legs {
    /// From the answer to the collector.
    read: Option<i64>,
    /// From there to the store's acknowledgement.
    status: Option<i64>,
    /// From there until the ovn-writer of the slowest node handled the object.
    object: Option<i64>,
    /// From there to the acknowledgement of its database.
    row: Option<i64>,
    /// From there until the rules are in its switch.
    rules: Option<i64>,
    /// From there until flows that its switch cached before are gone.
    cached_flows: Option<i64>,
    /// From the answer to the last known time before `cached_flows`.
    all: Option<i64>,
}

impl Legs {
    pub(super) fn of(told: &Told) -> Self {
        let answer = told.answer.as_ref();
        let answered = answer.and_then(|it| it.answered_at);
        let read = answer.map(|it| it.read_at);
        let status = told.status.as_ref().map(|it| it.acknowledged_at);
        let slowest = slowest(told).map(|(_, row)| row);
        let object = slowest.and_then(|it| it.seen_at);
        let row = slowest.map(|it| it.acknowledged_at);
        let realized = slowest.and_then(|it| it.realized.as_ref());
        let rules = realized.and_then(|it| it.rules_at);
        let cached_flows = realized.and_then(|it| it.cached_flows_at);
        let leg = |from: Option<Time>, to: Option<Time>| Some(to?.millis_since(from?));
        let known = [answered, read, status, row, rules].into_iter().flatten();
        let first = known.clone().next();
        Self {
            read: leg(answered, read),
            status: leg(read, status),
            object: leg(status, object),
            row: leg(object.or(status), row),
            rules: leg(row, rules),
            cached_flows: leg(rules, cached_flows),
            all: leg(first, known.max()).filter(|_| answer.is_some()),
        }
    }
}

/// The row that came into effect last, with its ovn-writer.
fn slowest(told: &Told) -> Option<(&String, &Row)> {
    told.rows.iter().max_by_key(|(_, row)| row.last_time())
}

pub(super) fn text(told: &Told) -> String {
    let Told {
        key,
        answer,
        status,
        rows,
        ..
    } = told;
    let legs = Legs::of(told);
    let millis = |millis: Option<i64>| millis.map_or("?".to_owned(), |it| format!("{it} ms"));
    let mut parts = Vec::new();
    match answer {
        Some(_) if legs.read.is_some() => parts.push(format!("read {}", millis(legs.read))),
        Some(answer) => parts.push(format!("seen {}", answer.seen_where)),
        None => parts.push("no answer told".to_owned()),
    }
    match status {
        Some(_) => parts.push(format!("status {}", millis(legs.status))),
        None => parts.push("no status".to_owned()),
    }
    if let Some((writer, row)) = slowest(told) {
        if legs.object.is_some() {
            parts.push(format!("object {}", millis(legs.object)));
        }
        parts.push(format!("row {}", millis(legs.row)));
        if let Some(realized) = &row.realized {
            parts.push(rules(&legs, realized));
        }
        if legs.cached_flows.is_some() {
            parts.push(format!("cached flows {}", millis(legs.cached_flows)));
        }
        if let Some(last) = parts.last_mut().filter(|_| rows.len() > 1) {
            *last += &format!(" on {} nodes, the slowest {writer}", rows.len());
        }
    } else if answer.as_ref().is_some_and(|it| it.is_known) {
        parts.push("in the set already".to_owned());
    }
    if !told.without_row.is_empty() {
        let named = few(told.without_row.iter(), MOST_NAMED);
        parts.push(format!("no row of ovn-writer {named}"));
    }
    if !told.without_rules.is_empty() {
        let named = few(told.without_rules.iter(), MOST_NAMED);
        parts.push(format!("no word of the rules from ovn-writer {named}"));
    }
    if let Some(all) = legs.all {
        parts.push(format!("in all {all} ms"));
    }
    let mut name = key.name.clone();
    if key.rule != key.name {
        name += &format!(" ({})", key.rule);
    }
    let at = answer
        .as_ref()
        .map(|it| it.answered_at.unwrap_or(it.read_at));
    let at = at.or_else(|| status.as_ref().map(|it| it.acknowledged_at));
    let at = at.or_else(|| slowest(told).map(|(_, row)| row.acknowledged_at));
    let at = at.map_or(String::new(), |at| at.0.to_string());
    let mark = if told.is_incomplete { "? " } else { "" };
    let line = format!("{mark}{at} {name} {}: {}", key.address, parts.join(", "));
    printable(&line)
}

/// The time until the rules are in, and how far that is known.
fn rules(legs: &Legs, realized: &Realized) -> String {
    match (legs.rules, &realized.reason) {
        (Some(rules), None) => format!("rules {rules} ms"),
        (Some(rules), Some(_)) => format!("rules {rules} ms ({})", realized.proof),
        (None, None) => format!("rules {}", realized.proof),
        (None, Some(reason)) => format!("rules {}: {reason}", realized.proof),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToldLine<'a> {
    name: &'a str,
    rule: &'a str,
    address: IpAddr,
    namespaces: &'a [String],
    is_complete: bool,
    answer: Option<AnswerLeg<'a>>,
    status: Option<StatusLeg<'a>>,
    rows: Vec<RowLeg<'a>>,
    /// The ovn-writers without a row.
    without_row: &'a [String],
    /// The ovn-writers that have not told when the rules are in.
    without_rules: &'a [String],
    milliseconds: Legs,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AnswerLeg<'a> {
    answered_at: Option<Time>,
    read_at: Time,
    seen_where: &'a str,
    is_in_set_already: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusLeg<'a> {
    object: &'a str,
    resource_version: &'a str,
    acknowledged_at: Time,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RowLeg<'a> {
    ovn_writer: &'a str,
    set: &'a str,
    seen_at: Option<Time>,
    acknowledged_at: Time,
    realized: Option<&'a Realized>,
}

pub(super) fn json(told: &Told) -> serde_json::Result<String> {
    text::json(&ToldLine {
        name: &told.key.name,
        rule: &told.key.rule,
        address: told.key.address,
        namespaces: &told.namespaces,
        is_complete: !told.is_incomplete,
        answer: told.answer.as_ref().map(|it| AnswerLeg {
            answered_at: it.answered_at,
            read_at: it.read_at,
            seen_where: &it.seen_where,
            is_in_set_already: it.is_known,
        }),
        status: told.status.as_ref().map(|it| StatusLeg {
            object: &it.object,
            resource_version: &it.resource_version,
            acknowledged_at: it.acknowledged_at,
        }),
        rows: told
            .rows
            .iter()
            .map(|(writer, row)| RowLeg {
                ovn_writer: writer,
                set: &row.set,
                seen_at: row.seen_at,
                acknowledged_at: row.acknowledged_at,
                realized: row.realized.as_ref(),
            })
            .collect(),
        without_row: &told.without_row,
        without_rules: &told.without_rules,
        milliseconds: Legs::of(told),
    })
}
