//! The content of the objects of one `DNSResolver`: which of the known addresses they have, within the limits.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use proto::api::{IpList, IpMapData};

use crate::egress::cidr;

/// The bytes that one address takes in a NetworkPolicy, beside its text: `{"ipBlock":{"cidr":""}},`.
const POLICY_ADDRESS: usize = 24;

/// The bytes that one address takes in an IPMap, beside its text.
const MAP_ADDRESS: usize = 3;

/// The bytes that one name takes in an IPMap, beside its text.
const MAP_NAME: usize = 22;

/// One name of a `domainList`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ListedName {
    /// As it is in the list.
    pub text: String,
    /// Whether its addresses are those of names that a wildcard found.
    pub is_wildcard: bool,
    /// The known addresses.
    pub addresses: BTreeSet<IpAddr>,
}

/// The limits of an object.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// `--dnsresolver-max-addresses`.
    pub addresses: usize,
    /// The size of the JSON of each object.
    pub bytes: usize,
}

/// The content of the objects.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Content {
    /// The names in the order of the list, with their addresses.
    pub names: Vec<(String, BTreeSet<IpAddr>)>,
    /// All addresses, of names and others.
    pub addresses: BTreeSet<IpAddr>,
    /// How many addresses of each name are left out.
    pub left_out: BTreeMap<String, usize>,
}

/// The content within the limits. `others` are addresses whose name is not known, of the object before a restart. At a
/// limit, addresses in `present` and `others` go first, then those of regular names, then those that wildcards found.
/// Names take turns, so one with many addresses leaves some to the others.
pub fn content(
    names: &[ListedName],
    others: &BTreeSet<IpAddr>,
    present: &BTreeSet<IpAddr>,
    limits: Limits,
) -> Content {
    let mut content = Content {
        names: names
            .iter()
            .map(|name| (name.text.clone(), BTreeSet::new()))
            .collect(),
        ..Content::default()
    };
    let fixed: usize = names.iter().map(|name| name.text.len() + MAP_NAME).sum();
    let mut room = Room {
        addresses: limits.addresses,
        policy: limits.bytes,
        map: limits.bytes.saturating_sub(fixed),
    };
    for address in others {
        if room.take(*address, true, false) {
            content.addresses.insert(*address);
        }
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
    for (_, _, _, place, address) in candidates {
        if content.addresses.contains(&address) && !others.contains(&address) {
            repeated.push((place, address));
        } else {
            content.admit(place, address, &mut room);
        }
    }
    for (place, address) in repeated {
        content.admit(place, address, &mut room);
    }
    content
}

/// The rest of the limits.
struct Room {
    addresses: usize,
    policy: usize,
    map: usize,
}

impl Room {
    /// Takes the room for an address, if there is enough.
    fn take(&mut self, address: IpAddr, is_new: bool, is_in_map: bool) -> bool {
        let text = cidr(address).len();
        let (addresses, policy) = if is_new {
            (1, text + POLICY_ADDRESS)
        } else {
            (0, 0)
        };
        let map = if is_in_map { text + MAP_ADDRESS } else { 0 };
        let left = (
            self.addresses.checked_sub(addresses),
            self.policy.checked_sub(policy),
            self.map.checked_sub(map),
        );
        let (Some(addresses), Some(policy), Some(map)) = left else {
            return false;
        };
        (self.addresses, self.policy, self.map) = (addresses, policy, map);
        true
    }
}

impl Content {
    /// Adds an address to a name and to all, if there is room.
    fn admit(&mut self, place: usize, address: IpAddr, room: &mut Room) {
        let Some((text, admitted)) = self.names.get_mut(place) else {
            return;
        };
        if room.take(address, !self.addresses.contains(&address), true) {
            self.addresses.insert(address);
            admitted.insert(address);
        } else {
            *self.left_out.entry(text.clone()).or_default() += 1;
        }
    }

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
