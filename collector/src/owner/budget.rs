//! How many writes of nothing but times a process may do: a token bucket of writes and of bytes.

use std::time::Duration;

use runtime::clock::Timestamp;

/// The rates.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// `--status-write-qps`: writes a second.
    pub writes: f64,
    /// `--status-write-bytes`: bytes a second.
    pub bytes: f64,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            writes: 20.0,
            bytes: 1e6,
        }
    }
}

#[derive(Debug)]
pub(super) struct Budget {
    rates: Rates,
    /// Writes and bytes to spend; what one write overdraws the next ones wait for.
    writes: f64,
    bytes: f64,
    filled: Timestamp,
}

impl Budget {
    pub(super) fn new(rates: Rates) -> Self {
        Self {
            rates,
            writes: rates.writes,
            bytes: rates.bytes,
            filled: Timestamp::default(),
        }
    }

    /// Takes a write of this size, or tells when to come again.
    pub(super) fn take(&mut self, bytes: usize, now: Timestamp) -> Result<(), Timestamp> {
        let elapsed = now.since(self.filled).as_secs_f64();
        self.filled = now;
        self.writes = (self.writes + elapsed * self.rates.writes).min(self.rates.writes.max(1.0));
        self.bytes = (self.bytes + elapsed * self.rates.bytes).min(self.rates.bytes);
        let short = |have: f64, need: f64, rate: f64| ((need - have) / rate).clamp(0.0, 60.0);
        let wait = short(self.writes, 1.0, self.rates.writes).max(short(
            self.bytes,
            0.0,
            self.rates.bytes,
        ));
        if wait > 0.0 {
            return Err(now + Duration::from_secs_f64(wait) + Duration::from_millis(1));
        }
        self.writes -= 1.0;
        self.bytes -= bytes as f64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spend(bytes: usize, seconds: i64) -> usize {
        let mut budget = Budget::new(Rates::default());
        let mut now = Timestamp::from_millis(1_800_000_000_000);
        let end = now + Duration::from_secs(seconds.unsigned_abs());
        let mut writes = 0;
        while now < end {
            match budget.take(bytes, now) {
                Ok(()) => writes += 1,
                Err(at) => now = at,
            }
        }
        writes
    }

    #[test]
    fn small_writes_are_bounded_by_their_number_and_large_ones_by_their_size() {
        assert!(
            (20 * 60..=20 * 62).contains(&spend(1_000, 60)),
            "{}",
            spend(1_000, 60)
        );
        assert!(
            (118..=124).contains(&spend(500_000, 60)),
            "{}",
            spend(500_000, 60)
        );
    }

    #[test]
    fn a_write_larger_than_a_seconds_budget_is_possible() {
        assert!(spend(3_000_000, 60) >= 19);
    }
}
