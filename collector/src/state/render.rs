//! From what is known to the status that the store should have.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff,
};
use proto::api::{DEGRADED, DnsName, DnsNameResolverStatus, ResolvedAddress, ResolvedName};
use runtime::clock::Timestamp;

use super::{
    Memory,
    memory::{Address, Name, Verdict},
    tolerance,
};

/// A status that differs from the stored one.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The whole new status.
    pub status: DnsNameResolverStatus,
    /// Addresses (each name's counted for itself) that the stored status lacks.
    pub added: usize,
    /// Addresses of the stored status that are gone.
    pub removed: usize,
    /// Whether a name became degraded, or is no longer.
    pub flipped: bool,
    /// The earliest expiry in the stored status that memory knows to be later.
    pub nearest: Option<Timestamp>,
}

impl Change {
    /// Whether it is more than times and counts.
    pub fn is_urgent(&self) -> bool {
        self.added + self.removed > 0 || self.flipped
    }
}

impl Memory {
    /// The status that the store should have instead of `stored`, or nothing if that one will do.
    ///
    /// A stored time is replaced only when the expiry that it gives is off by more than min(5 s, TTL / 2). Entries and
    /// addresses keep their places; new ones go to the end, the wildcard's own to the front. A regular name whose addresses
    /// all stand in its wildcard's entry with the same expiry has no entry of its own; it stays in memory, and its entry
    /// returns when that is no longer so.
    pub fn render(&mut self, stored: &DnsNameResolverStatus, now: Timestamp) -> Option<Change> {
        let covered = self.covered();
        let mut count = Count::default();
        let mut entries: Vec<ResolvedName> = Vec::with_capacity(self.names.len());
        let mut done: BTreeSet<DnsName> = BTreeSet::new();
        for old in &stored.resolved_names {
            let known = DnsName::parse(&old.dns_name)
                .ok()
                .filter(|name| name.as_str() == old.dns_name && !covered.contains(name))
                .and_then(|dns_name| Some((self.names.get(&dns_name)?, dns_name)))
                .filter(|(_, dns_name)| !done.contains(dns_name));
            let Some((name, dns_name)) = known else {
                count.removed += old.resolved_addresses.len();
                continue;
            };
            entries.push(entry(&dns_name, name, Some(old), now, &mut count));
            done.insert(dns_name);
        }
        for (dns_name, name) in &self.names {
            if covered.contains(dns_name) || done.contains(dns_name) {
                continue;
            }
            let new = entry(dns_name, name, None, now, &mut count);
            if dns_name.is_wildcard() {
                entries.insert(0, new)
            } else {
                entries.push(new)
            }
        }
        for address in self
            .names
            .values_mut()
            .flat_map(|name| name.addresses.values_mut())
        {
            address.rendered = address.expiry();
        }
        let status = DnsNameResolverStatus {
            resolved_names: entries,
        };
        (status != *stored).then_some(Change {
            status,
            added: count.added,
            removed: count.removed,
            flipped: count.flipped,
            nearest: count.nearest,
        })
    }

    /// The regular names that need no entry because the wildcard's own has all that they have.
    fn covered(&self) -> BTreeSet<DnsName> {
        let Some(wildcard) = self
            .names
            .get(&self.spec)
            .filter(|_| self.spec.is_wildcard())
        else {
            return BTreeSet::new();
        };
        let stands_in_wildcard = |(ip, address): (&IpAddr, &Address)| {
            wildcard.addresses.get(ip).is_some_and(|own| {
                let (one, other) = (own.expiry(), address.expiry());
                // Never shorter: a regular name that lives longer than the wildcard's copy keeps its entry.
                one.max(other).since(one.min(other)) <= tolerance(address.ttl.min(own.ttl))
            })
        };
        self.names
            .iter()
            .filter(|(dns_name, name)| {
                **dns_name != self.spec && name.addresses.iter().all(stands_in_wildcard)
            })
            .map(|(dns_name, _)| dns_name.clone())
            .collect()
    }
}

#[derive(Default)]
struct Count {
    added: usize,
    removed: usize,
    flipped: bool,
    nearest: Option<Timestamp>,
}

fn entry(
    dns_name: &DnsName,
    name: &Name,
    old: Option<&ResolvedName>,
    now: Timestamp,
    count: &mut Count,
) -> ResolvedName {
    let mut addresses = Vec::with_capacity(name.addresses.len());
    let mut missing: BTreeMap<IpAddr, &Address> = name
        .addresses
        .iter()
        .map(|(ip, address)| (*ip, address))
        .collect();
    for stored in old
        .map(|old| old.resolved_addresses.as_slice())
        .unwrap_or_default()
    {
        let ip = stored.ip.parse().map(proto::address::canonical).ok();
        match ip.and_then(|ip| Some((ip, missing.remove(&ip)?))) {
            Some((ip, address)) => addresses.push(refreshed(stored, ip, address, count)),
            None => count.removed += 1,
        }
    }
    count.added += missing.len();
    addresses.extend(missing.into_iter().map(|(ip, address)| fresh(ip, address)));
    let conditions = conditions(name, old, now);
    let degraded = |conditions: &[Condition]| {
        let found = conditions
            .iter()
            .find(|condition| condition.type_ == DEGRADED);
        found.map(|condition| (condition.status.clone(), condition.reason.clone()))
    };
    count.flipped |= old.is_some_and(|old| degraded(&old.conditions) != degraded(&conditions));
    ResolvedName {
        conditions,
        dns_name: dns_name.as_str().to_owned(),
        resolved_addresses: addresses,
        resolution_failures: name.failures,
    }
}

fn fresh(ip: IpAddr, address: &Address) -> ResolvedAddress {
    ResolvedAddress {
        ip: ip.to_string(),
        ttl_seconds: i32::try_from(address.ttl).unwrap_or(i32::MAX),
        last_lookup_time: time(address.looked_up),
    }
}

/// The stored address with canonical text, and with its old times if they will do.
fn refreshed(
    stored: &ResolvedAddress,
    ip: IpAddr,
    address: &Address,
    count: &mut Count,
) -> ResolvedAddress {
    let looked_up = Timestamp::from_millis(stored.last_lookup_time.0.as_millisecond());
    let ttl = u64::try_from(stored.ttl_seconds).unwrap_or(0);
    let (was, is) = (looked_up + Duration::from_secs(ttl), address.expiry());
    if was.max(is).since(was.min(is)) > tolerance(address.ttl) {
        let nearest = count.nearest.into_iter().chain([was]).min();
        count.nearest = nearest.filter(|_| was < is).or(count.nearest);
        return fresh(ip, address);
    }
    ResolvedAddress {
        ip: ip.to_string(),
        ..stored.clone()
    }
}

/// `Degraded` as the last look-up says; its transition time moves only when its status flips.
fn conditions(name: &Name, old: Option<&ResolvedName>, now: Timestamp) -> Vec<Condition> {
    let stored = old.map(|old| old.conditions.clone()).unwrap_or_default();
    let (status, reason, message) = match &name.verdict {
        Verdict::Unknown => return stored,
        Verdict::Resolved => (
            "False",
            "NOERROR".into(),
            "the last look-up succeeded".to_owned(),
        ),
        Verdict::Failing(failure) => ("True", failure.reason(), failure.to_string()),
    };
    let degraded = stored.iter().find(|condition| condition.type_ == DEGRADED);
    if let Some(condition) = degraded.filter(|_| stored.len() == 1)
        && condition.status == status
        && condition.reason == reason
    {
        return stored;
    }
    let last_transition_time = match degraded {
        Some(condition) if condition.status == status => condition.last_transition_time.clone(),
        _ => time(now),
    };
    vec![Condition {
        last_transition_time,
        message,
        observed_generation: None,
        reason: reason.into_owned(),
        status: status.to_owned(),
        type_: DEGRADED.to_owned(),
    }]
}

/// In whole seconds, as the API stores it.
fn time(at: Timestamp) -> Time {
    Time(jiff::Timestamp::from_millisecond(at.floor_second().as_millis()).unwrap_or_default())
}
