//! Growing pauses between attempts of one kind.

use std::time::{Duration, Instant};

/// After this time without an attempt the pauses begin anew.
const QUIET: Duration = Duration::from_secs(600);

/// How the pauses grow.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    /// How many attempts have the pause `early`.
    pub early_attempts: u32,
    pub early: Duration,
    /// The pause after that. It doubles up to `longest`.
    pub first: Duration,
    pub longest: Duration,
}

impl Pauses {
    fn after(self, attempts: u32) -> Duration {
        match attempts.checked_sub(self.early_attempts) {
            None => self.early,
            Some(doublings) => self
                .first
                .saturating_mul(1 << doublings.min(16))
                .min(self.longest),
        }
    }
}

/// Attempts in a row, and the time of the next one.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    attempts: u32,
    at: Instant,
    not_before: Instant,
}

impl Backoff {
    /// Counts an attempt after the known ones.
    pub fn again(known: Option<Self>, pauses: Pauses, now: Instant) -> Self {
        let recent = known.filter(|it| now.saturating_duration_since(it.at) < QUIET);
        let attempts = recent.map_or(0, |it| it.attempts);
        Self {
            attempts: attempts.saturating_add(1),
            at: now,
            not_before: now + pauses.after(attempts),
        }
    }

    /// The earliest time of the next attempt.
    pub fn not_before(&self) -> Instant {
        self.not_before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_longest_one_and_begin_anew_after_a_quiet_time() {
        let pauses = Pauses {
            early_attempts: 2,
            early: Duration::ZERO,
            first: Duration::from_secs(1),
            longest: Duration::from_secs(3),
        };
        let (mut known, mut now) = (None, Instant::now());
        let mut waits = Vec::new();
        for _ in 0..6 {
            let next = Backoff::again(known, pauses, now);
            waits.push((next.not_before() - now).as_secs());
            (known, now) = (Some(next), next.not_before());
        }
        assert_eq!(waits, [0, 0, 1, 2, 3, 3]);
        let next = Backoff::again(known, pauses, now + QUIET);
        assert_eq!(next.not_before(), now + QUIET);
    }
}
