//! The facts for administrators.

use std::net::IpAddr;

use proto::api::DnsName;
use runtime::{clock::Timestamp, store::ObjectKey};
use serde::Serialize;

use super::Planner;
use crate::{
    output::Output,
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

/// Why an address is, or is not, in the objects of a `DNSResolver`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explained {
    pub namespace: String,
    pub name: String,
    pub objects: Vec<ObjectShown>,
    pub address: Option<IpAddr>,
    /// The names of the list that are asked about, or have the address.
    pub names: Vec<String>,
    pub is_written: bool,
    /// Since when this process has had it in the objects.
    pub since: Option<Timestamp>,
    pub reason: String,
}

/// The most `DNSResolver` objects in an answer.
const MOST_SHOWN: usize = 1_000;

/// The most lines of an explanation.
const MOST_EXPLAINED: usize = 1_000;

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

    /// The `DNSResolver` objects, at most 1,000.
    pub fn shown(&self) -> Vec<ResolverShown> {
        let shown = self.resolvers.iter().take(MOST_SHOWN);
        shown
            .map(|(key, resolver)| self.show(key, resolver))
            .collect()
    }

    fn show(&self, key: &ObjectKey, resolver: &Resolver) -> ResolverShown {
        let faults = resolver.status.conditions.iter().filter(|it| {
            let is_true = it.status == "True";
            let good = [
                crate::status::kinds::RESOLVED,
                crate::status::kinds::WRITTEN,
            ];
            good.contains(&it.type_.as_str()) != is_true
        });
        let faults: Vec<_> = faults
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
        let wanted = Output::ALL
            .into_iter()
            .filter(|output| resolver.request.wants(*output));
        let shown = wanted.map(|output| ObjectShown {
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

    /// The `DNSResolver` objects that have this address, or list this name.
    pub fn explain(&self, about: &str) -> Vec<Explained> {
        let lines = match about.parse::<IpAddr>() {
            Ok(address) => self.explain_address(proto::address::canonical(address)),
            Err(_) => DnsName::parse(about)
                .map(|name| self.explain_name(&name))
                .unwrap_or_default(),
        };
        lines.into_iter().take(MOST_EXPLAINED).collect()
    }

    fn explain_address(&self, address: IpAddr) -> Vec<Explained> {
        let explained = self.resolvers.iter().filter_map(|(key, resolver)| {
            let has = |name: &DnsName| self.names.get(name).is_some_and(|it| it.addresses().any(|it| it == address));
            let listed = resolver.request.names.iter();
            let names = listed.filter(|it| it.name.as_ref().is_ok_and(has));
            let names: Vec<_> = names.map(|it| it.text.clone()).collect();
            let is_written = resolver.present.contains(&address);
            if names.is_empty() && !is_written {
                return None;
            }
            let reason = match (is_written, names.is_empty()) {
                (true, false) => "a name of the list has it",
                (true, true) => "it was in the object before, and a name of the list has no answer yet, or it was adopted",
                (false, _) if !resolver.left_out.is_empty() => "it is left out at a limit",
                (false, _) => "it is not written yet",
            };
            Some(self.explained(key, resolver, Some(address), names, reason.to_owned()))
        });
        explained.collect()
    }

    fn explain_name(&self, name: &DnsName) -> Vec<Explained> {
        let users = self.users.get(name).into_iter().flatten();
        let users = users.filter_map(|key| Some((key, self.resolvers.get(key)?)));
        let mut explained = Vec::new();
        for (key, resolver) in users {
            let listed = resolver.request.names.iter();
            let texts = listed
                .filter(|it| it.name.as_ref() == Ok(name))
                .map(|it| it.text.clone());
            let texts: Vec<_> = texts.collect();
            let addresses: Vec<_> = self
                .names
                .get(name)
                .into_iter()
                .flat_map(|it| it.addresses())
                .collect();
            if addresses.is_empty() {
                let trouble = self.trouble(&Ok(name.clone()));
                let reason = trouble.unwrap_or_else(|| "it has no addresses".to_owned());
                explained.push(self.explained(key, resolver, None, texts, reason));
                continue;
            }
            for address in addresses {
                let reason = match resolver.present.contains(&address) {
                    true => "a name of the list has it",
                    false if !resolver.left_out.is_empty() => "it is left out at a limit",
                    false => "it is not written yet",
                };
                explained.push(self.explained(
                    key,
                    resolver,
                    Some(address),
                    texts.clone(),
                    reason.to_owned(),
                ));
            }
        }
        explained
    }

    fn explained(
        &self,
        key: &ObjectKey,
        resolver: &Resolver,
        address: Option<IpAddr>,
        names: Vec<String>,
        reason: String,
    ) -> Explained {
        Explained {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            objects: self.objects(key, resolver),
            is_written: address.is_some_and(|address| resolver.present.contains(&address)),
            since: address.and_then(|address| resolver.since.get(&address).copied()),
            address,
            names,
            reason,
        }
    }
}
