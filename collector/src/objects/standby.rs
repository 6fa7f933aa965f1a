//! When a standby writes: an address of an answer to a client is missing, and the leader has not
//! written it in time.
//!
//! A standby receives the same answers as the leader. It writes addresses that the leader missed,
//! because that one is dead, cut off, or does not receive a DNS server. It never writes an address
//! from its cache alone. The leader knows more and may omit an address, for a limit, a guard or the
//! budget. So a standby does not add an address again for an hour after the leader removed it.

use std::time::Duration;

use runtime::clock::Timestamp;

/// How long the leader has to write an address.
const WAIT: Duration = Duration::from_secs(2);

/// Each standby waits for a random part of this longer, so that two do not write at once.
pub(crate) const SPREAD: Duration = Duration::from_millis(100);

/// An address that comes within this time may come from another standby. If that one ends, this one
/// must not be later.
const BY_STANDBY: Duration = Duration::from_millis(2_500);

/// While statuses come late, standbys wait longer, one after another, up to this time.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// How long a late status counts, unless one comes in time.
const LATE_FOR: Duration = Duration::from_secs(60);

/// The most writes of a standby in flight before it knows that statuses come late.
const MOST_AT_ONCE: usize = 8;

/// Tracks how late statuses come, so that not all standbys write the same to a slow API server.
#[derive(Debug)]
pub(crate) struct Standby {
    pub(crate) spread: Duration,
    /// The number of collectors that write before this one while statuses come late.
    rank: u32,
    latest: Duration,
    latest_at: Timestamp,
    /// No write begins before this time, after a failed one.
    pub(crate) not_before: Timestamp,
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

    /// Sets the number of collectors that come before this one.
    pub(crate) fn set_rank(&mut self, rank: usize) {
        self.rank = u32::try_from(rank).unwrap_or(u32::MAX / 4);
    }

    /// How long an address must be missing.
    pub(crate) fn wait(&self, now: Timestamp) -> Duration {
        let is_late = self.latest_at + LATE_FOR > now;
        let late = match is_late {
            true if self.latest < BY_STANDBY => self.latest,
            true => self.latest.saturating_mul(2 * (1 + self.rank)),
            false => WAIT,
        };
        WAIT.max(late).min(LONGEST_WAIT) + self.spread
    }

    /// The number of writes that may be in flight, of `most`. After a failed write it is one. It is
    /// small while statuses come in time, since the API server may become slow at any moment.
    pub(crate) fn at_once(&self, most: usize, now: Timestamp) -> usize {
        if self.not_before > Timestamp::default() {
            1
        } else if self.latest_at + LATE_FOR > now {
            most
        } else {
            most.min(MOST_AT_ONCE)
        }
    }

    /// A status came this late. Returns whether late statuses have ended: the leader was delayed,
    /// and the API server is fast again.
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

    /// A write failed. Other writes in flight at the same time fail too and count once.
    pub(crate) fn failed(&mut self, now: Timestamp) {
        if self.not_before <= now {
            (self.latest, self.latest_at) = (self.wait(now).max(BY_STANDBY), now);
            self.not_before = now + self.wait(now);
        }
    }
}
