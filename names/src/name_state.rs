//! The state of one object: each name's addresses, their expiry, and their sources.

use std::{net::IpAddr, time::Duration};

use proto::api::{DnsName, Family};
use proto::timestamp::Timestamp;

use super::{
    Limits, Stored,
    evict::{Eviction, ObjectSize},
    lookup::{FAILURE_THRESHOLD, FamilyResult, LookupSummary},
    name::{Address, ResolutionState},
    name_list::{NameList, NameSnapshot},
    without_addresses::WithoutAddresses,
};
use crate::{Admitted, observation::Observation};

/// The state of all names that one `spec.name` matches.
#[derive(Clone, Debug)]
pub struct NameState {
    pub(super) list: NameList,
    /// Why there is no address, if there were any.
    pub(super) without_addresses: Option<Box<WithoutAddresses>>,
    pub(super) size: ObjectSize,
}

/// The effect of an update on the status.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UpdateEffect {
    /// The status lacks an address, has one too many, or has a wrong `Degraded` condition.
    pub urgent: bool,
    /// Times in the status are off by more than the tolerance.
    pub times: bool,
    /// Addresses evicted because of a limit.
    pub evicted_addresses: usize,
    /// Names evicted because of a limit.
    pub evicted_names: usize,
    /// Names that lost their last address by eviction: their look-ups end.
    pub names_gone: Vec<DnsName>,
    /// Names for which the status has new addresses, which another writer added.
    pub from_others: Vec<DnsName>,
}

impl NameState {
    /// An empty state.
    pub fn new(rule_name: DnsName) -> Self {
        Self {
            list: NameList::new(rule_name),
            without_addresses: None,
            size: ObjectSize::default(),
        }
    }

    pub fn list(&self) -> &NameList {
        &self.list
    }

    pub fn size(&self) -> &ObjectSize {
        &self.size
    }

    /// Adds an answer. The latest expiry of an address wins and never moves back.
    pub fn observe(&mut self, observation: &Observation, limits: &Limits) -> UpdateEffect {
        let mut effect = UpdateEffect::default();
        if observation.addresses.is_empty() || !self.list.rule_name.matches(&observation.name) {
            return effect;
        }
        // A late answer, as after a pause, must not add addresses that have expired by now.
        let answered_at = observation.answered_at.min(observation.at);
        let lives =
            |ttl: u32| answered_at + Duration::from_secs(limits.clamp(ttl).into()) > observation.at;
        if answered_at < observation.at && observation.addresses.iter().all(|(_, ttl)| !lives(*ttl))
        {
            if let Some(name) = self.list.name_mut(&observation.name)
                && observation.client.is_some()
            {
                name.on_client_query(observation.at);
            }
            return effect;
        }
        let is_wildcard = self.list.rule_name.is_wildcard();
        let Some(name) = self.list.name_or_new(&observation.name) else {
            return effect;
        };
        if let Some(client) = observation.client {
            name.on_client_query(observation.at);
            if is_wildcard || name.clients.is_empty() {
                name.clients.insert(client);
            }
        } else if name.addresses.is_empty() {
            name.last_client_query = name.last_client_query.max(observation.at);
        }
        let live = observation.addresses.iter().filter(|(_, ttl)| lives(*ttl));
        let addresses = live.map(|&(ip, ttl)| {
            let mut address = Address::seen(ip, limits.clamp(ttl), answered_at);
            address.source = observation.source;
            address
        });
        let news = name.merge(addresses);
        if name.addresses.is_empty() {
            self.list.remove_empty();
            return effect;
        }
        effect.urgent = news.added > 0 || name.resolution != ResolutionState::Resolved;
        effect.times = news.times;
        name.resolution = ResolutionState::Resolved;
        name.failures = 0;
        name.reset_absences(observation.family);
        name.seen = name.seen.max(answered_at);
        self.clear_reason();
        if news.added > 0 {
            self.size.grow(news.added);
            Eviction::new(self, limits).of_name(&observation.name, &mut effect);
        }
        effect
    }

    /// Discards the results of look-ups after a pause, a step of the clock, or a change of leader.
    /// Every name is then looked up again before any of its addresses leaves. Times in the future
    /// count as now.
    pub fn on_clock_jump(&mut self, now: Timestamp, limits: &Limits) {
        for name in &mut self.list.names {
            name.on_clock_jump(now, limits.grace);
        }
    }

    /// Answers may have been lost until now: no address leaves before one more TTL and grace.
    pub fn keep_for_ttl(&mut self, now: Timestamp, limits: &Limits) {
        for address in self
            .list
            .names
            .iter_mut()
            .flat_map(|name| &mut name.addresses)
        {
            address.keep_for_ttl(now, limits.grace);
        }
    }

    /// Queries of clients may have been lost: no name counts as idle.
    pub fn not_idle(&mut self, now: Timestamp) {
        for name in &mut self.list.names {
            name.last_client_query = now;
        }
    }

    /// Merges a status from the store, written by another collector, an earlier process, or a
    /// person.
    ///
    /// `before` is the status that the store had before: an address that it had too, and that left the state, is no news.
    /// Times in the future count as now. An address stays at least until its stored time is over,
    /// and without look-ups for as long from now. Malformed addresses,
    /// addresses that the guards refuse, and names that `spec.name` does not match are skipped. The
    /// next [`StatusUpdate`](super::StatusUpdate) removes them.
    pub fn apply_stored(
        &mut self,
        stored: &Stored,
        before: Option<&Stored>,
        now: Timestamp,
        limits: &Limits,
        admit: impl Fn(IpAddr) -> Admitted,
    ) -> UpdateEffect {
        let mut effect = UpdateEffect::default();
        for entry in &stored.names {
            if !self.list.rule_name.matches(&entry.dns_name) {
                continue;
            }
            let mut addresses = Vec::with_capacity(entry.addresses.len());
            for address in &entry.addresses {
                let Ok(ip) = admit(address.ip) else {
                    continue;
                };
                let last_lookup = address.last_lookup_time.min(now);
                let ttl = limits.clamp_stored(address.ttl);
                let mut known = Address::stored(ip, ttl, last_lookup);
                // No writer added it since it left the state.
                if !self.list.has(&entry.dns_name, &ip)
                    && before.is_some_and(|it| it.has_since(&entry.dns_name, ip, last_lookup))
                {
                    continue;
                }
                if !limits.lookups {
                    known.not_before = now + Duration::from_secs(ttl.into()) + limits.grace;
                }
                known.rendered = known.expiry();
                addresses.push(known);
            }
            if !addresses.is_empty() {
                let added = self.apply_stored_name(&entry.dns_name, addresses, entry.failures, now);
                effect
                    .from_others
                    .extend(added.then(|| entry.dns_name.clone()));
            }
        }
        if stored.names.is_empty() {
            return effect;
        }
        // The status may record why the object lost its last address: that state continues.
        if self.list.names.is_empty() && self.without_addresses.is_none() {
            let why = WithoutAddresses::of_status(stored, &self.list.rule_name);
            self.without_addresses = why.map(Box::new);
        }
        effect
    }

    /// Returns whether there was a new address.
    fn apply_stored_name(
        &mut self,
        dns_name: &DnsName,
        mut addresses: Vec<Address>,
        failures: i32,
        now: Timestamp,
    ) -> bool {
        let Some(name) = self.list.name_or_new(dns_name) else {
            return false;
        };
        if name.addresses.is_empty() {
            // The status does not record which clients queried the name, nor when.
            name.last_client_query = now;
            name.is_asked_in_two_minutes = true;
        }
        // A status repeats what is known, unless its look-up is later.
        addresses.retain(|address| {
            let known = name.address(&address.ip);
            known.is_none_or(|known| known.answered_at < address.answered_at)
        });
        let seen = addresses.iter().map(|address| address.seen).max();
        name.seen = name.seen.max(seen.unwrap_or_default());
        let news = name.merge(addresses.into_iter());
        if name.resolution == ResolutionState::Unknown {
            name.failures = name.failures.max(failures);
        }
        self.clear_reason();
        if news.added > 0 {
            self.size.grow(news.added);
        }
        news.added > 0
    }

    /// Continues the work of the last leader. Addresses that this collector evicted but the status
    /// has come back. So do failure counts, which only a leader keeps.
    pub fn take_over(
        &mut self,
        stored: &Stored,
        now: Timestamp,
        limits: &Limits,
        admit: impl Fn(IpAddr) -> Admitted,
    ) -> UpdateEffect {
        let effect = self.apply_stored(stored, None, now, limits, admit);
        for entry in &stored.names {
            if let Some(name) = self.list.name_mut(&entry.dns_name) {
                name.resolution = ResolutionState::Unknown;
                name.failures = entry.failures.max(0);
            }
        }
        effect
    }

    /// Merges another object's state of a name that this one matches too.
    pub fn merge_snapshot(&mut self, known: NameSnapshot) -> UpdateEffect {
        let mut effect = UpdateEffect::default();
        let NameSnapshot(known) = known;
        if !self.list.rule_name.matches(&known.dns_name) {
            return effect;
        }
        let Some(name) = self.list.name_or_new(&known.dns_name) else {
            return effect;
        };
        if name.addresses.is_empty() {
            (name.resolution, name.failures) = (known.resolution, known.failures);
        }
        name.is_asked_in_two_minutes |= known.is_asked_in_two_minutes;
        name.clients.extend(&known.clients);
        name.seen = name.seen.max(known.seen);
        name.last_client_query = name.last_client_query.max(known.last_client_query);
        let news = name.merge(known.addresses.into_iter());
        effect.urgent = news.added > 0;
        effect.times = news.times;
        self.list.remove_empty();
        if !self.list.names.is_empty() {
            self.clear_reason();
        }
        if news.added > 0 {
            self.size.grow(news.added);
        }
        effect
    }

    /// Applies a look-up of a name. Only a name with addresses, or one that lost them, has
    /// failures.
    pub fn apply_lookup(
        &mut self,
        dns_name: &DnsName,
        look_up: LookupSummary,
        now: Timestamp,
        limits: &Limits,
    ) -> UpdateEffect {
        let mut effect = UpdateEffect::default();
        let LookupSummary {
            results,
            failure,
            started,
        } = look_up;
        let Some(name) = self.list.name_mut(dns_name) else {
            let why = self.without_addresses.as_mut();
            let why = why.filter(|_| *dns_name == self.list.rule_name);
            effect.urgent = why.is_some_and(|why| why.apply_lookup(look_up));
            return effect;
        };
        let before = name.resolution;
        if let Some(failure) = failure {
            name.resolution = ResolutionState::Failing(failure);
            name.failures = name.failures.saturating_add(1);
            name.last_failure = name.last_failure.max(started);
        }
        // While the other family has answers, the failures in a row do not end.
        let is_extended = failure.is_none() || name.failures < FAILURE_THRESHOLD;
        for (family, result) in Family::ALL.into_iter().zip(results) {
            let closes = match result {
                FamilyResult::Complete => {
                    name.reset_absences(family);
                    true
                }
                FamilyResult::Absent => name.count_absence(family, started),
                FamilyResult::Unknown => {
                    name.reset_absences(family);
                    failure.is_none() && name.is_stale(family, now, limits)
                }
            };
            if closes {
                name.conclude(family, started);
            }
            if result == FamilyResult::Unknown || !closes {
                effect.times |= is_extended && name.extend_expiry(family, now, limits);
            }
        }
        if failure.is_none() && name.is_closing(started) {
            name.resolution = ResolutionState::NoAddress;
        }
        effect.urgent = name.resolution != before;
        effect
    }
}
