//! A rate limit for log lines that outside input or an outage can cause, with the number of dropped lines.

use std::{
    mem,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// Allows one line of its kind in a second, or another interval. Use one for each place that logs.
#[derive(Debug)]
pub struct LogRateLimiter {
    interval: Duration,
    /// The time of the last line, and the number of dropped lines since then.
    last: Mutex<(Option<Instant>, u64)>,
}

impl Default for LogRateLimiter {
    fn default() -> Self {
        Self::every(Duration::from_secs(1))
    }
}

impl LogRateLimiter {
    /// A limiter of one line per interval.
    pub fn every(interval: Duration) -> Self {
        Self {
            interval,
            last: Mutex::default(),
        }
    }

    /// Whether to log now: if so, the number of lines that were dropped since the last one.
    pub fn allow(&self) -> Option<u64> {
        self.allow_at(Instant::now())
    }

    fn allow_at(&self, now: Instant) -> Option<u64> {
        let (last, dropped) = &mut *self.last.lock();
        if last.is_some_and(|last| now.duration_since(last) < self.interval) {
            *dropped += 1;
            return None;
        }
        *last = Some(now);
        Some(mem::take(dropped))
    }
}
