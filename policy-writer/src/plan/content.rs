//! The content of the objects of one `DNSResolver`: which of the known addresses they have, within the limit.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use proto::api::{IpList, IpMapData};

use super::egress::cidr;

/// The most addresses of a policy or a set, and of an IPMap, where an address counts for each name that has it.
pub const MAX_ADDRESSES: usize = 5_000;

/// One name of a `domainList`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct ListedName {
    /// As it is written.
    pub text: String,
    /// Whether its addresses are those of names that a wildcard found.
    pub is_wildcard: bool,
    /// The known addresses.
    pub addresses: BTreeSet<IpAddr>,
    /// Those of the stored IPMap that stay, since the name is unanswered since the start.
    pub kept: BTreeSet<IpAddr>,
}

/// The content of the objects.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Content {
    /// The names in the order of the list, with their addresses.
    pub names: Vec<(String, BTreeSet<IpAddr>)>,
    /// The addresses of a policy or set.
    pub addresses: BTreeSet<IpAddr>,
    /// How many addresses of each name are left out.
    pub left_out: BTreeMap<String, usize>,
}

/// The content with at most `most` addresses. `kept` are those of the stored policy or set that stay, since a name is
/// unanswered since the start. At the limit those in `present` go first, then those of regular names, then those that
/// wildcards found.
pub(super) fn content(
    listed: &[ListedName],
    kept: &BTreeSet<IpAddr>,
    present: &BTreeSet<IpAddr>,
    most: usize,
) -> Content {
    let mut content = Content {
        addresses: kept.iter().take(most).copied().collect(),
        ..Content::default()
    };
    let mut entries = 0;
    let mut candidates = Vec::new();
    for (place, name) in listed.iter().enumerate() {
        let kept: BTreeSet<_> = name.kept.iter().take(most - entries).copied().collect();
        entries += kept.len();
        content.names.push((name.text.clone(), kept));
        for address in &name.addresses {
            let is_new = !present.contains(address);
            candidates.push((is_new, name.is_wildcard, place, *address));
        }
    }
    candidates.sort_unstable();
    for (.., place, address) in candidates {
        let Some((text, of_name)) = content.names.get_mut(place) else {
            continue;
        };
        let is_chosen = content.addresses.contains(&address) || content.addresses.len() < most;
        let is_entry = of_name.contains(&address) || entries < most;
        if is_chosen {
            content.addresses.insert(address);
        }
        if is_chosen && is_entry && of_name.insert(address) {
            entries += 1;
        }
        if !is_chosen || !is_entry {
            *content.left_out.entry(text.clone()).or_default() += 1;
        }
    }
    content
}

impl Content {
    /// The data of the IPMap.
    pub fn ip_map(&self) -> IpMapData {
        let domains = self.names.iter().map(|(name, addresses)| IpList {
            name: name.clone(),
            ips: cidrs(addresses),
        });
        IpMapData {
            domains: domains.collect(),
        }
    }

    /// The networks of the NetworkSet.
    pub fn nets(&self) -> Vec<String> {
        cidrs(&self.addresses)
    }

    /// How many addresses are left out.
    pub fn left_out(&self) -> usize {
        self.left_out.values().sum()
    }
}

/// The blocks of addresses, in order.
fn cidrs(addresses: &BTreeSet<IpAddr>) -> Vec<String> {
    addresses.iter().map(|address| cidr(*address)).collect()
}

#[cfg(test)]
mod tests;
