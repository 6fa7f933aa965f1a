//! When addresses leave, and when their names must be looked up before that.

use std::net::IpAddr;

use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::{
    Limits, NameState,
    looked_up::FAILURE_THRESHOLD,
    name::{Address, Name, Verdict},
};
use crate::guards::Guards;

impl NameState {
    /// Forgets the addresses whose time is over, and the names that have none left. Returns what went.
    ///
    /// An address leaves at max(expiry + grace, last seen + retain), and not before its name was looked up again after
    /// the expiry; without an answer to that look-up, at last seen + `max_stale` at the earliest. A name under a wildcard
    /// that clients have forgotten is not looked up, so its addresses leave without. After a gap nothing leaves before one TTL
    /// and grace have passed, since the times of a status may be ten minutes old.
    pub fn expire(&mut self, now: Timestamp, limits: &Limits) -> Vec<(DnsName, IpAddr)> {
        self.removed.forget(now);
        let spec = self.spec.clone();
        self.take_away(now, |name, address| {
            removal(name, address, name.dns_name != spec, limits).is_some_and(|at| at <= now)
        })
    }

    /// Forgets the addresses that the guards refuse by now. Returns which, and why.
    pub fn purge(&mut self, guards: &Guards) -> Vec<(DnsName, IpAddr, &'static str)> {
        let mut purged = Vec::new();
        for name in &mut self.names {
            name.addresses.retain(|address| {
                let refused = guards.admit(address.ip).err();
                purged.extend(refused.map(|reason| (name.dns_name.clone(), address.ip, reason)));
                refused.is_none()
            });
        }
        if !purged.is_empty() {
            self.forget_emptied(Verdict::Refused);
        }
        purged
    }

    /// When [`NameState::expire`] will next find something, if nothing is learned until then.
    pub fn next_removal(&self, limits: &Limits) -> Option<Timestamp> {
        let of_name = |name| {
            let found = self.is_found(name);
            let of_address = move |address| removal(name, address, found, limits);
            name.addresses.iter().filter_map(of_address)
        };
        self.names.iter().flat_map(of_name).min()
    }

    /// When a name is to be looked up: when its earliest address expires that was not asked for since. Nothing for a name
    /// without addresses, and for a name under a wildcard that clients have forgotten.
    pub fn next_lookup(&self, dns_name: &DnsName, limits: &Limits) -> Option<Timestamp> {
        let name = self.name(dns_name)?;
        let expired = |address: &Address| {
            let expiry = address.expiry();
            (name.asked(address.family()) < expiry).then_some(expiry)
        };
        let at = name.addresses.iter().filter_map(expired).min()?;
        (!self.is_found(name) || at < name.sighted + limits.wildcard_idle).then_some(at)
    }

    /// Whether the name is known only because a wildcard wants it.
    fn is_found(&self, name: &Name) -> bool {
        self.spec != name.dns_name
    }
}

/// When the address may go; nothing if its name has to be looked up first.
pub(super) fn removal(
    name: &Name,
    address: &Address,
    found: bool,
    limits: &Limits,
) -> Option<Timestamp> {
    let earliest = address.earliest_removal(limits).max(address.not_before);
    if !limits.lookups {
        return Some(earliest);
    }
    if name.asked(address.family()) >= address.expiry() {
        return Some(earliest);
    }
    let forgotten = found.then(|| name.sighted + limits.wildcard_idle);
    let unanswered = name.failures >= FAILURE_THRESHOLD && name.tried >= address.expiry();
    // What every server says is not there is waited for until it was said often enough.
    let is_absent = name.absences(address.family()) > 0;
    let stale = (unanswered && !is_absent).then(|| address.seen + limits.max_stale);
    let at = forgotten.into_iter().chain(stale).min()?;
    Some(earliest.max(at))
}
