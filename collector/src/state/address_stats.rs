//! What is known of single addresses, for people.

use std::net::IpAddr;

use proto::api::DnsName;
use runtime::clock::Timestamp;
use serde::Serialize;

use super::{Limits, NameList, Stored, removal::removal};
use crate::observation::Provenance;

/// What is known of an address of a name.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressFacts {
    /// The name that was answered with it.
    pub name: DnsName,
    /// The address.
    #[serde(rename = "address")]
    pub ip: IpAddr,
    /// The TTL in seconds that gave the latest expiry, within the limits.
    #[serde(rename = "ttlSeconds")]
    pub ttl: u32,
    /// When it was looked up with that TTL.
    pub looked_up: Timestamp,
    /// When it was last in an answer.
    pub seen: Timestamp,
    /// Where that was.
    #[serde(skip)]
    pub source: Provenance,
    /// The client that first asked for the name, as far as this process knows.
    pub first_client: Option<IpAddr>,
    /// When its TTL is over.
    pub expires: Timestamp,
    /// When it goes if it is in no answer until then, or before when it does not go.
    pub goes: Timestamp,
    /// It goes only once its name was looked up again.
    pub goes_once_looked_up: bool,
}

/// What is known of the addresses that are asked for, in their order.
pub fn address_stats<'a>(
    list: &'a NameList,
    limits: &'a Limits,
    asked_for: impl Fn(&DnsName, IpAddr) -> bool + 'a,
) -> impl Iterator<Item = AddressFacts> + 'a {
    let all = list.names.iter().flat_map(|name| {
        let addresses = name.addresses.iter();
        addresses.map(move |address| (name, address))
    });
    let asked_for = all.filter(move |(name, address)| asked_for(&name.dns_name, address.ip));
    asked_for.map(|(name, address)| {
        let removal = removal(name, address, list.is_found(name), limits);
        AddressFacts {
            name: name.dns_name.clone(),
            ip: address.ip,
            ttl: address.ttl,
            looked_up: address.looked_up,
            seen: address.seen,
            source: address.source,
            first_client: name.askers.first(),
            expires: address.expiry(),
            goes: removal.unwrap_or_else(|| address.earliest_removal(limits)),
            goes_once_looked_up: removal.is_none(),
        }
    })
}

impl Stored {
    /// Whether the address stands in the status under the name.
    pub fn has(&self, dns_name: &DnsName, ip: IpAddr) -> bool {
        let mut names = self.names.iter().filter(|name| name.dns_name == *dns_name);
        names.any(|name| name.addresses.iter().any(|address| address.ip == ip))
    }
}
