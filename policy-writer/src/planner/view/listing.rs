//! All names of `DNSResolver` objects, with the addresses that their objects have.

use std::{
    net::IpAddr,
    ops::Bound::{Excluded, Unbounded},
};

use runtime::store::ObjectKey;
use serde::Serialize;

use super::{ObjectShown, deciding, has, known_addresses, objects};
use crate::{
    output::Output,
    planner::state::State,
    resolver::{Listed, Resolver},
};

/// The most `DNSResolver` objects of a page.
const MOST_RESOLVERS: usize = 100;

/// The most addresses of a page. One `DNSResolver` alone may exceed it.
const MOST_ADDRESSES: usize = 20_000;

/// Which names are asked for.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ListingQuery {
    /// Only names that contain this text, ignoring case, and wildcards.
    pub filter: String,
    /// Only `DNSResolver` objects of this namespace.
    pub namespace: Option<String>,
    /// Those after this one.
    pub after: Option<ObjectKey>,
}

/// A page of the list.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listing {
    /// Whether this process writes.
    pub leader: bool,
    pub dns_resolvers: Vec<ListedResolver>,
    /// The last one of the page, if more follow.
    pub next: Option<ObjectKey>,
}

/// One `DNSResolver`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedResolver {
    pub namespace: String,
    pub name: String,
    pub objects: Vec<ObjectShown>,
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

/// The next page of names.
pub(in super::super) fn list(state: &State, query: &ListingQuery) -> Listing {
    let filter = query.filter.to_ascii_lowercase();
    let after = query.after.as_ref();
    let rest = match after {
        Some(after) => state.resolvers.range((Excluded(after), Unbounded)),
        None => state.resolvers.range::<ObjectKey, _>(..),
    };
    let is_asked = |key: &ObjectKey| {
        let namespace = query.namespace.as_ref();
        namespace.is_none_or(|namespace| *namespace == key.namespace)
    };
    let (mut resolvers, mut addresses, mut next) = (Vec::new(), 0, None);
    for (key, resolver) in rest.filter(|(key, _)| is_asked(key)) {
        let names = names_of(state, key, resolver, &filter);
        if names.is_empty() {
            continue;
        }
        let more: usize = names.iter().map(|it| it.addresses.len()).sum();
        addresses += more;
        let is_full = resolvers.len() == MOST_RESOLVERS || addresses > MOST_ADDRESSES;
        if let Some(ListedResolver {
            namespace, name, ..
        }) = resolvers.last()
            && is_full
        {
            next = Some(ObjectKey {
                namespace: namespace.clone(),
                name: name.clone(),
            });
            break;
        }
        resolvers.push(ListedResolver {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            objects: objects(state, key, resolver),
            names,
        });
    }
    Listing {
        leader: state.is_leading,
        dns_resolvers: resolvers,
        next,
    }
}

fn names_of(state: &State, key: &ObjectKey, resolver: &Resolver, filter: &str) -> Vec<NameListed> {
    let is_asked = |listed: &&Listed| match &listed.name {
        Ok(name) => name.is_wildcard() || name.as_str().contains(filter),
        Err(_) => listed.text.to_ascii_lowercase().contains(filter),
    };
    let map = state.own(key, resolver, Output::Map);
    let deciding = deciding(state, key, resolver);
    let listed = resolver.request.names.iter().filter(is_asked);
    let names = listed.map(|listed| {
        let mut addresses = known_addresses(state, listed);
        let stored = map.and_then(|map| map.addresses.get(&listed.text));
        addresses.extend(stored.into_iter().flatten());
        addresses.retain(|address| deciding.is_some_and(|it| has(it, *address)));
        let name = listed.name.as_ref();
        NameListed {
            name: name.map_or_else(|_| listed.text.clone(), ToString::to_string),
            addresses: addresses.into_iter().collect(),
        }
    });
    names.collect()
}
