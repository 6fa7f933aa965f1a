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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The times of repairs in milliseconds from the first one, if another client undoes each at once.
    fn storm(count: usize, longest: Duration) -> Vec<u128> {
        let (start, mut repairs) = (Instant::now(), DriftBackoff::default());
        let mut now = start;
        let mut made = Vec::new();
        while made.len() < count {
            match repairs.admit(now, longest) {
                Ok(()) => made.push((now - start).as_millis()),
                Err(until) => now = until,
            }
        }
        made
    }

    #[test]
    fn the_sixth_repair_in_ten_seconds_waits_and_each_next_twice_as_long() {
        let first = [0, 0, 0, 0, 0, 50, 150, 350, 750, 1550];
        let expected = [&first[..], &[2550, 3550]].concat();
        assert_eq!(storm(12, LONGEST_WAIT), expected);
    }

    #[test]
    fn a_set_that_does_not_exist_waits_for_50_ms_at_most() {
        let expected = [0, 0, 0, 0, 0, 50, 100, 150, 200];
        assert_eq!(storm(9, LONGEST_WAIT_FOR_SET), expected);
    }

    #[test]
    fn five_in_ten_seconds_do_not_wait() {
        let (mut now, mut repairs) = (Instant::now(), DriftBackoff::default());
        for _ in 0..100 {
            assert_eq!(repairs.admit(now, LONGEST_WAIT), Ok(()));
            now += WINDOW / 5;
        }
        assert_eq!(repairs.waits, 0);
    }

    #[test]
    fn a_quiet_minute_forgets_all() {
        let (mut now, mut repairs) = (Instant::now(), DriftBackoff::default());
        while repairs.waits < 10 {
            now = repairs.admit(now, LONGEST_WAIT).err().unwrap_or(now);
        }
        assert!(repairs.admit(now, LONGEST_WAIT).is_err());
        let last = *repairs.latest.back().unwrap();
        assert!(!repairs.is_quiet(last + QUIET - Duration::from_millis(1)));
        assert!(repairs.is_quiet(last + QUIET));
        for _ in 0..AT_ONCE {
            assert_eq!(repairs.admit(last + QUIET, LONGEST_WAIT), Ok(()));
        }
    }

    proptest! {
        #[test]
        fn nothing_waits_for_more_than_a_second(
            pauses in prop::collection::vec(0..3000_u64, 1..100),
        ) {
            let (mut now, mut repairs) = (Instant::now(), DriftBackoff::default());
            for pause in pauses {
                now += Duration::from_millis(pause);
                if let Err(until) = repairs.admit(now, LONGEST_WAIT) {
                    prop_assert!(until > now && until <= now + Duration::from_secs(1));
                    now = until;
                    prop_assert_eq!(repairs.admit(now, LONGEST_WAIT), Ok(()));
                }
            }
        }
    }
}
