//! Names in the order in which they are looked up: those that are known by time, the others in turns of their namespaces.

use std::collections::BTreeSet;

use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::round_robin::{Group, RoundRobin};
use crate::clients::Namespace;

/// While many names are due, one in so many is a name of which nothing is known. Those that are known must be asked again
/// before anything new is seen of them, however many new ones there are.
const NEW_IN: u32 = 4;

/// Names of which nothing is known are looked up one in so many microseconds, 2,500 in a second. What is looked up together
/// expires together, and the jitter is only a second: ten thousand names at full speed would be due again at a rate that no
/// core keeps up with. A store takes longer to make so many objects anyway.
pub(super) const NEW_INTERVAL: i64 = 400;

/// After a pause they may be so many microseconds ahead of that: fifty at once.
pub(super) const NEW_BURST: i64 = 49 * NEW_INTERVAL;

/// Names that wait to be looked up.
#[derive(Debug, Default)]
pub(super) struct DueNames {
    /// Names with addresses.
    known: BTreeSet<(Timestamp, DnsName)>,
    /// Names of which no address is known.
    unknown: RoundRobin,
    /// When the next of them may be taken, in microseconds since the Unix epoch.
    next_new: i64,
    /// How many were taken while names of both kinds were due.
    taken: u32,
}

/// Where a name stands among them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct QueuePosition {
    /// Nothing is known of it, and it has its turn with this namespace's.
    pub(super) unknown: Option<Group>,
    pub(super) due: Timestamp,
    /// When its wildcard's rate lets it, if that is later.
    pub(super) turn: Timestamp,
}

impl QueuePosition {
    pub(super) fn at(self) -> Timestamp {
        self.turn.max(self.due)
    }
}

impl DueNames {
    /// Of these namespaces the one that has fewest names of which nothing is known.
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

    /// Takes the name whose turn it is, with whether nothing is known of it.
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
            // Otherwise those that were due were taken out.
            if let Some((name, _)) = self.unknown.pop(now) {
                return Some((name, true));
            }
        }
    }

    /// A name of which nothing is known is looked up now: the next one has to wait.
    pub(super) fn count_new(&mut self, now: Timestamp) {
        let now = now.as_millis().saturating_mul(1000);
        self.next_new = self.next_new.max(now - NEW_BURST) + NEW_INTERVAL;
    }

    /// When [`DueNames::pop`] has something, or may have.
    pub(super) fn next(&self) -> Option<Timestamp> {
        let next = self.next_known().into_iter().chain(self.next_unknown());
        next.min()
    }

    fn next_known(&self) -> Option<Timestamp> {
        self.known.first().map(|(at, _)| *at)
    }

    fn next_unknown(&self) -> Option<Timestamp> {
        // Rounded up: before that it is too early.
        let let_at = Timestamp::from_millis(self.next_new.saturating_add(999).div_euclid(1000));
        self.unknown.first().map(|at| let_at.max(at))
    }

    /// Nothing waits any more.
    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.unknown.clear();
        self.next_new = 0;
    }
}
