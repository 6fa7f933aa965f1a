//! The facts for administrators.
//!
//! - `explain`: why an address or a name is in objects. `listing`: all names with the objects that have them.
//! - `compare`: objects beside statuses. `reasons`: why an object lacks something.

mod compare;
mod explain;
mod listing;
mod reasons;

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use proto::api::DnsName;
use runtime::store::ObjectKey;
use serde::Serialize;

pub(super) use self::{compare::compare, explain::explain, listing::list};
pub use self::{
    compare::{Comparison, ObjectReport},
    explain::{AddressExplained, Explained, Explanation},
    listing::{ListedResolver, Listing, ListingQuery, NameListed},
    reasons::Reason,
};

use super::state::State;
use crate::{
    output::{Observed, Output},
    resolver::{Listed, Resolver},
    status::MOST_NAMES,
};

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

/// One `DNSResolver`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolverShown {
    pub namespace: String,
    pub name: String,
    pub generate_type: String,
    pub ready: bool,
    pub addresses: usize,
    pub left_out_addresses: usize,
    /// Names without an answer since the start.
    pub unanswered: usize,
    /// At most 20, of a `DNSResolver` with faults. Those with a trouble come first.
    pub names: Vec<NameShown>,
    pub objects: Vec<ObjectShown>,
    /// The conditions that need an administrator, each as `Type: message`.
    pub faults: Vec<String>,
}

/// One name of a `DNSResolver`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NameShown {
    pub name: String,
    pub addresses: usize,
    pub left_out: usize,
    /// Why it has no addresses, or not all.
    pub trouble: Option<String>,
}

/// An object of a `DNSResolver`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectShown {
    pub kind: Output,
    /// It is stored as it should be.
    pub is_written: bool,
    /// An object of another owner has its name.
    pub is_taken: bool,
    pub failure: Option<String>,
}

/// The most `DNSResolver` objects in an answer.
const MOST_SHOWN: usize = 1_000;

/// The counts of the whole program.
pub(super) fn totals(state: &State) -> Totals {
    let all = || state.resolvers.values();
    let has = |kind: &'static str| {
        let is_true = |it: &&Resolver| {
            it.status
                .conditions
                .iter()
                .any(|it| it.type_ == kind && it.status == "True")
        };
        all().filter(is_true).count()
    };
    Totals {
        resolvers: state.resolvers.len(),
        ready: all().filter(|it| it.status.ready).count(),
        names: state.users.len(),
        addresses: all().map(|it| it.planned.present.len()).sum(),
        left_out_addresses: all().flat_map(|it| it.planned.left_out.values()).sum(),
        left_out_names: all().map(|it| it.request.too_many).sum(),
        name_taken: has(crate::status::kinds::NAME_TAKEN),
        dns_blocked: has(crate::status::kinds::DNS_BLOCKED),
        undone: state.undone,
    }
}

/// The first `DNSResolver` objects in their order, and how many others have faults.
pub(super) fn shown(state: &State) -> (Vec<ResolverShown>, usize) {
    let mut turns: HashMap<(bool, &str), usize> = HashMap::new();
    let mut all = Vec::new();
    for (key, resolver) in &state.resolvers {
        let is_well = faults(resolver).next().is_none();
        let turn = turns.entry((is_well, &key.namespace)).or_default();
        *turn += 1;
        all.push((is_well, *turn, key, resolver));
    }
    all.sort_by_key(|(is_well, turn, key, _)| (*is_well, *turn, *key));
    let shown = all.iter().take(MOST_SHOWN);
    let shown = shown.map(|(_, _, key, resolver)| show(state, key, resolver));
    let others = all.iter().skip(MOST_SHOWN);
    (shown.collect(), others.filter(|it| !it.0).count())
}

fn show(state: &State, key: &ObjectKey, resolver: &Resolver) -> ResolverShown {
    let faults: Vec<_> = faults(resolver)
        .map(|it| format!("{}: {}", it.type_, it.message))
        .collect();
    let mut names = Vec::new();
    if !faults.is_empty() {
        let shown = resolver
            .request
            .names
            .iter()
            .map(|listed| show_name(state, listed, resolver));
        names.extend(shown);
        names.sort_by_key(|it| it.trouble.is_none() && it.left_out == 0);
        names.truncate(MOST_NAMES);
    }
    ResolverShown {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        generate_type: resolver.request.kind_text.clone(),
        ready: resolver.status.ready,
        addresses: resolver.planned.present.len(),
        left_out_addresses: resolver.planned.left_out.values().sum(),
        unanswered: resolver
            .request
            .valid()
            .filter(|name| !state.names.is_answered(name))
            .count(),
        names,
        objects: objects(state, key, resolver),
        faults,
    }
}

fn show_name(state: &State, listed: &Listed, resolver: &Resolver) -> NameShown {
    let name = listed.name.as_ref().ok();
    let known = name.and_then(|name| state.names.get(name));
    NameShown {
        name: listed.text.clone(),
        addresses: known.map_or(0, |known| known.addresses().count()),
        left_out: resolver
            .planned
            .left_out
            .get(&listed.text)
            .copied()
            .unwrap_or(0),
        trouble: trouble(state, &listed.name),
    }
}

fn objects(state: &State, key: &ObjectKey, resolver: &Resolver) -> Vec<ObjectShown> {
    let kinds = kinds(state, key, resolver).into_iter();
    let shown = kinds.map(|output| ObjectShown {
        kind: output,
        is_written: resolver.written.contains_key(&output),
        is_taken: state.is_taken(key, resolver, output),
        failure: resolver.failures.get(&output).map(|it| it.reason.clone()),
    });
    shown.collect()
}

fn trouble(state: &State, name: &Result<DnsName, proto::api::NameError>) -> Option<String> {
    let name = match name {
        Ok(name) => name,
        Err(error) => return Some(error.to_string()),
    };
    let known = state.names.get(name);
    let failure = known.and_then(|known| known.failure());
    let skipped: Vec<_> = known
        .into_iter()
        .flat_map(|known| known.skipped())
        .collect();
    match (known, failure) {
        (None, _) => Some("there is no DNSNameResolver of it".to_owned()),
        (Some(known), _) if !known.has_object() => {
            Some("its DNSNameResolver is away; its last addresses stay".to_owned())
        }
        _ if !state.names.is_answered(name) => {
            Some("its DNSNameResolver has no status yet".to_owned())
        }
        (_, Some(failure)) => Some(format!("its look-ups fail: {failure}")),
        _ if !skipped.is_empty() => Some(format!("addresses are refused: {}", skipped.join(", "))),
        _ => None,
    }
}

/// The kinds of objects that a `DNSResolver` has. Of an unknown type a policy or set stays. The first one decides what
/// pods reach, since the IPMap comes last.
fn kinds(state: &State, key: &ObjectKey, resolver: &Resolver) -> Vec<Output> {
    let stays = |output: &Output| {
        let is_unknown = resolver.request.kind.is_none();
        is_unknown && state.marked(key, resolver, *output).is_some()
    };
    let all = Output::ALL.into_iter();
    all.filter(|output| resolver.request.wants(*output) || stays(output))
        .collect()
}

/// The stored object that decides what pods reach.
fn deciding<'a>(state: &'a State, key: &ObjectKey, resolver: &Resolver) -> Option<&'a Observed> {
    let kinds = kinds(state, key, resolver);
    state.own(key, resolver, *kinds.first()?)
}

/// Whether a name of the list has an address, by its statuses.
fn knows(state: &State, listed: &Listed, address: IpAddr) -> bool {
    let name = listed.name.as_ref().ok();
    let known = name.and_then(|name| state.names.get(name));
    known.is_some_and(|it| it.addresses().any(|it| it == address))
}

/// The addresses of a name of the list, by its statuses.
fn known_addresses(state: &State, listed: &Listed) -> BTreeSet<IpAddr> {
    let name = listed.name.as_ref().ok();
    let known = name.and_then(|name| state.names.get(name));
    known.into_iter().flat_map(|it| it.addresses()).collect()
}

/// The conditions that need an administrator.
fn faults(resolver: &Resolver) -> impl Iterator<Item = &Condition> {
    let conditions = resolver.status.conditions.iter();
    conditions.filter(|it| {
        let is_true = it.status == "True";
        let good = [
            crate::status::kinds::RESOLVED,
            crate::status::kinds::WRITTEN,
        ];
        good.contains(&it.type_.as_str()) != is_true
    })
}

fn has(observed: &Observed, address: IpAddr) -> bool {
    let mut lists = observed.addresses.values();
    lists.any(|list| list.contains(&address))
}
