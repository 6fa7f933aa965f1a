//! When an address may leave, and everything that removes addresses.
//!
//! | why an address leaves | by which collector | when | code | undone by |
//! |---|---|---|---|---|
//! | its time is over | the leader, while it receives every DNS server that it received | [`removal`] | [`NameState::expire`] | an answer |
//! | DNS servers say NXDOMAIN or NODATA | the leader | after five look-ups in a row over a minute, as soon as its time is over | [`NameState::expire`] | an answer |
//! | its retention alone keeps it, beside 100 others | the leader | when its time is over | [`NameState::evict_retained`] | an answer |
//! | look-ups of its name fail | the leader | after `--max-stale` without an answer | [`NameState::expire`] | an answer |
//! | its name under a wildcard is idle | the leader | [`removal`], without a look-up | [`NameState::expire`] | an answer |
//! | a guard refuses it | each collector, in memory | when the guard changes | [`NameState::purge`] | a change of the guard, and an answer |
//! | its name, wildcard or object is full | each collector, in memory | before a write, and when it is crowded | [`Eviction::enforce`](super::Eviction::enforce) | an answer |
//! | the store refuses the object for its size | the leader | at once | [`Eviction::shrink`](super::Eviction::shrink) | an answer |
//! | the namespaces of its name have too many names | each collector, in memory | after a change of the rules (`caps`) | [`NameState::leave_out`] | fewer names, and an answer |
//! | the leader removed it | a standby, in memory | its time is over and the status lacks it | [`NameState::apply_leader_removals`] | an answer |
//! | the last rule of its name ends | the leader | ten minutes later | the deletion of the object (`publish::plan` of the collector) | a new rule, and an answer |
//!
//! An address that a collector removes from its state leaves the status only if the collector
//! leads. A status that still has it does not bring it back: only what another writer added since
//! the last known status is news.

use std::{cmp::Reverse, collections::BTreeSet, net::IpAddr};

use proto::api::DnsName;
use proto::timestamp::Timestamp;

use super::{
    Admitted, Limits, NameList, NameState, Stored,
    limits::MAX_RETAINED,
    lookup::FAILURE_THRESHOLD,
    name::{Address, Name, ResolutionState, shrink_half_empty},
    without_addresses::WithoutAddresses,
};

/// Why addresses are removed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Cause {
    /// Expiry or a limit. A status that still has them does not bring them back.
    OverOrEvicted,
    Refused,
    /// The leader removed them from the status, and a standby follows.
    NotInStatus,
}

impl NameState {
    /// Removes addresses, and names without any left. Returns what was removed.
    pub(super) fn remove_where(
        &mut self,
        cause: Cause,
        mut is_removed: impl FnMut(&Name, &Address) -> bool,
    ) -> Vec<(DnsName, IpAddr)> {
        let mut removed = Vec::new();
        for name in &mut self.list.names {
            let mut addresses = std::mem::take(&mut name.addresses);
            addresses.retain(|address| {
                let is_removed = is_removed(name, address);
                if is_removed {
                    removed.push((name.dns_name.clone(), address.ip));
                }
                !is_removed
            });
            shrink_half_empty(&mut addresses);
            name.addresses = addresses;
        }
        match cause {
            Cause::OverOrEvicted => self.remove_emptied(ResolutionState::Expired),
            Cause::Refused if removed.is_empty() => {}
            Cause::Refused => self.remove_emptied(ResolutionState::Refused),
            Cause::NotInStatus => self.list.remove_empty(),
        }
        removed
    }

    /// Removes the addresses whose time is over. Returns what was removed.
    ///
    /// An address leaves at max(expiry + grace, last seen + retain), but only after a look-up of
    /// its name since the expiry. If that look-up fails, it leaves at last seen + `max_stale` at
    /// the earliest. An idle name under a wildcard is not looked up, so its addresses leave without
    /// a look-up. After a gap no address leaves before one TTL and grace.
    pub fn expire(&mut self, now: Timestamp, limits: &Limits) -> Vec<(DnsName, IpAddr)> {
        let rule_name = self.list.rule_name.clone();
        self.remove_where(Cause::OverOrEvicted, |name, address| {
            removal(name, address, name.dns_name != rule_name, limits).is_some_and(|at| at <= now)
        })
    }

    /// Removes addresses that only the retention of their name keeps, beyond `MAX_RETAINED` of a
    /// name: those seen longest ago. Returns what was removed.
    pub fn evict_retained(&mut self, now: Timestamp, limits: &Limits) -> Vec<(DnsName, IpAddr)> {
        let list = &self.list;
        let crowded = list
            .names
            .iter()
            .filter(|it| it.addresses.len() > MAX_RETAINED);
        let surplus: BTreeSet<(DnsName, IpAddr)> = crowded
            .flat_map(|name| {
                let mut retained: Vec<&Address> = name.addresses.iter().collect();
                retained.retain(|address| {
                    removal_without_retention(name, address, list.is_found(name), limits)
                        .is_some_and(|at| at <= now)
                });
                retained.sort_unstable_by_key(|it| Reverse((it.seen, it.ip)));
                let surplus = retained.into_iter().skip(MAX_RETAINED);
                surplus.map(|it| (name.dns_name.clone(), it.ip))
            })
            .collect();
        if surplus.is_empty() {
            return Vec::new();
        }
        self.remove_where(Cause::OverOrEvicted, |name, address| {
            surplus.contains(&(name.dns_name.clone(), address.ip))
        })
    }

    /// Removes the addresses that the guards now refuse. Returns them with the reasons.
    pub fn purge(
        &mut self,
        admit: impl Fn(IpAddr) -> Admitted,
    ) -> Vec<(DnsName, IpAddr, &'static str)> {
        let mut purged = Vec::new();
        self.remove_where(Cause::Refused, |name, address| {
            let refused = admit(address.ip).err();
            purged.extend(refused.map(|reason| (name.dns_name.clone(), address.ip, reason)));
            refused.is_some()
        });
        purged
    }

    /// Removes the addresses that the status lacks and whose time is over. Only a leader removes
    /// addresses from a status, and a standby follows it.
    pub fn apply_leader_removals(&mut self, stored: &Stored, now: Timestamp, limits: &Limits) {
        let listed = stored.listed();
        self.remove_where(Cause::NotInStatus, |name, address| {
            address.earliest_removal(limits) <= now
                && listed.binary_search(&(&name.dns_name, address.ip)).is_err()
        });
        // A standby computes its size only here. The write budget uses it to charge the leader's
        // writes.
        self.size.recount(&self.list);
    }

    /// Removes everything of a name whose namespaces exceed their limits. Returns what was removed.
    pub fn leave_out(&mut self) -> Vec<(DnsName, IpAddr)> {
        let removed = self.remove_where(Cause::OverOrEvicted, |_, _| true);
        self.without_addresses = Some(Box::new(WithoutAddresses {
            resolution: ResolutionState::LimitExceeded,
            failures: 0,
        }));
        removed
    }
}

impl NameList {
    /// When [`NameState::expire`] will next remove an address, if nothing changes until then.
    pub fn next_removal(&self, limits: &Limits) -> Option<Timestamp> {
        let of_name = |name| {
            let found = self.is_found(name);
            let of_address = move |address| removal(name, address, found, limits);
            name.addresses.iter().filter_map(of_address)
        };
        let crowded = self
            .names
            .iter()
            .filter(|it| it.addresses.len() > MAX_RETAINED);
        // When one more address than the limit is kept by retention alone.
        let surplus = crowded.filter_map(|name| {
            let found = self.is_found(name);
            let mut times: Vec<Timestamp> = name
                .addresses
                .iter()
                .filter_map(|it| removal_without_retention(name, it, found, limits))
                .collect();
            times.sort_unstable();
            times.get(MAX_RETAINED).copied()
        });
        self.names.iter().flat_map(of_name).chain(surplus).min()
    }
}

/// When the address may leave; `None` if its name must be looked up first.
pub(super) fn removal(
    name: &Name,
    address: &Address,
    found: bool,
    limits: &Limits,
) -> Option<Timestamp> {
    let removal = removal_without_retention(name, address, found, limits)?;
    Some(removal.max(address.seen + limits.retain))
}

/// When the address may leave if the name has no retention.
fn removal_without_retention(
    name: &Name,
    address: &Address,
    found: bool,
    limits: &Limits,
) -> Option<Timestamp> {
    let earliest = (address.expiry() + limits.grace).max(address.not_before);
    if !limits.lookups {
        return Some(earliest);
    }
    if name.last_conclusive(address.family()) >= address.expiry() {
        return Some(earliest);
    }
    let idle = found.then(|| name.last_client_query + limits.wildcard_idle);
    let unanswered = name.failures >= FAILURE_THRESHOLD && name.last_failure >= address.expiry();
    // While servers say that the address is absent, only the count of such answers decides.
    let is_absent = name.absences(address.family()) > 0;
    let stale = (unanswered && !is_absent).then(|| address.seen + limits.max_stale);
    let at = idle.into_iter().chain(stale).min()?;
    Some(earliest.max(at))
}
