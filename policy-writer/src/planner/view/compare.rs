//! The stored objects beside the statuses of their names.

use std::{collections::BTreeSet, net::IpAddr};

use runtime::store::ObjectKey;
use serde::Serialize;

use super::Reason;
use crate::{
    output::{Observed, Output},
    ownership::ByName,
    planner::{Now, Planner},
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

impl Planner {
    /// Compares all objects, without the text.
    pub fn compare(&self, now: Now) -> Comparison {
        let mut comparison = Comparison {
            leader: self.is_leading(),
            dns_resolvers: self.resolvers.len(),
            reasons: self.idle_reasons(),
            ..Comparison::default()
        };
        for (key, resolver) in &self.resolvers {
            comparison.left_out += resolver.left_out.values().sum::<usize>();
            for output in self.kinds(key, resolver) {
                comparison.objects += 1;
                let Some(mut report) = self.differs(key, resolver, output, &mut comparison) else {
                    continue;
                };
                report.reasons = self.reasons(key, resolver, now);
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
        &self,
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
        let Some(stored) = self.own(key, resolver, output) else {
            report.fault = Some(match self.outputs(output) {
                _ if !self.is_read(output) => "objects of this kind are not read",
                outputs if outputs.is_unreadable(key) => "it does not decode",
                outputs if outputs.get(key).is_some() => "it has another owner",
                _ => "there is none",
            });
            return Some(report);
        };
        if stored.openness.is_open {
            report.fault = Some("a rule without destinations allows everything");
        }
        let known = self.contents(resolver, output);
        let limited = self.limited(resolver);
        let missing = beyond(&known, &stored.addresses);
        let missing: BTreeSet<_> = missing.difference(&limited).copied().collect();
        let mut surplus = beyond(&stored.addresses, &known);
        let kept = self.kept(resolver, output, stored, &surplus);
        comparison.kept += kept.len();
        surplus.retain(|address| !kept.contains(address));
        report.more_missing = missing.len().saturating_sub(MOST);
        report.missing = missing.into_iter().take(MOST).collect();
        report.more_surplus = surplus.len().saturating_sub(MOST);
        report.surplus = surplus.into_iter().take(MOST).collect();
        let is_same =
            report.fault.is_none() && report.missing.is_empty() && report.surplus.is_empty();
        (!is_same).then_some(report)
    }

    /// The addresses of an object by the statuses.
    fn contents(&self, resolver: &Resolver, output: Output) -> ByName {
        let mut contents = ByName::new();
        for listed in &resolver.request.names {
            let name = match output {
                Output::Map => listed.text.clone(),
                Output::Policy | Output::Set => String::new(),
            };
            contents.entry(name).or_default().extend(self.known(listed));
        }
        contents
    }

    /// The addresses of names at a limit. Which of them are left out is of no matter here.
    fn limited(&self, resolver: &Resolver) -> BTreeSet<IpAddr> {
        let is_limited = |text: &String| resolver.left_out.contains_key(text);
        let names = resolver.request.names.iter();
        let names = names.filter(|it| is_limited(&it.text));
        names.flat_map(|it| self.known(it)).collect()
    }

    /// The addresses without a name that the object may have for a while: those before the start, and the adopted ones.
    fn kept(
        &self,
        resolver: &Resolver,
        output: Output,
        stored: &Observed,
        surplus: &BTreeSet<IpAddr>,
    ) -> BTreeSet<IpAddr> {
        let adopted = match resolver.adopted.get(&output) {
            Some(planned) => planned.as_ref(),
            None => stored.adopted.as_ref(),
        };
        let mut kept: BTreeSet<_> = adopted.into_iter().flat_map(|it| it.all()).collect();
        match resolver.floor.get(&output) {
            _ if resolver.unanswered.is_empty() => {}
            // Before its first plan all that it had stays.
            None => kept.extend(surplus),
            Some(floor) => kept.extend(floor.values().flatten()),
        }
        kept.intersection(surplus).copied().collect()
    }
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
