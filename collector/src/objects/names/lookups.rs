//! Schedules the look-ups of names, and applies their results.

use std::{iter::once, time::Duration};

use metrics::counter;
use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::NameTable;
use crate::{
    lookup::{FamilyOutcome, GapBackfill, LookupResult, NextLookup, Request},
    state::{FamilyResult, LookupSummary},
};

impl From<&FamilyOutcome> for FamilyResult {
    fn from(outcome: &FamilyOutcome) -> Self {
        match outcome {
            FamilyOutcome::Addresses { complete: true, .. } => Self::Complete,
            outcome if outcome.is_absence() => Self::Absent,
            _ => Self::Unknown,
        }
    }
}

impl NameTable {
    /// Sets when the name is looked up: when its first address expires. A name in use is due at
    /// once if it has no address, or only retained ones that a look-up no longer returned. Then it
    /// has the interval of failed look-ups.
    pub(crate) fn reschedule(&mut self, name: &DnsName) {
        let mut at: Option<Timestamp> = None;
        let mut grace = Duration::MAX;
        let mut is_unknown = false;
        if self.lookups.is_active {
            for spec in once(name.clone()).chain(name.wildcard()) {
                let Some(entry) = self.entries.get(&spec).filter(|it| !it.left_out) else {
                    continue;
                };
                let next = entry.memory.list().next_lookup(name, &entry.in_use.limits);
                is_unknown |= spec == *name && next.is_none();
                at = at.into_iter().chain(next).min();
                grace = grace.min(entry.in_use.limits.grace);
            }
        }
        let next = match at {
            _ if is_unknown => NextLookup::Initial,
            Some(at) => NextLookup::Refresh { at, grace },
            None => NextLookup::Never {
                is_forgotten: !self.entries.contains_key(name),
            },
        };
        self.lookups.reschedule(name, next);
    }

    /// The next name to look up, if one is due.
    pub(crate) fn next_request(&mut self, now: Timestamp) -> Option<Request> {
        let next = self.lookups.pop(now)?;
        let name = next.name;
        let known = once(name.clone())
            .chain(name.wildcard())
            .filter_map(|spec| Some(self.entries.get(&spec)?.memory.list().addresses_of(&name)))
            .max();
        Some(Request {
            name,
            known: known.unwrap_or(0),
            over_tcp: next.over_tcp,
            due: next.due,
            is_patient: next.is_patient,
        })
    }

    /// Applies a look-up after its answers were observed. Failures count only for a collector that
    /// `leads`.
    pub(crate) fn looked_up(&mut self, round: &LookupResult, leads: bool, now: Timestamp) {
        let outcomes = [&round.v4, &round.v6];
        let fruitful = outcomes.iter().any(|outcome| outcome.has_addresses());
        let summary = LookupSummary {
            results: [FamilyResult::from(&round.v4), FamilyResult::from(&round.v6)],
            failure: round.failed(),
            // The clock may have been set back meanwhile.
            started: round.started.min(now),
        };
        for spec in once(round.name.clone()).chain(round.name.wildcard()) {
            let Some(entry) = self.entries.get_mut(&spec) else {
                continue;
            };
            if !leads || entry.left_out {
                continue;
            }
            // Addresses that waited for a look-up may leave now, whatever its result.
            self.dirty.insert(spec.clone());
            let (memory, limits) = (&mut entry.memory, &entry.in_use.limits);
            let learned = memory.looked_up(&round.name, summary, now, limits);
            self.learned(&spec, &learned, now);
        }
        let is_unresponsive = round.is_unresponsive;
        self.lookups
            .done(&round.name, fruitful, is_unresponsive, now);
        self.reschedule(&round.name);
        let is_whole =
            |outcome: &FamilyOutcome| FamilyResult::from(outcome) == FamilyResult::Complete;
        if outcomes
            .into_iter()
            .any(|it| it.has_addresses() && !is_whole(it))
        {
            self.ask_over_tcp(&round.name, now);
        }
    }

    /// There may be more addresses than the datagram had.
    pub(super) fn ask_over_tcp(&mut self, name: &DnsName, now: Timestamp) {
        if self.lookups.is_active {
            self.lookups.ask(name, now);
            self.lookups.use_tcp(name);
        }
    }

    /// The answer for a name was lost: looks it up again, if it is wanted.
    pub(crate) fn ask_lost(&mut self, name: &DnsName, now: Timestamp) {
        let mut specs = once(name.clone()).chain(name.wildcard());
        if self.lookups.is_active && specs.any(|it| self.entries.contains_key(&it)) {
            match self.lookups.ask_lost(name, now) {
                true => counter!("egress_collector_lookups_repeated_total", "reason" => "lost"),
                false => counter!("egress_collector_lost_names_dropped_total"),
            }
            .increment(1);
        }
    }

    /// Looks up every name in use again.
    pub(crate) fn backfill(&mut self, backfill: &mut GapBackfill, now: Timestamp) {
        let wanted = self.entries.values().filter(|entry| entry.is_wanted());
        let names = wanted.flat_map(|entry| {
            let list = entry.memory.list();
            list.names().chain(once(list.spec()))
        });
        backfill.begin(names, &mut self.lookups, now);
    }
}
