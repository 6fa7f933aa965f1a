//! Decides when to undo another client's change of a set: at once, unless it happens repeatedly.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// This many repairs of a set in [`WINDOW`] are made at once.
const AT_ONCE: usize = 5;

/// See [`AT_ONCE`].
const WINDOW: Duration = Duration::from_secs(10);

/// The first wait; each repair doubles it.
const FIRST_WAIT: Duration = Duration::from_millis(50);

/// The longest wait. A missing address cuts pods off; a surplus one lets traffic through.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The longest wait for a missing set: the rules that refer to it have no effect at all.
pub(super) const LONGEST_WAIT_FOR_SET: Duration = FIRST_WAIT;

/// After this time without a repair the history is dropped.
pub(super) const QUIET: Duration = Duration::from_secs(60);

/// The repairs of one set.
#[derive(Clone, Debug, Default)]
pub(super) struct DriftBackoff {
    /// The latest ones, at most [`AT_ONCE`].
    latest: VecDeque<Instant>,
    /// The number of waits so far.
    waits: u32,
}

impl DriftBackoff {
    /// Admits a repair, if it may be made now. The wait is at most `longest`.
    ///
    /// # Errors
    /// The time from which it may be made.
    pub(super) fn admit(&mut self, now: Instant, longest: Duration) -> Result<(), Instant> {
        if self.is_quiet(now) {
            *self = Self::default();
        }
        let within = |repair: &Instant| now.saturating_duration_since(*repair) < WINDOW;
        let recent = self.latest.iter().filter(|repair| within(repair)).count();
        if let Some(last) = self.latest.back()
            && (self.waits > 0 || recent >= AT_ONCE)
        {
            let wait = FIRST_WAIT.saturating_mul(1 << self.waits.min(10));
            let until = *last + wait.min(longest);
            if now < until {
                return Err(until);
            }
            self.waits = self.waits.saturating_add(1);
        }
        if self.latest.len() >= AT_ONCE {
            self.latest.pop_front();
        }
        self.latest.push_back(now);
        Ok(())
    }

    /// Whether the history can be dropped.
    pub(super) fn is_quiet(&self, now: Instant) -> bool {
        let last = self.latest.back();
        last.is_none_or(|last| now.saturating_duration_since(*last) >= QUIET)
    }
}
