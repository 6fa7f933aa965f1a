//! When a collector writes that does not lead: what a client was told and the leader has not written in time.
//!
//! A standby hears the same answers as the leader. It writes what the leader missed (it is dead, cut off, or does not hear a DNS
//! server), and never anything that it only remembers. The leader knows more and may leave an address out, for a limit, a guard
//! or a budget: what the leader takes out again a standby does not add for an hour.

use std::time::Duration;

use runtime::clock::Timestamp;

/// How long the leader has to write an address.
const WAIT: Duration = Duration::from_secs(2);

/// Each standby waits for a part of this longer, so that two do not write at once.
pub(crate) const SPREAD: Duration = Duration::from_millis(100);

/// An address that comes within this time may be the work of another standby. If that one ends, this one shall not be later.
const BY_STANDBY: Duration = Duration::from_millis(2_500);

/// While statuses come late each standby waits for longer, one after another, but no longer than this.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// For how long a late status counts, unless one comes in time.
const LATE_FOR: Duration = Duration::from_secs(60);

/// As many writes of a standby are under way at most before it knows that statuses come late.
const MOST_AT_ONCE: usize = 8;

/// How late statuses are, so that a slow API server is not asked for the same by all.
#[derive(Debug)]
pub(crate) struct Standby {
    pub(crate) spread: Duration,
    /// How many collectors write before this one while statuses come late.
    rank: u32,
    latest: Duration,
    latest_at: Timestamp,
    /// After a write that failed nothing is written before then.
    not_before: Timestamp,
}

impl Default for Standby {
    fn default() -> Self {
        Self {
            spread: SPREAD.mul_f64(fastrand::f64()),
            rank: 0,
            latest: Duration::ZERO,
            latest_at: Timestamp::default(),
            not_before: Timestamp::default(),
        }
    }
}

impl Standby {
    /// Statuses come in time, or the clock was set.
    pub(crate) fn reset(&mut self) {
        *self = Self {
            spread: self.spread,
            rank: self.rank,
            ..Self::default()
        };
    }

    /// How many of the other collectors come before this one.
    pub(crate) fn set_rank(&mut self, rank: usize) {
        self.rank = u32::try_from(rank).unwrap_or(u32::MAX / 4);
    }

    /// Nothing is written before then.
    pub(crate) fn not_before(&self) -> Timestamp {
        self.not_before
    }

    /// For how long an address must be missing.
    pub(crate) fn wait(&self, now: Timestamp) -> Duration {
        let is_late = self.latest_at + LATE_FOR > now;
        let late = match is_late {
            true if self.latest < BY_STANDBY => self.latest,
            true => self.latest.saturating_mul(2 * (1 + self.rank)),
            false => WAIT,
        };
        WAIT.max(late).min(LONGEST_WAIT) + self.spread
    }

    /// How many writes may be under way, of so many: after one that failed no more than one, and few as long as statuses came in time, for
    /// an API server may have become slow since.
    pub(crate) fn at_once(&self, most: usize, now: Timestamp) -> usize {
        if self.not_before > Timestamp::default() {
            1
        } else if self.latest_at + LATE_FOR > now {
            most
        } else {
            most.min(MOST_AT_ONCE)
        }
    }

    /// A status came so late. Returns whether that ends a time of late ones: a leader that was held up wrote late, and the API server is
    /// quick.
    pub(crate) fn came_after(&mut self, late: Duration, now: Timestamp) -> bool {
        if late <= WAIT {
            let were_late = self.latest > WAIT;
            self.reset();
            return were_late;
        }
        if late >= self.latest || self.latest_at + LATE_FOR <= now {
            (self.latest, self.latest_at) = (late, now);
        }
        false
    }

    /// A write failed. Others that were under way with it say the same.
    pub(crate) fn failed(&mut self, now: Timestamp) {
        if self.not_before <= now {
            (self.latest, self.latest_at) = (self.wait(now).max(BY_STANDBY), now);
            self.not_before = now + self.wait(now);
        }
    }
}
