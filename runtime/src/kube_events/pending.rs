//! The pending reports: when a state changes, and repeatedly while it lasts.

use std::{collections::BTreeSet, mem, time::Duration};

use tokio::time::Instant;

/// How often a lasting state is reported again, since the API server deletes Events after an hour.
pub const AGAIN: Duration = Duration::from_secs(30 * 60);

/// The wait after a report that was not taken.
pub const BUSY: Duration = Duration::from_secs(1);

/// The keys of the pending reports.
#[derive(Debug)]
pub struct PendingReports<K> {
    keys: BTreeSet<K>,
    /// The last key whose reports were all taken. The keys behind it come next, so that each gets its turn.
    last: Option<K>,
    /// The earliest time of the next attempt, since not all reports were taken.
    retry_at: Instant,
    again: Instant,
}

impl<K: Ord> Default for PendingReports<K> {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            keys: BTreeSet::new(),
            last: None,
            retry_at: now,
            again: now + AGAIN,
        }
    }
}

impl<K: Ord> PendingReports<K> {
    /// Marks these keys as changed.
    pub fn extend(&mut self, keys: impl IntoIterator<Item = K>) {
        self.keys.extend(keys);
    }

    /// When to report next.
    pub fn due(&self) -> Instant {
        match self.keys.is_empty() {
            true => self.again,
            false => self.retry_at,
        }
    }

    /// Reports the pending keys, and from time to time all lasting ones. `report` returns whether all reports of a key
    /// were taken; otherwise the key is retried after [`BUSY`].
    pub fn report<I: IntoIterator<Item = K>>(
        &mut self,
        lasting: impl FnOnce() -> I,
        mut report: impl FnMut(&K) -> bool,
    ) {
        let now = Instant::now();
        if self.again <= now {
            self.again = now + AGAIN;
            self.keys.extend(lasting());
        }
        let last = self.last.take();
        let behind = last.as_ref().map(|last| self.keys.split_off(last));
        let before = mem::take(&mut self.keys);
        self.last = last;
        for key in behind.into_iter().flatten().chain(before) {
            if report(&key) {
                self.last = Some(key);
            } else {
                self.keys.insert(key);
                self.retry_at = now + BUSY;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::iter::empty;

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_that_is_not_taken_holds_up_no_other_and_is_reported_again() {
        let mut pending = PendingReports::default();
        pending.extend([1, 2, 3]);
        assert_eq!(pending.due(), Instant::now());
        let mut seen = Vec::new();
        pending.report(empty, |key| {
            seen.push(*key);
            *key != 1
        });
        assert_eq!(seen, [1, 2, 3]);
        assert_eq!(pending.due(), Instant::now() + BUSY);
        pending.report(empty, |key| *key == 1);
        assert!(pending.due() > Instant::now() + BUSY);
    }

    #[tokio::test(start_paused = true)]
    async fn where_few_are_taken_each_has_its_turn() {
        let mut pending = PendingReports::default();
        let mut taken = Vec::new();
        for _ in 0..5 {
            // Keys that were taken come again at once.
            pending.extend(0..5);
            let mut room = 1;
            pending.report(empty, |key| {
                let is_taken = room > 0 && taken.last() != Some(key);
                if is_taken {
                    room -= 1;
                    taken.push(*key);
                }
                is_taken
            });
        }
        assert_eq!(taken, [0, 1, 2, 3, 4]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_lasts_is_reported_every_half_hour() {
        let mut pending = PendingReports::default();
        let mut reported = Vec::new();
        for _ in 0..3 {
            pending.report(
                || [7],
                |key| {
                    reported.push(*key);
                    true
                },
            );
            assert_eq!(pending.due(), Instant::now() + AGAIN);
            advance(AGAIN).await;
        }
        assert_eq!(reported, [7, 7]);
    }
}
