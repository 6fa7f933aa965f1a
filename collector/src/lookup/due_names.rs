//! The order of due names: names with addresses by time, the others in turns of their namespaces.

use std::collections::BTreeSet;

use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::round_robin::{Group, RoundRobin};
use crate::clients::Namespace;

/// While names of both kinds are due, one in this many is a new name. New names must not delay
/// refreshes: an address that is not refreshed expires.
const NEW_IN: u32 = 4;

/// New names are looked up one per so many microseconds, 2,500 a second. Names looked up together
/// expire together, and the jitter is only one second. Without this limit, ten thousand names would
/// all be due again faster than one core can look them up. The store takes longer to create so many
/// objects anyway.
pub(super) const NEW_INTERVAL: i64 = 400;

/// After a pause, new names may be this many microseconds ahead of the rate: fifty at once.
pub(super) const NEW_BURST: i64 = 49 * NEW_INTERVAL;

#[derive(Debug, Default)]
pub(super) struct DueNames {
    /// Names with addresses.
    known: BTreeSet<(Timestamp, DnsName)>,
    /// Names without a known address.
    unknown: RoundRobin,
    /// When the next new name may be taken, in microseconds since the Unix epoch.
    next_new: i64,
    /// Names taken while both kinds were due.
    taken: u32,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct QueuePosition {
    /// The group of a name without a known address.
    pub(super) unknown: Option<Group>,
    pub(super) due: Timestamp,
    /// The time that the rate of its wildcard allows, if that is later than `due`.
    pub(super) turn: Timestamp,
}

impl QueuePosition {
    pub(super) fn at(self) -> Timestamp {
        self.turn.max(self.due)
    }
}

impl DueNames {
    /// The namespace with the fewest new names.
    pub(super) fn least(&self, namespaces: &[Namespace]) -> Group {
        self.unknown.least(namespaces)
    }

    pub(super) fn insert(&mut self, position: QueuePosition, name: DnsName) {
        match position.unknown {
            Some(group) => self.unknown.insert(position.at(), name, group),
            None => drop(self.known.insert((position.at(), name))),
        }
    }

    pub(super) fn remove(&mut self, position: QueuePosition, name: &DnsName) {
        match position.unknown {
            Some(group) => self.unknown.remove(position.at(), name, group),
            None => drop(self.known.remove(&(position.at(), name.clone()))),
        }
    }

    /// Takes the next name, and whether it is a new one.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<(DnsName, bool)> {
        let is_due = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
        loop {
            let is_unknown = match (is_due(self.next_known()), is_due(self.next_unknown())) {
                (false, false) => return None,
                (true, true) => {
                    self.taken = self.taken.wrapping_add(1);
                    self.taken.is_multiple_of(NEW_IN)
                }
                (_, is_unknown) => is_unknown,
            };
            if !is_unknown {
                return Some((self.known.pop_first()?.1, false));
            }
            // The known names that were due are taken already.
            if let Some((name, _)) = self.unknown.pop(now) {
                return Some((name, true));
            }
        }
    }

    /// Delays the next new name by the interval.
    pub(super) fn count_new(&mut self, now: Timestamp) {
        let now = now.as_millis().saturating_mul(1000);
        self.next_new = self.next_new.max(now - NEW_BURST) + NEW_INTERVAL;
    }

    /// The earliest time at which [`DueNames::pop`] may return a name.
    pub(super) fn next(&self) -> Option<Timestamp> {
        let next = self.next_known().into_iter().chain(self.next_unknown());
        next.min()
    }

    fn next_known(&self) -> Option<Timestamp> {
        self.known.first().map(|(at, _)| *at)
    }

    fn next_unknown(&self) -> Option<Timestamp> {
        // Rounded up: an earlier call would return nothing.
        let let_at = Timestamp::from_millis(self.next_new.saturating_add(999).div_euclid(1000));
        self.unknown.first().map(|at| let_at.max(at))
    }
}
