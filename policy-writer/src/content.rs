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

/// The bytes that one name takes in an IPMap, beside its text: `{"name":,"ips":[]},`.
const MAP_NAME: usize = 20;

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

/// The limits of an object.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// `--dnsresolver-max-addresses`.
    pub addresses: usize,
    /// The size of the JSON of each object.
    pub bytes: usize,
    /// The bytes that new addresses may take in all objects together.
    pub new_bytes: usize,
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
    /// Whether some are left out since `new_bytes` are used up.
    pub is_full: bool,
    /// The bytes that the IPMap may still grow.
    map_room: usize,
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
    let texts = names.iter().flat_map(|name| name.texts.values());
    let fixed: usize = texts.map(|text| json_len(text) + MAP_NAME).sum();
    let mut choice = Choice {
        admitted: vec![BTreeSet::new(); names.len()],
        addresses: BTreeSet::new(),
        left_out: BTreeMap::new(),
        room: Room {
            addresses: limits.addresses,
            policy: limits.bytes,
            map: limits.bytes.saturating_sub(fixed),
            new: limits.new_bytes,
        },
        is_full: false,
    };
    for address in others {
        let cost = Cost::of(*address, true, 0, false);
        if choice.room.take(cost).is_ok() {
            choice.addresses.insert(*address);
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
    for (is_new, _, _, place, address) in candidates {
        if choice.addresses.contains(&address) && !others.contains(&address) {
            repeated.push((is_new, place, address));
        } else {
            choice.admit(names, place, address, is_new);
        }
    }
    for (is_new, place, address) in repeated {
        choice.admit(names, place, address, is_new);
    }
    choice.into_content(names)
}

/// The bytes of a text in JSON.
fn json_len(text: &str) -> usize {
    serde_json::to_string(text).map_or(text.len(), |text| text.len())
}

/// The chosen addresses, and the room for others.
struct Choice {
    /// By the place of the name.
    admitted: Vec<BTreeSet<IpAddr>>,
    addresses: BTreeSet<IpAddr>,
    left_out: BTreeMap<usize, usize>,
    room: Room,
    is_full: bool,
}

/// The rest of the limits.
struct Room {
    addresses: usize,
    policy: usize,
    map: usize,
    new: usize,
}

/// Which limit has no room.
#[derive(Eq, PartialEq)]
enum NoRoom {
    New,
    Other,
}

/// The part of each limit that an address takes.
struct Cost {
    addresses: usize,
    policy: usize,
    map: usize,
    new: usize,
}

impl Cost {
    /// `is_first`: no other name has the address. `texts`: how often the IPMap has it. `is_new`: it was not there before.
    fn of(address: IpAddr, is_first: bool, texts: usize, is_new: bool) -> Self {
        let text = cidr(address).len();
        let policy = if is_first { text + POLICY_ADDRESS } else { 0 };
        let map = texts * (text + MAP_ADDRESS);
        Self {
            addresses: usize::from(is_first),
            policy,
            map,
            new: if is_new { policy + map } else { 0 },
        }
    }
}

impl Room {
    /// Takes the room for an address, if there is enough.
    fn take(&mut self, cost: Cost) -> Result<(), NoRoom> {
        let left = (
            self.addresses.checked_sub(cost.addresses),
            self.policy.checked_sub(cost.policy),
            self.map.checked_sub(cost.map),
        );
        let (Some(addresses), Some(policy), Some(map)) = left else {
            return Err(NoRoom::Other);
        };
        self.new = self.new.checked_sub(cost.new).ok_or(NoRoom::New)?;
        (self.addresses, self.policy, self.map) = (addresses, policy, map);
        Ok(())
    }
}

impl Choice {
    /// Adds an address to all texts of a name and to all addresses, if there is room.
    fn admit(&mut self, names: &[ListedName], place: usize, address: IpAddr, is_new: bool) {
        let (Some(name), Some(admitted)) = (names.get(place), self.admitted.get_mut(place)) else {
            return;
        };
        let is_first = !self.addresses.contains(&address);
        let cost = Cost::of(address, is_first, name.texts.len(), is_new);
        match self.room.take(cost) {
            Ok(()) => {
                self.addresses.insert(address);
                admitted.insert(address);
            }
            Err(no_room) => {
                self.is_full |= no_room == NoRoom::New;
                *self.left_out.entry(place).or_default() += 1;
            }
        }
    }

    fn into_content(self, names: &[ListedName]) -> Content {
        let mut by_text = BTreeMap::new();
        for (name, admitted) in names.iter().zip(&self.admitted) {
            for (place, text) in &name.texts {
                by_text.insert(*place, (text.clone(), admitted.clone()));
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
            is_full: self.is_full,
            map_room: self.room.map,
        }
    }
}

impl Content {
    /// Adds addresses to a text of the IPMap alone, at most `most` of them, and while it has room. Returns how many.
    pub fn add_to_map(
        &mut self,
        place: usize,
        addresses: impl IntoIterator<Item = IpAddr>,
        most: usize,
    ) -> usize {
        let Some((_, known)) = self.names.get_mut(place) else {
            return 0;
        };
        let mut added = 0;
        for address in addresses {
            let bytes = cidr(address).len() + MAP_ADDRESS;
            if added < most && bytes <= self.map_room && known.insert(address) {
                self.map_room -= bytes;
                added += 1;
            }
        }
        added
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
