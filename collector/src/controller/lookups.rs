//! Our own look-ups: when a name is due, and what its answers and failures change.

use std::{collections::BTreeSet, iter::once, time::Duration};

use proto::api::DnsName;
use runtime::clock::Timestamp;
use smallvec::SmallVec;

use super::StatusController;
use crate::{
    clients::Namespace,
    event_history::EventKind,
    lookup::{FamilyOutcome, LookupResult, Request},
    observation::Provenance,
    state::{FamilyResult, LookupSummary},
};

/// A look-up has its turn with those of so many namespaces that use the name.
const MOST_NAMESPACES: usize = 4;

impl From<&FamilyOutcome> for FamilyResult {
    fn from(outcome: &FamilyOutcome) -> Self {
        match outcome {
            FamilyOutcome::Addresses { complete: true, .. } => Self::Complete,
            outcome if outcome.is_absence() => Self::Absent,
            _ => Self::Unknown,
        }
    }
}

impl StatusController {
    /// Time went by in which nothing could be resolved, or the wall clock was set: what was asked before does not count, and
    /// whatever was put off is looked at now.
    pub fn gap(&mut self, now: Timestamp) {
        for entry in self.entries.values_mut() {
            entry.gap(now);
        }
        self.shares_gap(now);
        self.budget.gap();
        let was_asking = self.schedule.gap(now);
        self.repairs.gap(now, was_asking);
        self.paused_until = None;
        self.absences.restart(now);
        self.standby.reset();
        self.gap_since = self.gap_since.map(|since| since.min(now));
        self.not_idle_at = self.not_idle_at.min(now);
        let names: BTreeSet<DnsName> = self
            .entries
            .iter()
            .flat_map(|(spec, entry)| once(spec).chain(entry.memory.names()))
            .cloned()
            .collect();
        for name in names {
            self.reschedule(&name);
        }
        self.dirty.extend(self.entries.keys().cloned());
    }

    /// Whether a name is to be looked up. One that is newly wanted counts as due from this call on.
    pub fn lookup_is_due(&mut self, now: Timestamp) -> bool {
        self.schedule.is_due(now)
    }

    /// When [`StatusController::tick`] has something to do.
    pub(super) fn next_tick(&self) -> Option<Timestamp> {
        self.wakes.first().map(|(at, _)| *at)
    }

    /// The next name to look up, if one is due.
    pub fn next_request(&mut self, now: Timestamp) -> Option<Request> {
        let entries = &self.entries;
        let found_by = |name: &DnsName| name.wildcard().filter(|_| !entries.contains_key(name));
        let (name, due) = self.schedule.pop(now, found_by)?;
        let known = once(name.clone())
            .chain(name.wildcard())
            .filter_map(|spec| Some(self.entries.get(&spec)?.memory.addresses_of(&name)))
            .max();
        let namespaces = self.with_rule(&name).iter().copied();
        let namespaces = namespaces.take(MOST_NAMESPACES).collect();
        Some(Request {
            namespaces,
            over_tcp: self.schedule.takes_tcp(&name),
            name,
            known: known.unwrap_or(0),
            due,
        })
    }

    /// The namespaces that have the name in a rule, or else its wildcard.
    fn with_rule(&self, name: &DnsName) -> &[Namespace] {
        let specs = once(name.clone()).chain(name.wildcard());
        let mut entries = specs.filter_map(|spec| self.entries.get(&spec));
        let entry = entries.find(|entry| !entry.with_rule.is_empty());
        entry.map_or(&[], |entry| &entry.with_rule)
    }

    /// Takes in what a look-up of a name in both families gave. Failures count only for who leads.
    pub fn round(&mut self, round: &LookupResult, now: Timestamp) {
        self.beside(round, now);
        let outcomes = [&round.v4, &round.v6];
        let has_addresses =
            |outcome: &&FamilyOutcome| matches!(outcome, FamilyOutcome::Addresses { .. });
        let fruitful = outcomes.iter().any(has_addresses);
        if !fruitful {
            let what = round
                .worst()
                .map_or(EventKind::NoAddress, EventKind::LookupFailed);
            self.note(round.name.clone(), None, what, Provenance::LOOKUP, now);
        }
        let summary = LookupSummary {
            results: [FamilyResult::from(&round.v4), FamilyResult::from(&round.v6)],
            failure: round.failed(),
            // The clock may have been set back meanwhile.
            started: round.started.min(now),
        };
        for spec in once(round.name.clone()).chain(round.name.wildcard()) {
            let is_kept = |entry: &&mut Box<super::Entry>| self.leader && !entry.left_out;
            let Some(entry) = self.entries.get_mut(&spec).filter(is_kept) else {
                continue;
            };
            // Whatever it gave, addresses that waited to be asked for may go now.
            self.dirty.insert(spec.clone());
            let (memory, limits) = (&mut entry.memory, &entry.limits);
            let learned = memory.looked_up(&round.name, summary, now, limits);
            self.learned(&spec, learned, now);
        }
        self.schedule.done(&round.name, fruitful, now);
        self.reschedule(&round.name);
        let cut_off = |outcome: &FamilyOutcome| {
            matches!(
                outcome,
                FamilyOutcome::Addresses {
                    complete: false,
                    ..
                }
            )
        };
        if outcomes.into_iter().any(cut_off) && self.looks_up() {
            self.schedule.hurry(&round.name, now);
            self.schedule.use_tcp(&round.name);
        }
    }

    /// Takes in what servers said that are asked beside the others: addresses, and nothing else.
    pub fn beside(&mut self, round: &LookupResult, now: Timestamp) {
        if self.schedule.is_discarded(&round.name) {
            return;
        }
        for mut observation in round.observations() {
            observation.at = observation.at.min(now);
            self.observe(&observation);
        }
    }

    /// Whether this collector looks names up.
    pub(super) fn looks_up(&self) -> bool {
        self.leader && self.config.limits.lookups
    }

    /// Sets when the name is looked up: when its first address expires. A name in use without any, or with none but those
    /// that a look-up no longer gave and that are only retained, is looked up at once, and as often as one that gives none.
    pub(super) fn reschedule(&mut self, name: &DnsName) {
        let mut at: Option<Timestamp> = None;
        let mut grace = Duration::MAX;
        let mut unknown = false;
        if self.looks_up() {
            for spec in once(name.clone()).chain(name.wildcard()) {
                let Some(entry) = self.entries.get(&spec).filter(|it| !it.left_out) else {
                    continue;
                };
                let next = entry.memory.next_lookup(name, &entry.limits);
                unknown |= spec == *name && next.is_none();
                at = at.into_iter().chain(next).min();
                grace = grace.min(entry.limits.grace);
            }
        }
        match at {
            _ if unknown => {
                let namespaces = SmallVec::<[Namespace; MOST_NAMESPACES]>::from_iter(
                    self.with_rule(name).iter().copied().take(MOST_NAMESPACES),
                );
                self.schedule.enqueue_initial_lookup(name, &namespaces);
            }
            Some(at) => self.schedule.set(name, at, grace),
            None => self.schedule.unset(name, !self.entries.contains_key(name)),
        }
    }
}
