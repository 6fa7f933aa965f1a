//! What administrators see of the state of the [`Planner`].
//!
//! `explain` says why an address or a name is in objects, and `listing` has all names. `compare` compares objects with
//! statuses.

mod compare;
mod explain;
mod listing;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use proto::{
    facts::{ObjectFacts, PolicyWriterFacts, Problem, Query, Reason, Status, Totals},
    text::span,
};
use runtime::store::ObjectKey;

pub use self::{compare::compare, explain::explain, listing::list};
use crate::{
    names::Listed,
    plan::{Now, Observed, Planner, Resolver, kinds, some_names},
};

/// The most objects in a list of an answer; further ones are counted.
const MOST: usize = 100;

/// The cure of a condition, by its type.
const REMEDIES: [(&str, &str); 4] = [
    ("NameTaken", "rename the DNSResolver, or the other object"),
    ("LimitExceeded", "list fewer names in the DNSResolver"),
    (
        "DNSBlocked",
        "write a NetworkPolicy that lets pods reach UDP and TCP port 53, or set policyWriter.dnsEgress=true",
    ),
    ("Resolved", "see `egress explain NAME`"),
];

/// The conditions that end by themselves in most cases, as a name that has no answer yet.
const PASSING: [&str; 2] = ["Resolved", "Written: the first write is under way"];

/// Adds the problems of DNSResolvers, and a page of them.
pub fn fill(status: &mut Status, planner: &Planner, query: &Query, after: Option<&ObjectKey>) {
    for (key, resolver) in &planner.resolvers {
        status
            .problems
            .extend(faults(resolver).map(|it| problem(key, it)));
    }
    let (dns_resolvers, next) = list(planner, query, after);
    status.policy_writer = Some(PolicyWriterFacts {
        totals: totals(planner),
        dns_resolvers,
        next: next.map(|next| next.to_string()),
    });
}

fn problem(key: &ObjectKey, condition: &Condition) -> Problem {
    let sentence = format!("{}: {}", condition.type_, condition.message);
    let remedy = REMEDIES.iter().find(|(kind, _)| *kind == condition.type_);
    let remedy = remedy.map_or("see docs/dnsresolver.md#conditions", |(_, remedy)| *remedy);
    let passes = PASSING.iter().any(|it| sentence.starts_with(it));
    let problem = Problem::fault("DNSResolver", key.to_string(), sentence, remedy);
    if passes { problem.warning() } else { problem }
}

/// The counts of the whole program.
pub fn totals(planner: &Planner) -> Totals {
    let all = || planner.resolvers.values();
    let has = |kind: &str| {
        let is_true = |it: &&Resolver| {
            let mut conditions = it.status.conditions.iter();
            conditions.any(|it| it.type_ == kind && it.status == "True")
        };
        all().filter(is_true).count()
    };
    Totals {
        resolvers: planner.resolvers.len(),
        ready: all().filter(|it| it.status.ready).count(),
        names: planner.users.len(),
        addresses: all().map(|it| it.addresses).sum(),
        left_out_addresses: all().flat_map(|it| it.left_out.values()).sum(),
        left_out_names: all().map(|it| it.request.too_many).sum(),
        name_taken: has(kinds::NAME_TAKEN),
        dns_blocked: has(kinds::DNS_BLOCKED),
        undone: planner.undone,
    }
}

/// The conditions that need an administrator.
fn faults(resolver: &Resolver) -> impl Iterator<Item = &Condition> {
    let conditions = resolver.status.conditions.iter();
    conditions.filter(|it| !kinds::is_good(&it.type_, it.status == "True"))
}

/// Why this process writes nothing, or not all.
fn of_program(planner: &Planner) -> Vec<Reason> {
    let unread = planner.unread().into_iter();
    let mut reasons: Vec<_> = unread.map(|it| Reason::new("NotRead", it)).collect();
    if !planner.is_leading {
        let words = "this policy-writer writes nothing, since it does not lead";
        reasons.push(Reason::new("NotLeading", words));
    }
    reasons
}

/// Why the objects of a `DNSResolver` are not as its names say, or not yet.
fn of_resolver(planner: &Planner, key: &ObjectKey, resolver: &Resolver, now: Now) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if planner.unreadable.contains(key) {
        let words = "the DNSResolver does not decode; its last readable version counts";
        reasons.push(Reason::new("Unreadable", words));
    }
    // Names without an answer have reasons of their own.
    let faults = faults(resolver).filter(|it| it.type_ != kinds::RESOLVED);
    reasons.extend(faults.map(|it| Reason::new(&*it.type_, &*it.message)));
    if let Some(at) = planner.held_until(key, resolver, now) {
        let names = resolver.request.names.iter();
        let names = names.filter(|it| !planner.names.is_answered(it));
        let words = format!(
            "the write waits for the first look-ups of {}, for at most {}",
            some_names(names.map(|it| it.text.as_str())),
            span(at - now.instant)
        );
        reasons.push(Reason::new("Waiting", words));
    }
    let retries = resolver.failures.values().map(|it| it.retry_at);
    let filled = planner.bucket_is_empty_until(now);
    let filled = filled.filter(|_| resolver.next_look.is_some());
    let later = retries.chain(filled).filter(|at| *at > now.instant);
    if let Some(at) = later.min() {
        let wait = span(at - now.instant);
        let words = "after failures, or since all objects had more than 1 MiB/s of writes";
        let words = format!("the next write is due in {wait}, {words}");
        reasons.push(Reason::new("Paused", words));
    }
    reasons
}

fn objects(planner: &Planner, key: &ObjectKey, resolver: &Resolver) -> Vec<ObjectFacts> {
    let kinds = planner.kinds_of(key, resolver).into_iter();
    let objects = kinds.map(|output| ObjectFacts {
        kind: output.name().to_owned(),
        is_written: resolver.written.contains_key(&output),
        is_taken: planner.is_taken(key, resolver, output),
        failure: resolver.failures.get(&output).map(|it| it.reason.clone()),
    });
    objects.collect()
}

/// The stored object that decides what pods reach.
fn deciding<'a>(
    planner: &'a Planner,
    key: &ObjectKey,
    resolver: &Resolver,
) -> Option<&'a Observed> {
    let kinds = planner.kinds_of(key, resolver);
    planner.own(key, resolver, *kinds.first()?)
}

/// Why a name of a list has no addresses, or not all.
fn trouble(planner: &Planner, listed: &Listed) -> Option<String> {
    match &listed.name {
        Err(error) => Some(error.to_string()),
        Ok(name) => match planner.names.get(name) {
            Some(known) => known.trouble(),
            None => Some("there is no DNSNameResolver of it".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests;
