//! All names of `DNSResolver` objects, with the addresses that their objects have.

use std::ops::Bound::{Excluded, Unbounded};

use proto::facts::{ListedResolver, Query, ResolverName};
use runtime::store::ObjectKey;

use super::{deciding, objects, trouble};
use crate::{
    names::Listed,
    plan::{Output, Planner, Resolver},
};

/// The most addresses of a page. One `DNSResolver` alone may exceed it.
const MOST_ADDRESSES: usize = 20_000;

/// The next page of `DNSResolver` objects, after this one, and the last of the page if more follow. Wildcards pass any filter.
pub fn list(
    planner: &Planner,
    query: &Query,
    after: Option<&ObjectKey>,
) -> (Vec<ListedResolver>, Option<ObjectKey>) {
    let rest = match after {
        Some(after) => planner.resolvers.range((Excluded(after), Unbounded)),
        None => planner.resolvers.range::<ObjectKey, _>(..),
    };
    let namespace = query.namespace.as_ref();
    let is_asked = |key: &ObjectKey| namespace.is_none_or(|it| *it == key.namespace);
    let (mut page, mut addresses, mut last) = (Vec::new(), 0, None::<&ObjectKey>);
    for (key, resolver) in rest.filter(|(key, _)| is_asked(key)) {
        let names = names_of(planner, key, resolver, query);
        if names.is_empty() {
            continue;
        }
        addresses += names.iter().map(|it| it.addresses.len()).sum::<usize>();
        if page.len() == query.limit || (!page.is_empty() && addresses > MOST_ADDRESSES) {
            return (page, last.cloned());
        }
        last = Some(key);
        page.push(ListedResolver {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            objects: objects(planner, key, resolver),
            names,
        });
    }
    (page, None)
}

fn names_of(
    planner: &Planner,
    key: &ObjectKey,
    resolver: &Resolver,
    query: &Query,
) -> Vec<ResolverName> {
    let is_asked = |listed: &&Listed| match &listed.name {
        Ok(name) => name.is_wildcard() || query.matches(name.as_str()),
        Err(_) => query.matches(&listed.text),
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
        ResolverName {
            name: name.map_or_else(|_| listed.text.clone(), ToString::to_string),
            addresses: addresses.into_iter().collect(),
            trouble: trouble(planner, listed),
        }
    });
    names.collect()
}
