//! Why an address or a name is in the objects of `DNSResolver` objects, or is not.

use std::net::IpAddr;

use proto::api::DnsName;
use runtime::{
    inspect::{Asked, Subject},
    store::ObjectKey,
};
use serde::Serialize;

use super::{
    ObjectShown, Reason, deciding, has, kinds, known_addresses, knows, objects,
    reasons::{idle_reasons, kept_because, reasons},
    trouble,
};
use crate::{
    output::Output,
    planner::{Now, state::State},
    resolver::{Listed, Resolver},
};

/// The most `DNSResolver` objects, and addresses of each; further ones are counted.
const MOST: usize = 1_000;

/// The explanation of a name or an address.
#[derive(Clone, Debug, Serialize)]
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
    /// At most 1,000.
    pub dns_resolvers: Vec<Explained>,
    pub more_dns_resolvers: usize,
    /// Why nothing is there, and problems of the whole program.
    pub reasons: Vec<Reason>,
    /// The explanation as lines of text.
    pub text: Vec<String>,
}

/// One `DNSResolver` that lists the name, or has the address.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explained {
    pub namespace: String,
    pub name: String,
    pub objects: Vec<ObjectShown>,
    /// The names of the list that are asked about, or have the address, as they stand there.
    pub names: Vec<String>,
    /// The address, or those of the names. At most 1,000.
    pub addresses: Vec<AddressExplained>,
    pub more_addresses: usize,
    /// Why an object lacks an address, or is not written yet.
    pub reasons: Vec<Reason>,
}

/// An address, and the objects that have it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressExplained {
    pub address: IpAddr,
    /// The kinds of objects that are stored with it.
    pub objects: Vec<Output>,
    /// Whether the object that decides has it.
    pub is_there: bool,
    /// For how many seconds this process has had it in its plan. It may be there for longer.
    pub since_seconds: Option<u64>,
    /// Why it is not there, or why it is there without a name.
    pub reason: Option<&'static str>,
}

/// The explanation, without its text.
pub(in super::super) fn explain(state: &State, asked: &Asked, now: Now) -> Explanation {
    let mut reasons = idle_reasons(state);
    let is_asked = |key: &ObjectKey| {
        let namespace = asked.namespace.as_ref();
        namespace.is_none_or(|namespace| *namespace == key.namespace)
    };
    let all = state.resolvers.iter().filter(|(key, _)| is_asked(key));
    let all = all.map(|(key, resolver)| About {
        state,
        key,
        resolver,
        now,
    });
    let explained: Vec<Explained> = match &asked.subject {
        Ok(Subject::Address(address)) => {
            if let Err(skip) = state.names.filter().admit(&address.to_string()) {
                let words = format!(
                    "no object may have it: the guards refuse it ({})",
                    skip.as_str()
                );
                reasons.push(Reason::new("AddressRefused", words));
            }
            all.filter_map(|about| about.with_address(*address))
                .collect()
        }
        Ok(Subject::Name(name)) => all.filter_map(|about| about.with_name(name)).collect(),
        Err((_, error)) => {
            reasons.push(Reason::new("NotAName", error.clone()));
            Vec::new()
        }
    };
    if explained.is_empty() && asked.subject.is_ok() {
        let words = match &asked.subject {
            Ok(Subject::Address(_)) => "no DNSResolver has a name with this address",
            _ => "no DNSResolver lists this name",
        };
        reasons.push(Reason::new("NoDNSResolver", words));
    }
    let is_there = |it: &Explained| it.addresses.iter().any(|it| it.is_there);
    Explanation {
        about: asked.text(),
        namespace: asked.namespace.clone(),
        leader: state.is_leading,
        is_wanted: !explained.is_empty(),
        is_there: !explained.is_empty() && explained.iter().all(is_there),
        more_dns_resolvers: explained.len().saturating_sub(MOST),
        dns_resolvers: explained.into_iter().take(MOST).collect(),
        reasons,
        text: Vec::new(),
    }
}

/// One `DNSResolver`, for an explanation.
struct About<'a> {
    state: &'a State,
    key: &'a ObjectKey,
    resolver: &'a Resolver,
    now: Now,
}

impl About<'_> {
    /// `None` if it has nothing to do with the address.
    fn with_address(&self, address: IpAddr) -> Option<Explained> {
        let (state, key, resolver) = (self.state, self.key, self.resolver);
        let listed = resolver.request.names.iter();
        let listed: Vec<_> = listed.filter(|it| knows(state, it, address)).collect();
        let is_stored = || {
            let kinds = kinds(state, key, resolver).into_iter();
            let mut own = kinds.filter_map(|it| state.own(key, resolver, it));
            own.any(|own| has(own, address))
        };
        if listed.is_empty() && !is_stored() {
            return None;
        }
        Some(self.explained(&listed, &[address]))
    }

    /// The name itself, or the wildcard that matches it. `None` if the list has neither.
    fn with_name(&self, name: &DnsName) -> Option<Explained> {
        let is_it = |listed: &&Listed| {
            let listed = listed.name.as_ref();
            listed.is_ok_and(|listed| listed == name || listed.matches(name))
        };
        let listed = self.resolver.request.names.iter();
        let listed: Vec<_> = listed.filter(is_it).collect();
        if listed.is_empty() {
            return None;
        }
        let known = listed.iter().flat_map(|it| known_addresses(self.state, it));
        let mut addresses: Vec<_> = known.collect();
        if let Some(map) = self.state.own(self.key, self.resolver, Output::Map) {
            let stored = listed.iter().filter_map(|it| map.addresses.get(&it.text));
            addresses.extend(stored.flatten());
        }
        addresses.sort_unstable();
        addresses.dedup();
        Some(self.explained(&listed, &addresses))
    }

    /// `listed`: the names of the list that are asked about, or have the address.
    fn explained(&self, listed: &[&Listed], addresses: &[IpAddr]) -> Explained {
        let (state, key, resolver) = (self.state, self.key, self.resolver);
        let troubles = listed.iter().filter_map(|it| {
            let trouble = trouble(state, &it.name)?;
            Some(Reason::new("Name", format!("{}: {trouble}", it.text)))
        });
        let mut all: Vec<_> = troubles.collect();
        all.extend(reasons(state, key, resolver, self.now));
        let shown = addresses.iter().take(MOST);
        Explained {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            objects: objects(state, key, resolver),
            names: listed.iter().map(|it| it.text.clone()).collect(),
            addresses: shown
                .map(|address| self.address(listed, *address))
                .collect(),
            more_addresses: addresses.len().saturating_sub(MOST),
            reasons: all,
        }
    }

    fn address(&self, listed: &[&Listed], address: IpAddr) -> AddressExplained {
        let (state, key, resolver) = (self.state, self.key, self.resolver);
        let stored = |output: &Output| {
            let own = state.own(key, resolver, *output);
            own.is_some_and(|own| has(own, address))
        };
        let deciding = deciding(state, key, resolver);
        let is_there = deciding.is_some_and(|it| has(it, address));
        let has_name = listed.iter().any(|it| knows(state, it, address));
        let is_left_out = || {
            let mut texts = listed.iter().map(|it| &it.text);
            texts.any(|text| resolver.planned.left_out.contains_key(text))
        };
        let reason = match (is_there, has_name) {
            (true, true) => None,
            (true, false) => Some(kept_because(resolver)),
            (false, _) if is_left_out() => Some("left out at a limit"),
            (false, _) => Some("not written"),
        };
        let since = resolver.planned.since.get(&address);
        let since = since.filter(|_| is_there);
        let kinds = kinds(state, key, resolver).into_iter();
        AddressExplained {
            address,
            objects: kinds.filter(stored).collect(),
            is_there,
            since_seconds: since.map(|since| self.now.time.since(*since).as_secs()),
            reason,
        }
    }
}
