//! A token bucket that may be overdrawn by one withdrawal.

use std::time::Duration;

use crate::clock::Timestamp;

/// Limits bytes a second. Unused bytes are saved for a while.
///
/// A withdrawal of any size is allowed while any bytes are left. After one that is larger than the saved
/// bytes, the next one waits longer.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    level: f64,
    filled: Timestamp,
}

/// The rate of a [`TokenBucket`], which many buckets share.
#[derive(Clone, Copy, Debug)]
pub struct TokenRate {
    /// Bytes a second; more than 0.
    pub bytes_per_second: f64,
    /// For how long unused bytes are saved.
    pub saved_for: Duration,
}

impl TokenRate {
    /// The most bytes in a bucket.
    pub fn most(&self) -> f64 {
        self.bytes_per_second * self.saved_for.as_secs_f64()
    }
}

impl Default for TokenBucket {
    /// A full bucket.
    fn default() -> Self {
        Self {
            level: f64::INFINITY,
            filled: Timestamp::default(),
        }
    }
}

impl TokenBucket {
    /// When more than `part` (0 to 1) of the bucket is full: `None` is now.
    pub fn wait_for(&mut self, part: f64, rate: TokenRate, now: Timestamp) -> Option<Timestamp> {
        self.fill(rate, now);
        let missing = part * rate.most() - self.level;
        // Rounded up to whole milliseconds, so that the bucket has enough then.
        let wait = (missing / rate.bytes_per_second * 1e3).floor() + 1.0;
        (missing >= 0.0).then(|| now + Duration::from_millis(wait as u64))
    }

    /// Takes bytes out. The level may become negative.
    pub fn withdraw(&mut self, bytes: usize, rate: TokenRate, now: Timestamp) {
        self.fill(rate, now);
        self.level -= bytes as f64;
    }

    fn fill(&mut self, rate: TokenRate, now: Timestamp) {
        // A clock that was set back adds nothing.
        let elapsed = now.since(self.filled).as_secs_f64();
        self.filled = now;
        self.level = (self.level + elapsed * rate.bytes_per_second).min(rate.most());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: TokenRate = TokenRate {
        bytes_per_second: 1_000.0,
        saved_for: Duration::from_secs(10),
    };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    #[test]
    fn withdrawal_beyond_the_savings_goes_and_the_next_one_waits() {
        let mut bucket = TokenBucket::default();
        assert_eq!(bucket.wait_for(0.0, RATE, at(0)), None);
        bucket.withdraw(25_000, RATE, at(0));
        let next = bucket.wait_for(0.0, RATE, at(0)).unwrap();
        assert!(next > at(15) && next < at(16), "{next:?}");
        assert_eq!(bucket.wait_for(0.0, RATE, next), None);
    }

    #[test]
    fn savings_are_bounded_and_a_clock_set_back_adds_nothing() {
        let mut bucket = TokenBucket::default();
        bucket.withdraw(10_000, RATE, at(1_000));
        assert_eq!(bucket.wait_for(0.9, RATE, at(9_999)), None);
        bucket.withdraw(10_000, RATE, at(9_999));
        assert!(bucket.wait_for(0.0, RATE, at(0)).is_some());
        assert!(bucket.wait_for(0.5, RATE, at(4)).is_some());
    }
}
