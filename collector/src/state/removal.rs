//! When addresses leave, and when their names must be looked up before that.

use std::net::IpAddr;

use proto::api::{DnsName, Family};
use runtime::clock::Timestamp;

use super::{
    Limits, Memory,
    memory::{Address, FAILURE_THRESHOLD, Name, Verdict},
};
use crate::resolve::Failure;

impl Memory {
    /// Forgets the addresses whose time is over, and the names that have none left. Returns what went.
    ///
    /// An address leaves at max(expiry + grace, last seen + retain), and not before its name was looked up again after
    /// the expiry; without an answer to that look-up, at last seen + `max_stale` at the earliest. A name under a wildcard
    /// that clients have forgotten is not looked up, so its addresses leave without.
    pub fn expire(&mut self, now: Timestamp, limits: &Limits) -> Vec<(DnsName, IpAddr)> {
        self.forget_removed(now);
        let due: Vec<(DnsName, IpAddr)> = self
            .removals(limits)
            .filter(|(_, _, at)| *at <= now)
            .map(|(dns_name, ip, _)| (dns_name.clone(), ip))
            .collect();
        for (dns_name, ip) in &due {
            self.remove(dns_name, *ip, now);
        }
        due
    }

    /// When [`Memory::expire`] will next find something, if nothing is learned until then.
    pub fn next_removal(&self, limits: &Limits) -> Option<Timestamp> {
        self.removals(limits).map(|(_, _, at)| at).min()
    }

    /// When a name is to be looked up: when its earliest address expires that was not asked for since. Nothing for a name
    /// without addresses, and for a name under a wildcard that clients have forgotten.
    pub fn next_lookup(&self, dns_name: &DnsName, limits: &Limits) -> Option<Timestamp> {
        let name = self.names.get(dns_name)?;
        let expired = |(ip, address): (&IpAddr, &Address)| {
            let expiry = address.expiry();
            (name.asked(family(ip)) < expiry).then_some(expiry)
        };
        let at = name.addresses.iter().filter_map(expired).min()?;
        (!self.is_found(dns_name) || at < name.sighted + limits.wildcard_idle).then_some(at)
    }

    /// The names with addresses.
    pub fn names(&self) -> impl Iterator<Item = &DnsName> {
        self.names.keys()
    }

    /// How many addresses of a name are known.
    pub fn addresses_of(&self, dns_name: &DnsName) -> usize {
        self.names
            .get(dns_name)
            .map_or(0, |name| name.addresses.len())
    }

    /// Whether the name is known only because a wildcard wants it.
    fn is_found(&self, dns_name: &DnsName) -> bool {
        self.spec != *dns_name
    }

    fn removals<'a>(
        &'a self,
        limits: &'a Limits,
    ) -> impl Iterator<Item = (&'a DnsName, IpAddr, Timestamp)> {
        self.names.iter().flat_map(move |(dns_name, name)| {
            name.addresses.iter().filter_map(move |(ip, address)| {
                let at = removal(name, ip, address, self.is_found(dns_name), limits)?;
                Some((dns_name, *ip, at))
            })
        })
    }
}

/// When the address may go; nothing if its name has to be looked up first.
fn removal(
    name: &Name,
    ip: &IpAddr,
    address: &Address,
    found: bool,
    limits: &Limits,
) -> Option<Timestamp> {
    let earliest = (address.expiry() + limits.grace).max(address.seen + limits.retain);
    if !limits.lookups {
        return Some(earliest.max(address.hold_until));
    }
    if name.asked(family(ip)) >= address.expiry() {
        return Some(earliest);
    }
    let forgotten = found.then(|| name.sighted + limits.wildcard_idle);
    let nxdomain = matches!(&name.verdict, Verdict::Failing(Failure::NXDOMAIN));
    let stale =
        (name.failures >= FAILURE_THRESHOLD && !nxdomain).then(|| address.seen + limits.max_stale);
    let at = forgotten.into_iter().chain(stale).min()?;
    Some(earliest.max(at))
}

fn family(ip: &IpAddr) -> Family {
    match ip {
        IpAddr::V4(_) => Family::V4,
        IpAddr::V6(_) => Family::V6,
    }
}
