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
