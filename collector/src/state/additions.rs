//! Adds addresses to a stored status without the rest of the state.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::{
    Limits, Stored,
    condition::ConditionWords,
    evict::{OBJECT_BYTES, address_bytes, name_bytes},
    name::ResolutionState,
    stored::{StoredAddress, StoredName},
};

/// An address that a client got in an answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Addition {
    pub name: DnsName,
    pub ip: IpAddr,
    /// Its TTL in seconds, within the limits.
    pub ttl: u32,
    /// The time of the answer.
    pub looked_up: Timestamp,
}

impl Addition {
    pub fn is_of(&self, name: &DnsName, ip: IpAddr) -> bool {
        self.ip == ip && self.name == *name
    }

    pub fn expiry(&self) -> Timestamp {
        self.looked_up + Duration::from_secs(self.ttl.into())
    }

    /// The expiry by the times in a status, which are whole seconds.
    pub fn stored_expiry(&self) -> Timestamp {
        self.looked_up.floor_second() + Duration::from_secs(self.ttl.into())
    }
}

impl Stored {
    /// Whether any name in the status has the address.
    pub fn has_address(&self, ip: IpAddr) -> bool {
        let mut addresses = self.names.iter().flat_map(|name| &name.addresses);
        addresses.any(|address| address.ip == ip)
    }

    /// The status with these addresses, and how many were added. An address is added only while
    /// less than `share` of every limit of the object is used. `spec` is the name of the object.
    pub fn with_additions<'a>(
        &self,
        spec: &DnsName,
        additions: impl Iterator<Item = &'a Addition>,
        limits: &Limits,
        share: f64,
        now: Timestamp,
    ) -> (Self, usize) {
        let mut names = self.names.to_vec();
        let mut count = 0;
        for addition in additions {
            if fill(&names, limits) >= share {
                break;
            }
            add(&mut names, spec, addition, now);
            count += 1;
        }
        let next = Self {
            names: names.into(),
            ..Self::default()
        };
        (next, count)
    }
}

fn add(names: &mut Vec<StoredName>, spec: &DnsName, addition: &Addition, now: Timestamp) {
    let resolved = |was: &ConditionWords| match addition.name == *spec {
        true => was.next(ResolutionState::Resolved, now),
        false => was.next_found(ResolutionState::Resolved, now),
    };
    let address = StoredAddress {
        ip: addition.ip,
        ttl: i32::try_from(addition.ttl).unwrap_or(i32::MAX),
        looked_up: addition.looked_up.floor_second(),
    };
    let known = names.iter_mut().find(|name| name.dns_name == addition.name);
    let Some(name) = known else {
        let name = StoredName {
            dns_name: addition.name.clone(),
            addresses: [address].into(),
            told: resolved(&ConditionWords::Nothing),
            failures: 0,
            is_count_in_condition: false,
        };
        match addition.name.is_wildcard() {
            true => names.insert(0, name),
            false => names.push(name),
        }
        return;
    };
    // The reason for having no address no longer holds.
    if name.addresses.is_empty() {
        name.told = resolved(&name.told);
    }
    let mut addresses = std::mem::take(&mut name.addresses).into_vec();
    addresses.push(address);
    name.addresses = addresses.into();
}

/// The largest used part of a limit; 1 is full.
fn fill(names: &[StoredName], limits: &Limits) -> f64 {
    let part = |of: usize, most: usize| of as f64 / most.max(1) as f64;
    let mut bytes = OBJECT_BYTES;
    let mut of_names: BTreeMap<&DnsName, usize> = BTreeMap::new();
    for name in names {
        let addresses = name.addresses.iter();
        bytes += name_bytes(&name.dns_name);
        bytes += addresses.map(|it| address_bytes(it.ip)).sum::<usize>();
        *of_names.entry(&name.dns_name).or_default() += name.addresses.len();
    }
    let most = of_names.values().max().copied().unwrap_or(0);
    // A regular name's object has one entry, far below that limit.
    part(most, limits.addresses_per_name)
        .max(part(names.len(), limits.names_per_wildcard))
        .max(part(bytes, limits.object_bytes))
}
