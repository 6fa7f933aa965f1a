//! Details of names and addresses, for the status page and for `explain`.

use std::net::IpAddr;

use proto::{api::DnsName, timestamp::Timestamp};
use serde::Serialize;

use super::{Limits, NameList, NameState, Stored, name::ResolutionState, removal::removal};
use crate::{failure::Failure, observation::Provenance};

/// The details of an address of a name.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressFacts {
    pub name: DnsName,
    #[serde(rename = "address")]
    pub ip: IpAddr,
    /// The TTL in seconds that gave the latest expiry, within the limits.
    #[serde(rename = "ttlSeconds")]
    pub ttl: u32,
    /// The time of the answer with that TTL.
    pub looked_up: Timestamp,
    /// The time of the last answer with the address.
    pub seen: Timestamp,
    /// Where that answer came from.
    #[serde(skip)]
    pub source: Provenance,
    /// The client that first queried the name, as far as this process knows.
    pub first_client: Option<IpAddr>,
    /// When its TTL ends.
    pub expires: Timestamp,
    /// When it is removed if no answer renews it; at the earliest, if `goes_once_looked_up`.
    pub goes: Timestamp,
    /// It is removed only after a look-up of its name.
    pub goes_once_looked_up: bool,
}

/// The details of the addresses that `asked_for` selects, in their order.
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
        // A name under a wildcard is looked up until it is idle. Only then it leaves without a look-up.
        let is_idle_first = list.is_found(name)
            && name.last_client_query + limits.wildcard_idle <= address.expiry();
        let removal = removal(name, address, is_idle_first, limits);
        AddressFacts {
            name: name.dns_name.clone(),
            ip: address.ip,
            ttl: address.ttl,
            looked_up: address.looked_up,
            seen: address.seen,
            source: address.source,
            first_client: name.clients.first(),
            expires: address.expiry(),
            goes: removal.unwrap_or_else(|| address.earliest_removal(limits)),
            goes_once_looked_up: removal.is_none(),
        }
    })
}

impl Stored {
    /// The listed addresses, each with its name.
    pub fn addresses(&self) -> impl Iterator<Item = (&DnsName, IpAddr)> {
        self.names.iter().flat_map(|name| {
            let addresses = name.addresses.iter();
            addresses.map(|address| (&name.dns_name, address.ip))
        })
    }

    /// Whether the status lists the address under the name, as of this look-up or a later one.
    pub(crate) fn has_since(&self, dns_name: &DnsName, ip: IpAddr, looked_up: Timestamp) -> bool {
        let mut names = self.names.iter().filter(|name| name.dns_name == *dns_name);
        names.any(|name| {
            let mut addresses = name.addresses.iter();
            addresses.any(|address| address.ip == ip && address.looked_up >= looked_up)
        })
    }

    /// Whether the status lists the address under the name.
    pub fn has(&self, dns_name: &DnsName, ip: IpAddr) -> bool {
        let mut names = self.names.iter().filter(|name| name.dns_name == *dns_name);
        names.any(|name| name.addresses.iter().any(|address| address.ip == ip))
    }
}

/// A name whose look-ups fail.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureView {
    pub name: DnsName,
    /// Failed look-ups since the last answer.
    pub failures: i32,
    /// The last failure, as the condition `Degraded` has it; unknown if it was before this process
    /// started.
    #[serde(rename = "degraded")]
    pub failure: Option<Failure>,
}

pub fn failing_names(state: &NameState) -> impl Iterator<Item = FailureView> {
    let names = state.list.names.iter();
    let names = names.map(|name| (&name.dns_name, name.resolution, name.failures));
    let own = state.without_addresses.as_deref();
    let own = own.map(|known| (&state.list.rule_name, known.resolution, known.failures));
    names.chain(own).filter_map(|(name, resolution, failures)| {
        let failure = match resolution {
            ResolutionState::Failing(failure) => Some(failure),
            _ => None,
        };
        (failure.is_some() || failures > 0).then(|| FailureView {
            name: name.clone(),
            failures,
            failure,
        })
    })
}
