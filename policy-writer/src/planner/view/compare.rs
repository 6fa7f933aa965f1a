//! The stored objects beside the statuses of their names.

use std::{collections::BTreeSet, net::IpAddr};

use runtime::store::ObjectKey;
use serde::Serialize;

use super::{
    Reason, kinds, known_addresses,
    reasons::{idle_reasons, reasons},
};
use crate::{
    output::Output,
    ownership::ByName,
    planner::{Now, state::State},
    resolver::Resolver,
};

/// The most differing objects, and addresses of each; further ones are counted.
const MOST: usize = 1_000;

/// All objects beside the statuses.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// Whether this process writes.
    pub leader: bool,
    /// Whether each object has what the statuses say.
    pub is_same: bool,
    pub dns_resolvers: usize,
    pub objects: usize,
    /// Addresses that are left out at a limit. They are no difference.
    pub left_out: usize,
    /// Addresses without a name that stay for a while. They are no difference.
    pub kept: usize,
    /// At most 1,000.
    pub differences: Vec<ObjectReport>,
    pub more_differences: usize,
    /// Problems of the whole program.
    pub reasons: Vec<Reason>,
    /// All of it as lines of text.
    pub text: Vec<String>,
}

/// An object that differs from the statuses.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReport {
    pub namespace: String,
    pub name: String,
    pub kind: Output,
    /// A fault of the object as a whole.
    pub fault: Option<&'static str>,
    /// The addresses of the statuses that it lacks, at most 1,000.
    pub missing: Vec<IpAddr>,
    pub more_missing: usize,
    /// The addresses that it has beyond the statuses, at most 1,000.
    pub surplus: Vec<IpAddr>,
    pub more_surplus: usize,
    /// Why, as far as known.
    pub reasons: Vec<Reason>,
}

/// Compares all objects, without the text.
pub(in super::super) fn compare(state: &State, now: Now) -> Comparison {
    let mut comparison = Comparison {
        leader: state.is_leading,
        dns_resolvers: state.resolvers.len(),
        reasons: idle_reasons(state),
        ..Comparison::default()
    };
    for (key, resolver) in &state.resolvers {
        comparison.left_out += resolver.planned.left_out.values().sum::<usize>();
        for output in kinds(state, key, resolver) {
            comparison.objects += 1;
            let Some(mut report) = differs(state, key, resolver, output, &mut comparison) else {
                continue;
            };
            report.reasons = reasons(state, key, resolver, now);
            if comparison.differences.len() < MOST {
                comparison.differences.push(report);
            } else {
                comparison.more_differences += 1;
            }
        }
    }
    comparison.is_same = comparison.differences.is_empty();
    comparison
}

fn differs(
    state: &State,
    key: &ObjectKey,
    resolver: &Resolver,
    output: Output,
    comparison: &mut Comparison,
) -> Option<ObjectReport> {
    let mut report = ObjectReport {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        kind: output,
        fault: None,
        missing: Vec::new(),
        more_missing: 0,
        surplus: Vec::new(),
        more_surplus: 0,
        reasons: Vec::new(),
    };
    let Some(stored) = state.own(key, resolver, output) else {
        report.fault = Some(match state.stored.of(output) {
            _ if !state.is_read(output) => "objects of this kind are not read",
            outputs if outputs.is_unreadable(key) => "it does not decode",
            outputs if outputs.get(key).is_some() => "it has another owner",
            _ => "there is none",
        });
        return Some(report);
    };
    if stored.openness.is_open {
        report.fault = Some("a rule without destinations allows everything");
    }
    let known = contents(state, resolver, output);
    let limited = limited(state, resolver);
    let missing = beyond(&known, &stored.addresses);
    let missing: BTreeSet<_> = missing.difference(&limited).copied().collect();
    let mut surplus = beyond(&stored.addresses, &known);
    let kept = kept(resolver, output, &surplus);
    comparison.kept += kept.len();
    surplus.retain(|address| !kept.contains(address));
    report.more_missing = missing.len().saturating_sub(MOST);
    report.missing = missing.into_iter().take(MOST).collect();
    report.more_surplus = surplus.len().saturating_sub(MOST);
    report.surplus = surplus.into_iter().take(MOST).collect();
    let is_same = report.fault.is_none() && report.missing.is_empty() && report.surplus.is_empty();
    (!is_same).then_some(report)
}

/// The addresses of an object by the statuses.
fn contents(state: &State, resolver: &Resolver, output: Output) -> ByName {
    let mut contents = ByName::new();
    for listed in &resolver.request.names {
        let name = match output {
            Output::Map => listed.text.clone(),
            Output::Policy | Output::Set => String::new(),
        };
        contents
            .entry(name)
            .or_default()
            .extend(known_addresses(state, listed));
    }
    contents
}

/// The addresses of names at a limit. Which of them are left out is of no matter here.
fn limited(state: &State, resolver: &Resolver) -> BTreeSet<IpAddr> {
    let is_limited = |text: &String| resolver.planned.left_out.contains_key(text);
    let names = resolver.request.names.iter();
    let names = names.filter(|it| is_limited(&it.text));
    names.flat_map(|it| known_addresses(state, it)).collect()
}

/// The addresses without a name that the object may have for a while: those before the start.
fn kept(resolver: &Resolver, output: Output, surplus: &BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
    let mut kept = BTreeSet::new();
    match resolver.planned.floor.get(&output) {
        _ if resolver.unanswered.is_empty() => {}
        // Before its first plan all that it had stays.
        None => kept.extend(surplus),
        Some(floor) => kept.extend(floor.values().flatten()),
    }
    kept.intersection(surplus).copied().collect()
}

/// The addresses of one side that the other does not have under the same name.
fn beyond(one: &ByName, other: &ByName) -> BTreeSet<IpAddr> {
    let beyond = one.iter().flat_map(|(name, addresses)| {
        let others = other.get(name);
        let is_beyond =
            move |address: &&IpAddr| others.is_none_or(|others| !others.contains(*address));
        addresses.iter().filter(is_beyond).copied()
    });
    beyond.collect()
}
