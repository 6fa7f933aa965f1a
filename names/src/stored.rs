//! A compact form of a stored status: every object has one in memory.

use std::{net::IpAddr, time::Duration};

use proto::api::{DnsName, DnsNameResolverStatus, ResolvedAddress, ResolvedName};
use proto::timestamp::Timestamp;
use smol_str::ToSmolStr;

use super::{
    Limits, NameState,
    condition::{ConditionWords, time},
    limits::tolerance,
    name::Address,
};

/// The status of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stored {
    pub(super) names: Box<[StoredName]>,
    /// The stored form differs from [`Stored::status`], or has more fields.
    pub(super) irregular: bool,
    /// Addresses that are malformed or duplicate, or under a malformed name.
    pub(super) malformed: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct StoredName {
    pub(super) dns_name: DnsName,
    /// In the order of the status, without duplicates.
    pub(super) addresses: Box<[StoredAddress]>,
    pub(super) condition_words: ConditionWords,
    pub(super) failures: i32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StoredAddress {
    pub(super) ip: IpAddr,
    /// In seconds.
    pub(super) ttl: i32,
    pub(super) last_lookup_time: Timestamp,
}

impl StoredAddress {
    /// A stored address with current times.
    pub(super) fn current(address: &Address, limits: &Limits) -> Self {
        Self {
            ip: address.ip,
            ttl: limits.stored_ttl(address.ttl, address.is_stored),
            last_lookup_time: address.answered_at.floor_second(),
        }
    }

    pub(super) fn expiry(&self) -> Timestamp {
        let ttl = u64::try_from(self.ttl).unwrap_or(0);
        self.last_lookup_time + Duration::from_secs(ttl)
    }
}

impl Stored {
    /// Converts a status. Names known to `state` share its text.
    pub fn new(status: &DnsNameResolverStatus, state: &NameState) -> Self {
        let mut malformed = 0;
        let mut names = Vec::with_capacity(status.resolved_names.len());
        for entry in &status.resolved_names {
            let all = entry.resolved_addresses.len();
            let Some(dns_name) = state.list.read_name(&entry.dns_name) else {
                malformed += all;
                continue;
            };
            let addresses = addresses(&entry.resolved_addresses);
            malformed += all - addresses.len();
            names.push(StoredName {
                dns_name,
                addresses,
                condition_words: ConditionWords::new(&entry.conditions),
                failures: entry.resolution_failures,
            });
        }
        let mut stored = Self {
            names: names.into(),
            irregular: false,
            malformed: u32::try_from(malformed).unwrap_or(u32::MAX),
        };
        stored.irregular = stored.status() != *status;
        stored
    }

    /// The entry of `spec.name`, if no entry has an address.
    pub(super) fn without_addresses(&self, rule_name: &DnsName) -> Option<&StoredName> {
        let own = self.names.iter().find(|name| name.dns_name == *rule_name)?;
        (self.count().1 == 0).then_some(own)
    }

    pub fn status(&self) -> DnsNameResolverStatus {
        let address = |address: &StoredAddress| ResolvedAddress {
            ip: address.ip.to_smolstr(),
            ttl_seconds: address.ttl,
            last_lookup_time: time(address.last_lookup_time),
        };
        let name = |name: &StoredName| ResolvedName {
            conditions: name.condition_words.conditions(),
            dns_name: name.dns_name.as_str().to_owned(),
            resolved_addresses: name.addresses.iter().map(address).collect(),
            resolution_failures: name.failures,
        };
        DnsNameResolverStatus {
            resolved_names: self.names.iter().map(name).collect(),
        }
    }

    /// Its addresses, sorted.
    pub(super) fn listed(&self) -> Vec<(&DnsName, IpAddr)> {
        let mut listed = Vec::with_capacity(self.count().1);
        for name in &self.names {
            let addresses = name.addresses.iter();
            listed.extend(addresses.map(|address| (&name.dns_name, address.ip)));
        }
        listed.sort_unstable();
        listed
    }

    /// The listed addresses, each with its name.
    pub fn addresses(&self) -> impl Iterator<Item = (&DnsName, IpAddr)> {
        self.names.iter().flat_map(|name| {
            let addresses = name.addresses.iter();
            addresses.map(|address| (&name.dns_name, address.ip))
        })
    }

    /// Whether the status lists the address under the name, as of this look-up or a later one.
    pub(crate) fn has_since(
        &self,
        dns_name: &DnsName,
        ip: IpAddr,
        last_lookup_time: Timestamp,
    ) -> bool {
        let mut names = self.names.iter().filter(|name| name.dns_name == *dns_name);
        names.any(|name| {
            let mut addresses = name.addresses.iter();
            addresses
                .any(|address| address.ip == ip && address.last_lookup_time >= last_lookup_time)
        })
    }

    /// Whether the status lists the address under the name.
    pub fn has(&self, dns_name: &DnsName, ip: IpAddr) -> bool {
        let mut names = self.names.iter().filter(|name| name.dns_name == *dns_name);
        names.any(|name| name.addresses.iter().any(|address| address.ip == ip))
    }

    /// The numbers of names and addresses; an address of two names counts twice.
    pub fn count(&self) -> (usize, usize) {
        let addresses = self.names.iter().map(|name| name.addresses.len()).sum();
        (self.names.len(), addresses)
    }
}

/// The valid addresses. Of duplicates the later expiry counts.
fn addresses(stored: &[ResolvedAddress]) -> Box<[StoredAddress]> {
    let read = |address: &ResolvedAddress| {
        Some(StoredAddress {
            ip: proto::address::canonical(address.ip.parse().ok()?),
            ttl: address.ttl_seconds,
            last_lookup_time: Timestamp::from_millis(address.last_lookup_time.0.as_millisecond()),
        })
    };
    let mut addresses: Vec<_> = stored.iter().filter_map(read).enumerate().collect();
    addresses.sort_by_key(|(_, address)| (address.ip, std::cmp::Reverse(address.expiry())));
    addresses.dedup_by_key(|(_, address)| address.ip);
    addresses.sort_by_key(|(place, _)| *place);
    addresses.into_iter().map(|(_, address)| address).collect()
}

/// The expiry of the address in the wildcard's own entry and in that of a regular name, and the
/// difference that does not matter.
pub(super) fn expiries(
    own: &StoredAddress,
    address: &Address,
    limits: &Limits,
) -> (Timestamp, Timestamp, Duration) {
    let ttl = address.ttl.min(u32::try_from(own.ttl).unwrap_or(0));
    (
        own.expiry(),
        StoredAddress::current(address, limits).expiry(),
        tolerance(ttl),
    )
}
