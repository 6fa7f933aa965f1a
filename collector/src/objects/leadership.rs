//! Whether this collector leads, and whether it hears all that it needs to remove addresses.

use std::time::Duration;

use runtime::{clock::Timestamp, leader::LEASE_DURATION};
use tracing::info;

use super::names::NameTable;
use crate::hearing::Hearing;

/// While a DNS server is not heard that was heard before, nothing is removed for so long.
const MAX_GAP: Duration = Duration::from_secs(600);

/// The lead, and how well the DNS servers are heard.
#[derive(Debug, Default)]
pub(crate) struct Leadership {
    /// Whether this collector looks names up, removes addresses, and makes and deletes objects.
    leads: bool,
    leads_since: Timestamp,
    hearing: Hearing,
    /// Since when a DNS server that was heard is not, and nothing is removed; for [`MAX_GAP`] at most.
    gap_since: Option<Timestamp>,
    /// When names were last taken to be in use, as a DNS server was not heard.
    not_idle_at: Timestamp,
    /// Another program removes addresses by the times of statuses.
    foreign_gc_detected: bool,
}

impl Leadership {
    pub(crate) fn leads(&self) -> bool {
        self.leads
    }

    /// Leads from now on, or no longer. Returns whether that is new.
    pub(crate) fn set(&mut self, leads: bool, now: Timestamp) -> bool {
        if leads == self.leads {
            return false;
        }
        info!(leader = leads, "leadership");
        (self.leads, self.leads_since) = (leads, now);
        true
    }

    /// Whether this collector leads, and has done so for at least so long.
    pub(super) fn leads_for(&self, time: Duration, now: Timestamp) -> bool {
        self.leads && self.leads_since + time <= now
    }

    /// Whether addresses are removed whose time is over.
    pub(crate) fn removes(&self) -> bool {
        self.leads && self.gap_since.is_none()
    }

    /// Which DNS servers are heard from now on.
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

    /// Looks whether a DNS server has not been heard for long enough.
    pub(crate) fn tick(&mut self, names: &mut NameTable, now: Timestamp) {
        if self.gap_since.is_some_and(|since| since + MAX_GAP <= now) {
            self.end_gap(names, now);
        }
        let is_due = self.not_idle_at + names.limits.wildcard_idle / 8 <= now;
        if self.hearing.is_missing && is_due {
            self.not_idle(names, now);
        }
    }

    /// Answers may have been missed until now.
    fn end_gap(&mut self, names: &mut NameTable, now: Timestamp) {
        self.gap_since = None;
        names.hold(now);
        // Nothing was to be removed meanwhile: when it is has to be found out again.
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

    /// Whether another program may be found out that removes addresses by the times of statuses. Until a lease is over, the last writes of
    /// the collector that led before may still come.
    pub(super) fn looks_for_foreign_gc(&self, now: Timestamp) -> bool {
        !self.foreign_gc_detected && self.leads_for(LEASE_DURATION, now)
    }

    /// Another program removes addresses by the times of statuses.
    pub(crate) fn detect_foreign_gc(&mut self) {
        self.foreign_gc_detected = true;
    }

    pub(crate) fn is_foreign_gc_detected(&self) -> bool {
        self.foreign_gc_detected
    }
}
