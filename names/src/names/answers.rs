//! Answers and look-ups: what they change, and what is looked up next.

use std::{iter::once, net::IpAddr};

use proto::{api::DnsName, timestamp::Timestamp};

use super::{Added, Names};
use crate::{
    Entry, FamilyOutcome, FamilyResult, LookupResult, LookupSummary, NoAddress, Observation,
    Request,
};

impl Names {
    /// Applies an answer to the name itself and to the wildcard above it. Returns the addresses that are new.
    pub fn apply_answer(&mut self, answer: &Observation) -> Vec<Added> {
        let mut added = Vec::new();
        if answer.addresses.is_empty() {
            return added;
        }
        let wildcard = answer.name.wildcard();
        for rule_name in once(&answer.name).chain(wildcard.as_ref()) {
            added.extend(self.apply_answer_to(rule_name, answer));
        }
        if answer.client.is_some() {
            self.schedule.reset_backoff(&answer.name);
        }
        self.reschedule(&answer.name);
        // For a look-up of the collector only the datagram was truncated: TCP brought the rest.
        if answer.truncated && answer.client.is_some() {
            self.ask_again(&answer.name, answer.at);
        }
        added
    }

    fn apply_answer_to(&mut self, rule_name: &DnsName, answer: &Observation) -> Option<Added> {
        let entry = self.entries.get_mut(rule_name);
        let entry = entry.filter(|entry| !entry.is_left_out)?;
        if !answer.addresses.is_empty() && *rule_name == answer.name {
            entry.no_address = None;
        }
        let admitted = self.caps.admit(entry, answer);
        if let Some((_, left_out)) = &admitted {
            entry.no_address = Some(Box::new(NoAddress::LimitExceeded));
            self.changes.counts.left_out += *left_out as u64;
            self.changes
                .at_cap
                .extend(self.caps.take_unreported(entry, answer.at));
        }
        let answer = admitted.as_ref().map_or(answer, |(answer, _)| answer);
        let before = entry.counted_addresses();
        let added = new_addresses(entry, answer);
        let effect = entry.state.observe(answer, &entry.rule_use.limits);
        let size = entry.state.size();
        let is_over_limit = size.is_over_limit(entry.state.list(), &entry.rule_use.limits);
        if !is_over_limit {
            self.caps.add(entry, before);
        }
        self.apply_effect(rule_name, &effect, Some(answer.at), answer.at);
        if is_over_limit {
            // Addresses that left make room for others of the namespace.
            self.enforce(rule_name, answer.at);
            self.caps.add(self.entries.get(rule_name)?, before);
        }
        added
    }

    /// A guard refused an address of an answer for the name.
    pub fn note_refused(&mut self, name: &DnsName, guard: &'static str) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.no_address = Some(Box::new(NoAddress::Guarded(guard)));
            if !entry.is_left_out && entry.state.note_refused(guard) {
                self.changes.mark(name, None);
            }
        }
    }

    /// Applies a look-up of a name in both families. Returns the addresses that are new.
    pub fn apply_lookup(&mut self, result: &LookupResult, now: Timestamp) -> Vec<Added> {
        let mut added = Vec::new();
        if !self.schedule.is_discarded(&result.name) {
            for mut answer in result.observations() {
                answer.at = answer.at.min(now);
                added.extend(self.apply_answer(&answer));
            }
        }
        let outcomes = [&result.v4, &result.v6];
        let has_addresses = outcomes.iter().any(|outcome| outcome.has_addresses());
        let summary = LookupSummary {
            results: outcomes.map(FamilyResult::from),
            failure: result.failed(),
            // The clock may have been set back meanwhile.
            started: result.started.min(now),
        };
        if let Some(entry) = self.entries.get_mut(&result.name) {
            let guarded = matches!(entry.no_address.as_deref(), Some(NoAddress::Guarded(_)));
            match result.no_address() {
                // The guard was noted just before.
                Some(NoAddress::Inconclusive) if guarded => {}
                Some(why) => entry.no_address = Some(Box::new(why)),
                None => {}
            }
        }
        for rule_name in once(result.name.clone()).chain(result.name.wildcard()) {
            let Some(entry) = self.entries.get_mut(&rule_name) else {
                continue;
            };
            if !self.leads || entry.is_left_out {
                continue;
            }
            let (state, limits) = (&mut entry.state, &entry.rule_use.limits);
            let effect = state.apply_lookup(&result.name, summary, now, limits);
            // Addresses that waited for a look-up may leave now, whatever its result.
            self.changes.mark(&rule_name, None);
            self.apply_effect(&rule_name, &effect, None, now);
        }
        self.schedule
            .done(&result.name, has_addresses, result.is_unresponsive, now);
        self.reschedule(&result.name);
        let is_cut = |outcome: &&FamilyOutcome| {
            outcome.has_addresses() && FamilyResult::from(*outcome) != FamilyResult::Complete
        };
        if outcomes.iter().any(is_cut) {
            self.ask_again(&result.name, now);
        }
        added
    }

    /// There may be more addresses than the datagram had.
    fn ask_again(&mut self, name: &DnsName, now: Timestamp) {
        if self.schedule.is_active {
            self.schedule.schedule_early(name, now);
        }
    }

    /// Answers may have been lost until now. No address leaves before one more TTL and grace, and a leader looks every
    /// name up. `lost`: the names of answers that are known to be lost.
    pub fn on_stream_gap(
        &mut self,
        is_any_lost: bool,
        lost: impl IntoIterator<Item = DnsName>,
        now: Timestamp,
    ) {
        if is_any_lost {
            self.backfill.is_owed = true;
            for entry in self.entries.values_mut() {
                entry.state.keep_for_ttl(now, &entry.rule_use.limits);
            }
            let has_wildcards = self.entries.keys().any(DnsName::is_wildcard);
            self.changes.counts.wildcard_gaps += u64::from(has_wildcards);
        }
        for name in lost {
            self.schedule_lost(&name, now);
        }
    }

    /// The answer for a name was lost: looks it up again, if it is wanted.
    fn schedule_lost(&mut self, name: &DnsName, now: Timestamp) {
        let mut rule_names = once(name.clone()).chain(name.wildcard());
        if self.schedule.is_active && rule_names.any(|it| self.entries.contains_key(&it)) {
            if self.schedule.schedule_lost(name, now) {
                self.changes.counts.asked_after_loss += 1
            } else {
                self.changes.counts.losses_dropped += 1
            }
        }
    }

    /// The next name to look up, if one is due.
    pub fn next_due(&mut self, now: Timestamp) -> Option<Request> {
        let next = self.schedule.pop(now)?;
        let name = next.name;
        let rule_names = once(name.clone()).chain(name.wildcard());
        let known = rule_names
            .filter_map(|it| Some(self.entries.get(&it)?.list().addresses_of(&name)))
            .max();
        Some(Request {
            name,
            known: known.unwrap_or(0),
            due: next.due,
            is_patient: next.is_patient,
        })
    }

    /// When a name is looked up next, if that is known.
    pub fn due(&self, name: &DnsName) -> Option<Timestamp> {
        self.schedule.due(name)
    }

    /// Look-ups of the name in a row that found no address.
    pub fn fruitless_lookups(&self, name: &DnsName) -> u32 {
        self.schedule.fruitless(name)
    }

    /// The number of names that wait for a look-up or are being looked up.
    pub fn scheduled(&self) -> usize {
        self.schedule.count()
    }
}

/// The addresses of the answer that no name of the entry has.
fn new_addresses(entry: &Entry, answer: &Observation) -> Option<Added> {
    let list = entry.list();
    // Most addresses are known, and the first search is fast.
    let is_new = |ip: &IpAddr| !list.has(&answer.name, ip) && !list.has_address(*ip);
    let addresses = answer.addresses.iter().map(|(ip, _)| *ip);
    let addresses: Vec<IpAddr> = addresses.filter(is_new).collect();
    (!addresses.is_empty()).then(|| Added {
        rule_name: list.rule_name().clone(),
        name: answer.name.clone(),
        addresses,
        server_time: answer.server_time,
        read_at: answer.at,
        source: answer.source,
    })
}
