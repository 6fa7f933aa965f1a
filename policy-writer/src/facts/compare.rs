//! The stored objects beside the statuses of their names.

use std::{collections::BTreeSet, net::IpAddr};

use proto::facts::{ObjectReport, PolicyComparison};
use runtime::store::ObjectKey;

use super::{MOST, of_program, of_resolver};
use crate::plan::{ByName, Now, Output, Planner, Resolver};

/// Compares all objects. Addresses that stay since a name is unanswered, and those left out at a limit, are no difference.
pub fn compare(planner: &Planner, now: Now) -> PolicyComparison {
    let mut told = PolicyComparison {
        dns_resolvers: planner.resolvers.len(),
        reasons: of_program(planner),
        ..PolicyComparison::default()
    };
    for (key, resolver) in &planner.resolvers {
        let content = planner.content(key, resolver);
        told.left_out += content.left_out();
        let all: ByName = [(String::new(), content.addresses)].into();
        let by_name: ByName = content.names.into_iter().collect();
        for output in planner.kinds_of(key, resolver) {
            told.objects += 1;
            let wanted = if output == Output::Map {
                &by_name
            } else {
                &all
            };
            let Some(mut report) = difference(planner, key, resolver, output, wanted) else {
                continue;
            };
            if told.differences.len() == MOST {
                told.more_differences += 1;
                continue;
            }
            report.reasons = of_resolver(planner, key, resolver, now);
            told.differences.push(report);
        }
    }
    told.is_same = told.differences.is_empty();
    told
}

fn difference(
    planner: &Planner,
    key: &ObjectKey,
    resolver: &Resolver,
    output: Output,
    wanted: &ByName,
) -> Option<ObjectReport> {
    let (mut missing, mut surplus) = (BTreeSet::new(), BTreeSet::new());
    let fault = match planner.own(key, resolver, output) {
        Some(stored) => {
            missing = beyond(wanted, &stored.addresses);
            surplus = beyond(&stored.addresses, wanted);
            let words = "a rule without destinations allows everything";
            stored.is_open.then_some(words)
        }
        None if !planner.is_read(output) => Some("objects of this kind are not read"),
        None if planner.stored.of(output).is_unreadable(key) => Some("it does not decode"),
        None if planner.is_taken(key, resolver, output) => Some("it has another owner"),
        None => Some("there is none"),
    };
    let is_same = fault.is_none() && missing.is_empty() && surplus.is_empty();
    (!is_same).then(|| ObjectReport {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        kind: output.name().to_owned(),
        fault: fault.map(str::to_owned),
        missing: missing.into_iter().collect(),
        surplus: surplus.into_iter().collect(),
        reasons: Vec::new(),
    })
}

/// The addresses of one side that the other does not have under the same name.
fn beyond(one: &ByName, other: &ByName) -> BTreeSet<IpAddr> {
    let beyond = one.iter().flat_map(|(name, addresses)| {
        let others = other.get(name);
        let is_beyond = move |it: &&IpAddr| others.is_none_or(|others| !others.contains(*it));
        addresses.iter().filter(is_beyond).copied()
    });
    beyond.collect()
}
