//! All names of `DNSResolver` objects, with the addresses that their objects have.

use std::ops::Bound::{Excluded, Unbounded};

use runtime::store::ObjectKey;

use super::{ListedResolver, Listing, NameListed, deciding, objects};
use crate::{
    names::Listed,
    plan::{Output, Planner, Resolver},
};

/// The most `DNSResolver` objects of a page.
const MOST_RESOLVERS: usize = 100;

/// The most addresses of a page. One `DNSResolver` alone may exceed it.
const MOST_ADDRESSES: usize = 20_000;

/// The next page of names, after this `DNSResolver`. The filter is a part of names in any case; wildcards pass it.
pub fn list(
    planner: &Planner,
    filter: &str,
    namespace: Option<&str>,
    after: Option<&ObjectKey>,
) -> Listing {
    let filter = filter.to_ascii_lowercase();
    let rest = match after {
        Some(after) => planner.resolvers.range((Excluded(after), Unbounded)),
        None => planner.resolvers.range::<ObjectKey, _>(..),
    };
    let is_asked = |key: &ObjectKey| namespace.is_none_or(|it| it == key.namespace);
    let mut listing = Listing {
        leader: planner.is_leading,
        dns_resolvers: Vec::new(),
        next: None,
    };
    let (mut addresses, mut last) = (0, None::<&ObjectKey>);
    for (key, resolver) in rest.filter(|(key, _)| is_asked(key)) {
        let names = names_of(planner, key, resolver, &filter);
        if names.is_empty() {
            continue;
        }
        addresses += names.iter().map(|it| it.addresses.len()).sum::<usize>();
        let listed = listing.dns_resolvers.len();
        if listed == MOST_RESOLVERS || (listed > 0 && addresses > MOST_ADDRESSES) {
            listing.next = last.cloned();
            break;
        }
        last = Some(key);
        listing.dns_resolvers.push(ListedResolver {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            objects: objects(planner, key, resolver),
            names,
        });
    }
    listing
}

fn names_of(
    planner: &Planner,
    key: &ObjectKey,
    resolver: &Resolver,
    filter: &str,
) -> Vec<NameListed> {
    let is_asked = |listed: &&Listed| match &listed.name {
        Ok(name) => name.is_wildcard() || name.as_str().contains(filter),
        Err(_) => listed.text.to_ascii_lowercase().contains(filter),
    };
    let map = planner.own(key, resolver, Output::Map);
    let deciding = deciding(planner, key, resolver);
    let listed = resolver.request.names.iter().filter(is_asked);
    let names = listed.map(|listed| {
        let mut addresses = planner.names.addresses(listed);
        let stored = map.and_then(|map| map.addresses.get(&listed.text));
        addresses.extend(stored.into_iter().flatten());
        addresses.retain(|address| deciding.is_some_and(|it| it.has(*address)));
        let name = listed.name.as_ref();
        NameListed {
            name: name.map_or_else(|_| listed.text.clone(), ToString::to_string),
            addresses: addresses.into_iter().collect(),
        }
    });
    names.collect()
}
