//! The rate of writes: bytes a second, in turns of namespaces, small writes first.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Unspent bytes accumulate for this long.
const SAVED: f64 = 10.0;

/// A write goes after it has waited for this long, whatever the budget.
pub const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The bytes that a namespace has used count half after this time.
const HALF_LIFE: f64 = 10.0;

/// A write that waits.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a, T> {
    /// The write.
    pub what: T,
    pub namespace: &'a str,
    pub bytes: usize,
    /// Since when it may go.
    pub since: Instant,
}

/// A bucket of bytes, and what each namespace has used of late.
#[derive(Debug)]
pub struct Budget {
    rate: f64,
    left: f64,
    filled: Instant,
    used: HashMap<String, f64>,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "sizes of objects are far below 2^52"
)]
fn size(bytes: usize) -> f64 {
    bytes as f64
}

impl Budget {
    /// A full bucket of `--policy-write-bytes`.
    pub fn new(rate: usize, now: Instant) -> Self {
        Self {
            rate: size(rate),
            left: size(rate) * SAVED,
            filled: now,
            used: HashMap::new(),
        }
    }

    /// The writes that may go now, at most so many, in their order. They are charged.
    pub fn admit<T>(
        &mut self,
        mut waiting: Vec<Waiting<'_, T>>,
        most: usize,
        now: Instant,
    ) -> Vec<T> {
        self.fill(now);
        waiting.sort_by(|one, other| {
            let rank = |it: &Waiting<'_, T>| {
                self.used.get(it.namespace).copied().unwrap_or(0.0) + size(it.bytes)
            };
            rank(one).total_cmp(&rank(other))
        });
        let mut admitted = Vec::new();
        for write in waiting {
            let is_overdue = now.saturating_duration_since(write.since) >= LONGEST_WAIT;
            let has_room = admitted.len() < most;
            if has_room && (is_overdue || self.left >= size(write.bytes)) {
                self.left -= size(write.bytes);
                *self.used.entry(write.namespace.to_owned()).or_default() += size(write.bytes);
                admitted.push(write.what);
            }
        }
        admitted
    }

    /// When enough bytes for such a write will be there, or it will be overdue.
    pub fn next(&self, bytes: usize, since: Instant, now: Instant) -> Instant {
        let missing = (size(bytes) - self.left).max(0.0);
        let wait = Duration::try_from_secs_f64(missing / self.rate).unwrap_or(LONGEST_WAIT);
        (now + wait.min(LONGEST_WAIT)).min((since + LONGEST_WAIT).max(now))
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.filled = now;
        self.left = (self.left + passed * self.rate).min(self.rate * SAVED);
        // Debt ends after as long as bytes are saved for.
        self.left = self.left.max(-self.rate * SAVED);
        let part = 0.5_f64.powf(passed / HALF_LIFE);
        self.used.retain(|_, used| {
            *used *= part;
            *used > 1.0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(what: u32, namespace: &str, bytes: usize, since: Instant) -> Waiting<'_, u32> {
        Waiting {
            what,
            namespace,
            bytes,
            since,
        }
    }

    #[test]
    fn small_writes_go_first_and_large_ones_wait_for_at_most_ten_seconds() {
        let start = Instant::now();
        let mut budget = Budget::new(100, start);
        let waiting = || vec![write(1, "a", 900, start), write(2, "b", 200, start)];
        assert_eq!(budget.admit(waiting(), 9, start), [2]);
        let next = budget.next(900, start, start);
        assert_eq!(next, start + Duration::from_secs(1));
        assert_eq!(budget.admit(vec![write(1, "a", 900, start)], 9, next), [1]);
        let large = vec![write(3, "a", 5_000, start)];
        assert_eq!(budget.admit(large.clone(), 9, next), [0; 0]);
        assert_eq!(budget.admit(large, 9, start + LONGEST_WAIT), [3]);
    }

    #[test]
    fn a_namespace_that_writes_much_lets_others_go_first() {
        let start = Instant::now();
        let mut budget = Budget::new(100, start);
        assert_eq!(
            budget.admit(vec![write(1, "loud", 950, start)], 9, start),
            [1]
        );
        let now = start + Duration::from_secs(1);
        let waiting = vec![write(2, "loud", 100, now), write(3, "quiet", 150, now)];
        assert_eq!(budget.admit(waiting, 9, now), [3]);
    }
}
