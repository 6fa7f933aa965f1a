//! Whether this collector leads, and whether it receives all DNS servers that it needs to remove
//! addresses.

use std::time::Duration;

use runtime::{clock::Timestamp, leader::LEASE_DURATION};
use tracing::info;

use super::names::NameTable;
use crate::hearing::Hearing;

/// The longest time for which a missing DNS server stops removals.
const MAX_GAP: Duration = Duration::from_secs(600);

/// The lead, and the reception of the DNS servers.
#[derive(Debug, Default)]
pub(crate) struct Leadership {
    /// Whether this collector looks names up, removes addresses, and creates and deletes objects.
    leads: bool,
    leads_since: Timestamp,
    hearing: Hearing,
    /// Since when a DNS server that was received is not. No address is removed then, for
    /// [`MAX_GAP`] at most.
    gap_since: Option<Timestamp>,
    /// The last time when all names were marked as in use because a DNS server was missing.
    not_idle_at: Timestamp,
    /// Another program removes addresses by the stored times.
    pub(crate) foreign_gc_detected: bool,
}

impl Leadership {
    pub(crate) fn leads(&self) -> bool {
        self.leads
    }

    /// Sets whether this collector leads. Returns whether that changed.
    pub(crate) fn set(&mut self, leads: bool, now: Timestamp) -> bool {
        if leads == self.leads {
            return false;
        }
        info!(leader = leads, "leadership");
        (self.leads, self.leads_since) = (leads, now);
        true
    }

    /// Whether this collector has led for at least this time.
    pub(super) fn leads_for(&self, time: Duration, now: Timestamp) -> bool {
        self.leads && self.leads_since + time <= now
    }

    /// Whether expired addresses are removed.
    pub(crate) fn removes(&self) -> bool {
        self.leads && self.gap_since.is_none()
    }

    /// Sets which DNS servers are received.
    pub(crate) fn hear(&mut self, hearing: Hearing, names: &mut NameTable, now: Timestamp) {
        let before = std::mem::replace(&mut self.hearing, hearing);
        match (hearing.is_broken, self.gap_since) {
            (true, None) => self.gap_since = Some(now),
            (false, Some(_)) => self.end_gap(names, now),
            _ => {}
        }
        if before.is_missing != hearing.is_missing {
            self.not_idle(names, now);
        }
    }

    /// Ends the gap if a DNS server has been missing for too long.
    pub(crate) fn tick(&mut self, names: &mut NameTable, now: Timestamp) {
        if self.gap_since.is_some_and(|since| since + MAX_GAP <= now) {
            self.end_gap(names, now);
        }
        let is_due = self.not_idle_at + names.limits.wildcard_idle / 8 <= now;
        if self.hearing.is_missing && is_due {
            self.not_idle(names, now);
        }
    }

    /// Answers may have been lost until now.
    fn end_gap(&mut self, names: &mut NameTable, now: Timestamp) {
        self.gap_since = None;
        names.hold(now);
        // No removal was scheduled meanwhile, so every name is checked again.
        names.look_at_all();
    }

    fn not_idle(&mut self, names: &mut NameTable, now: Timestamp) {
        self.not_idle_at = now;
        names.not_idle(now);
    }

    /// The clock was set.
    pub(crate) fn gap(&mut self, now: Timestamp) {
        self.gap_since = self.gap_since.map(|since| since.min(now));
        self.not_idle_at = self.not_idle_at.min(now);
    }

    /// Whether to detect another program that removes addresses by the stored times. Until a lease
    /// is over, the last writes of the previous leader may still arrive.
    pub(super) fn looks_for_foreign_gc(&self, now: Timestamp) -> bool {
        !self.foreign_gc_detected && self.leads_for(LEASE_DURATION, now)
    }
}
