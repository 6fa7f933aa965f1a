//! The content of the objects of one `DNSResolver`: which of the known addresses they have, within the limit.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use proto::api::{IpList, IpMapData};

use crate::egress::cidr;

/// The most addresses of a policy or a set, and the most entries of an IPMap. An address counts there for each text that
/// has it.
pub const MAX_ADDRESSES: usize = 5_000;

/// One name of a `domainList`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ListedName {
    /// Its texts, by their places in the list. A name may be written in several ways.
    pub texts: BTreeMap<usize, String>,
    /// Whether its addresses are those of names that a wildcard found.
    pub is_wildcard: bool,
    /// The known addresses.
    pub addresses: BTreeSet<IpAddr>,
}

/// Addresses of the stored objects that stay, since a name is unanswered since the start.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct KeptAddresses {
    /// Those of the policy or the set.
    pub addresses: BTreeSet<IpAddr>,
    /// Those of the IPMap, by the place of an unanswered name in the list.
    pub by_place: BTreeMap<usize, BTreeSet<IpAddr>>,
}

/// The content of the objects.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Content {
    /// The texts in the order of the list, with their addresses.
    pub names: Vec<(String, BTreeSet<IpAddr>)>,
    /// All addresses, of names and others.
    pub addresses: BTreeSet<IpAddr>,
    /// How many addresses of each name are left out, by its first text.
    pub left_out: BTreeMap<String, usize>,
}

/// The content with at most `most` addresses. At the limit the kept addresses go first, then those in `present`, then
/// those of regular names, then those that wildcards found. Names take turns, so one with many addresses leaves some to
/// the others.
pub fn content(
    names: &[ListedName],
    kept: &KeptAddresses,
    present: &BTreeSet<IpAddr>,
    most: usize,
) -> Content {
    let mut choice = Choice {
        admitted: vec![BTreeSet::new(); names.len()],
        addresses: kept.addresses.iter().take(most).copied().collect(),
        left_out: BTreeMap::new(),
        most,
        entries: 0,
    };
    let mut by_place = BTreeMap::new();
    for (place, addresses) in &kept.by_place {
        let room = most - choice.entries;
        let addresses: BTreeSet<_> = addresses.iter().take(room).copied().collect();
        choice.entries += addresses.len();
        by_place.insert(*place, addresses);
    }
    let mut candidates = Vec::new();
    for (place, name) in names.iter().enumerate() {
        for (turn, address) in name.addresses.iter().enumerate() {
            let is_new = !present.contains(address);
            candidates.push((is_new, name.is_wildcard, turn, place, *address));
        }
    }
    candidates.sort_unstable();
    // Each address once, and then the other names that have it: they may only miss it in the IPMap.
    let mut repeated = Vec::new();
    for (.., place, address) in candidates {
        if choice.addresses.contains(&address) && !kept.addresses.contains(&address) {
            repeated.push((place, address));
        } else {
            choice.admit(names, place, address);
        }
    }
    for (place, address) in repeated {
        choice.admit(names, place, address);
    }
    choice.into_content(names, by_place)
}

/// The chosen addresses.
struct Choice {
    /// By the place of the name.
    admitted: Vec<BTreeSet<IpAddr>>,
    addresses: BTreeSet<IpAddr>,
    left_out: BTreeMap<usize, usize>,
    most: usize,
    /// Those of the IPMap.
    entries: usize,
}

impl Choice {
    /// Adds an address to all texts of a name and to all addresses, if there is room.
    fn admit(&mut self, names: &[ListedName], place: usize, address: IpAddr) {
        let (Some(name), Some(admitted)) = (names.get(place), self.admitted.get_mut(place)) else {
            return;
        };
        let addresses = self.addresses.len() + usize::from(!self.addresses.contains(&address));
        let entries = self.entries + name.texts.len();
        if addresses > self.most || entries > self.most {
            *self.left_out.entry(place).or_default() += 1;
            return;
        }
        self.entries = entries;
        self.addresses.insert(address);
        admitted.insert(address);
    }

    /// `kept` has the kept addresses by the place of the text.
    fn into_content(
        self,
        names: &[ListedName],
        mut kept: BTreeMap<usize, BTreeSet<IpAddr>>,
    ) -> Content {
        let mut by_text = BTreeMap::new();
        for (name, admitted) in names.iter().zip(&self.admitted) {
            for (place, text) in &name.texts {
                let mut addresses = kept.remove(place).unwrap_or_default();
                addresses.extend(admitted);
                by_text.insert(*place, (text.clone(), addresses));
            }
        }
        let left_out = self.left_out.iter().filter_map(|(place, count)| {
            let text = names.get(*place)?.texts.values().next()?;
            Some((text.clone(), *count))
        });
        Content {
            names: by_text.into_values().collect(),
            left_out: left_out.collect(),
            addresses: self.addresses,
        }
    }
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
}

/// The blocks of addresses, in order.
fn cidrs(addresses: &BTreeSet<IpAddr>) -> Vec<String> {
    addresses.iter().map(|address| cidr(*address)).collect()
}

#[cfg(test)]
mod tests;
