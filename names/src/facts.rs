//! The facts about names and addresses for people.

use std::net::IpAddr;

use proto::{
    api::DnsName,
    facts::{AddressFacts, FailingName},
};

use super::{Limits, NameList, NameState, Provenance, name::ResolutionState, removal::removal};

/// The facts about the addresses that `is_asked` selects, in their order. `seen_where` describes a source; `in_object` says whether an
/// object has the address of the name.
pub fn address_facts<'a>(
    list: &'a NameList,
    limits: &'a Limits,
    is_asked: impl Fn(&DnsName, IpAddr) -> bool + 'a,
    seen_where: impl Fn(Provenance) -> String + 'a,
    in_object: impl Fn(&DnsName, IpAddr) -> bool + 'a,
) -> impl Iterator<Item = AddressFacts> + 'a {
    let all = list.names.iter().flat_map(|name| {
        let addresses = name.addresses.iter();
        addresses.map(move |address| (name, address))
    });
    let asked = all.filter(move |(name, address)| is_asked(&name.dns_name, address.ip));
    asked.map(move |(name, address)| {
        // A name under a wildcard is looked up until it is idle. Only then it leaves without a look-up.
        let is_idle_first = list.is_found(name)
            && name.last_client_query + limits.wildcard_idle <= address.expiry();
        let removal = removal(name, address, is_idle_first, limits);
        AddressFacts {
            name: name.dns_name.clone(),
            address: address.ip,
            ttl_seconds: address.ttl,
            seen: address.seen,
            seen_where: seen_where(address.source),
            first_client: name.clients.first(),
            expires: address.expiry(),
            removed_at: removal.unwrap_or_else(|| address.earliest_removal(limits)),
            removed_after_lookup: removal.is_none(),
            in_object: in_object(&name.dns_name, address.ip)
                || in_object(&list.rule_name, address.ip),
            // The wildcard's own entry has it, so the status needs none of the name.
            is_covered: !in_object(&name.dns_name, address.ip)
                && in_object(&list.rule_name, address.ip),
        }
    })
}

/// The names whose look-ups fail.
pub fn failing_names(state: &NameState) -> impl Iterator<Item = FailingName> {
    let names = state.list.names.iter();
    let names = names.map(|name| (&name.dns_name, name.resolution, name.failures));
    let own = state.without_addresses.as_deref();
    let own = own.map(|known| (&state.list.rule_name, known.resolution, known.failures));
    names.chain(own).filter_map(|(name, resolution, failures)| {
        let reason = match resolution {
            ResolutionState::Failing(failure) => Some(failure.reason().into_owned()),
            _ => None,
        };
        (reason.is_some() || failures > 0).then(|| FailingName {
            name: name.clone(),
            failures,
            reason,
        })
    })
}
