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

pub use self::{
    compare::{Comparison, ObjectReport},
    explain::{AddressExplained, Explained, Explanation},
    listing::{ListedResolver, Listing, ListingQuery, NameListed},
    reasons::Reason,
};

use super::Planner;
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

impl Planner {
    /// The counts of the whole program.
    pub fn totals(&self) -> Totals {
        let all = || self.resolvers.values();
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
            resolvers: self.resolvers.len(),
            ready: all().filter(|it| it.status.ready).count(),
            names: self.users.len(),
            addresses: all().map(|it| it.present.len()).sum(),
            left_out_addresses: all().flat_map(|it| it.left_out.values()).sum(),
            name_taken: has(crate::status::kinds::NAME_TAKEN),
            dns_blocked: has(crate::status::kinds::DNS_BLOCKED),
            undone: self.undone,
        }
    }

    /// The `DNSResolver` objects, at most 1,000, and how many others have faults. Those with faults come first, and namespaces take turns:
    /// a tenant with many cannot hide those of others.
    pub fn shown(&self) -> (Vec<ResolverShown>, usize) {
        let mut turns: HashMap<(bool, &str), usize> = HashMap::new();
        let mut all = Vec::new();
        for (key, resolver) in &self.resolvers {
            let is_well = faults(resolver).next().is_none();
            let turn = turns.entry((is_well, &key.namespace)).or_default();
            *turn += 1;
            all.push((is_well, *turn, key, resolver));
        }
        all.sort_by_key(|(is_well, turn, key, _)| (*is_well, *turn, *key));
        let shown = all.iter().take(MOST_SHOWN);
        let shown = shown.map(|(_, _, key, resolver)| self.show(key, resolver));
        let others = all.iter().skip(MOST_SHOWN);
        (shown.collect(), others.filter(|it| !it.0).count())
    }

    fn show(&self, key: &ObjectKey, resolver: &Resolver) -> ResolverShown {
        let faults: Vec<_> = faults(resolver)
            .map(|it| format!("{}: {}", it.type_, it.message))
            .collect();
        let mut names = Vec::new();
        if !faults.is_empty() {
            let shown = resolver
                .request
                .names
                .iter()
                .map(|listed| self.show_name(listed, resolver));
            names.extend(shown);
            names.sort_by_key(|it| it.trouble.is_none() && it.left_out == 0);
            names.truncate(MOST_NAMES);
        }
        ResolverShown {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            generate_type: resolver.request.kind_text.clone(),
            ready: resolver.status.ready,
            addresses: resolver.present.len(),
            left_out_addresses: resolver.left_out.values().sum(),
            unanswered: resolver
                .request
                .valid()
                .filter(|name| !self.names.is_answered(name))
                .count(),
            names,
            objects: self.objects(key, resolver),
            faults,
        }
    }

    fn show_name(&self, listed: &Listed, resolver: &Resolver) -> NameShown {
        let name = listed.name.as_ref().ok();
        let known = name.and_then(|name| self.names.get(name));
        NameShown {
            name: listed.text.clone(),
            addresses: known.map_or(0, |known| known.addresses().count()),
            left_out: resolver.left_out.get(&listed.text).copied().unwrap_or(0),
            trouble: self.trouble(&listed.name),
        }
    }

    fn objects(&self, key: &ObjectKey, resolver: &Resolver) -> Vec<ObjectShown> {
        let kinds = self.kinds(key, resolver).into_iter();
        let shown = kinds.map(|output| ObjectShown {
            kind: output,
            is_written: resolver.written.contains_key(&output),
            is_taken: self.is_taken(key, resolver, output),
            failure: resolver.failures.get(&output).map(|it| it.reason.clone()),
        });
        shown.collect()
    }

    fn trouble(&self, name: &Result<DnsName, proto::api::NameError>) -> Option<String> {
        let name = match name {
            Ok(name) => name,
            Err(error) => return Some(error.to_string()),
        };
        let known = self.names.get(name);
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
            _ if !self.names.is_answered(name) => {
                Some("its DNSNameResolver has no status yet".to_owned())
            }
            (_, Some(failure)) => Some(format!("its look-ups fail: {failure}")),
            _ if !skipped.is_empty() => {
                Some(format!("addresses are refused: {}", skipped.join(", ")))
            }
            _ => None,
        }
    }

    /// The stored object of a kind, if the `DNSResolver` is its controller.
    fn own(&self, key: &ObjectKey, resolver: &Resolver, output: Output) -> Option<&Observed> {
        let observed = self.outputs(output).get(key)?;
        let is_own = resolver.is_controller_of(observed.controller.as_deref());
        is_own.then_some(observed)
    }

    /// The kinds of objects that a `DNSResolver` has. Of an unknown type a policy or set stays. The first one decides what
    /// pods reach, since the IPMap comes last.
    fn kinds(&self, key: &ObjectKey, resolver: &Resolver) -> Vec<Output> {
        let stays = |output: &Output| {
            let own = self.own(key, resolver, *output);
            resolver.request.kind.is_none() && own.is_some_and(|own| own.is_marked)
        };
        let all = Output::ALL.into_iter();
        all.filter(|output| resolver.request.wants(*output) || stays(output))
            .collect()
    }

    /// The stored object that decides what pods reach.
    fn deciding(&self, key: &ObjectKey, resolver: &Resolver) -> Option<&Observed> {
        let kinds = self.kinds(key, resolver);
        self.own(key, resolver, *kinds.first()?)
    }

    /// Whether a name of the list has an address, by its statuses.
    fn knows(&self, listed: &Listed, address: IpAddr) -> bool {
        let name = listed.name.as_ref().ok();
        let known = name.and_then(|name| self.names.get(name));
        known.is_some_and(|it| it.addresses().any(|it| it == address))
    }

    /// The addresses of a name of the list, by its statuses.
    fn known(&self, listed: &Listed) -> BTreeSet<IpAddr> {
        let name = listed.name.as_ref().ok();
        let known = name.and_then(|name| self.names.get(name));
        known.into_iter().flat_map(|it| it.addresses()).collect()
    }
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
