//! What administrators see: the JSON of the listener, made of the state of the [`Planner`].
//!
//! `explain` says why an address or a name is in objects, and `listing` has all names. `compare` compares objects with
//! statuses. `text` has the answers as text.

mod compare;
mod explain;
mod listing;
mod text;

use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use runtime::{
    VERSION,
    admin::{self, Health},
    inspect::{
        problems::{Problem, Problems},
        text::span,
    },
    instance::Instance,
    store::{BadObject, BadObjects, ObjectKey},
};
use serde::Serialize;

pub use self::{compare::compare, explain::explain, listing::list};
use crate::{
    PROGRAM,
    names::Listed,
    plan::{Now, Observed, Output, Planner, Resolver, kinds, some_names},
};

/// The most objects in a list of an answer; further ones are counted.
const MOST: usize = 100;

/// The answer to `/status.json`. Names come from tenants, so a reader must escape them.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub program: &'static str,
    pub version: &'static str,
    #[serde(flatten)]
    pub instance: Instance,
    /// The faults that need an administrator.
    #[serde(flatten)]
    pub problems: Problems,
    /// The conditions of readiness.
    pub conditions: Vec<admin::Condition>,
    /// Objects that cannot be decoded, at most 100.
    pub bad_objects: Vec<BadObject>,
    /// Whether this process writes.
    pub leader: bool,
    pub totals: Totals,
}

/// The counts of the whole program.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    pub resolvers: usize,
    pub ready: usize,
    pub names: usize,
    /// In all objects together.
    pub addresses: usize,
    pub left_out_addresses: usize,
    pub left_out_names: usize,
    pub name_taken: usize,
    pub dns_blocked: usize,
    /// How often changes of other accounts were put right.
    pub undone: u64,
}

/// An object of a `DNSResolver`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectFacts {
    pub kind: Output,
    /// It is stored as it should be.
    pub is_written: bool,
    /// An object of another owner has its name.
    pub is_taken: bool,
    pub failure: Option<String>,
}

/// Why something is not as the names say.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Reason {
    /// Its kind, for programs. Of a condition its type.
    pub reason: String,
    pub words: String,
}

/// The answer to `/dnsresolvers.json`: a page of the list.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listing {
    /// Whether this process writes.
    pub leader: bool,
    pub dns_resolvers: Vec<ListedResolver>,
    /// The last one of the page, if more follow.
    pub next: Option<ObjectKey>,
}

/// One `DNSResolver` of a [`Listing`].
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedResolver {
    pub namespace: String,
    pub name: String,
    pub objects: Vec<ObjectFacts>,
    pub names: Vec<NameListed>,
}

/// One name of its list.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NameListed {
    /// In lower case, with its trailing dot; the text itself if it is no name.
    pub name: String,
    /// Its addresses in the stored object that decides what pods reach.
    pub addresses: Vec<IpAddr>,
}

/// The answer to `/explain.json`: why a name or an address is in objects, or is not.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The name with its trailing dot, or the address; the original text if it is neither.
    pub about: String,
    /// The namespace whose `DNSResolver` objects count; `None` for all.
    pub namespace: Option<String>,
    /// Whether this process writes.
    pub leader: bool,
    /// Whether a `DNSResolver` lists the name, or has the address.
    pub is_wanted: bool,
    /// Whether each of them has it in the object that decides what pods reach.
    pub is_there: bool,
    /// At most 100.
    pub dns_resolvers: Vec<ExplainedResolver>,
    pub more_dns_resolvers: usize,
    /// Why nothing is there, and problems of the whole program.
    pub reasons: Vec<Reason>,
    /// The explanation as lines of text.
    pub text: Vec<String>,
}

/// One `DNSResolver` that lists the name, or has the address.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedResolver {
    pub namespace: String,
    pub name: String,
    pub objects: Vec<ObjectFacts>,
    /// The names of the list that are asked about, or have the address, as they stand there.
    pub names: Vec<String>,
    /// The address, or those of the names.
    pub addresses: Vec<ExplainedAddress>,
    /// Why an object lacks an address, or is not written yet.
    pub reasons: Vec<Reason>,
}

/// An address, and the objects that have it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedAddress {
    pub address: IpAddr,
    /// The kinds of objects that are stored with it.
    pub objects: Vec<Output>,
    /// Whether the object that decides has it.
    pub is_there: bool,
    /// Why it is not there, or why it is there without a name.
    pub reason: Option<&'static str>,
}

/// The answer to `/verify.json`: all objects beside the statuses.
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
    /// At most 100.
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
    /// The addresses of the statuses that it lacks.
    pub missing: Vec<IpAddr>,
    /// The addresses that it has beyond the statuses.
    pub surplus: Vec<IpAddr>,
    /// Why, as far as known.
    pub reasons: Vec<Reason>,
}

impl Reason {
    fn new(reason: impl Into<String>, words: impl Into<String>) -> Self {
        let (reason, words) = (reason.into(), words.into());
        Self { reason, words }
    }
}

impl Status {
    /// The status of the program.
    pub fn new(
        planner: &Planner,
        instance: Instance,
        health: &Health,
        bad_objects: &BadObjects,
    ) -> Self {
        let docs = "dnsresolver.md#conditions";
        let (conditions, bad_objects) = (health.conditions(), bad_objects.list());
        let mut problems = Problems::default();
        problems.extend(
            conditions
                .iter()
                .filter_map(|it| Problem::of_condition(it, docs)),
        );
        problems.extend(bad_objects.iter().map(Problem::of_bad_object));
        for (key, resolver) in &planner.resolvers {
            problems.extend(faults(resolver).map(|it| Problem {
                reason: "DNSResolver",
                subject: key.to_string(),
                words: format!("{}: {}", it.type_, it.message),
                docs,
            }));
        }
        Self {
            program: PROGRAM,
            version: VERSION,
            instance,
            problems,
            conditions,
            bad_objects,
            leader: planner.is_leading,
            totals: totals(planner),
        }
    }
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
    reasons.extend(faults.map(|it| Reason::new(&it.type_, &it.message)));
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
        kind: output,
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
