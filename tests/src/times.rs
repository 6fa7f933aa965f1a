//! Measured times, and their quantiles.

use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub struct Times(Vec<Duration>);

impl Times {
    pub fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    pub fn extend(&mut self, times: impl IntoIterator<Item = Duration>) {
        self.0.extend(times);
    }

    /// The quantile of the times, in microseconds; `share` is from 0 to 1. 0 if there are none.
    pub fn quantile(&mut self, share: f64) -> f64 {
        self.0.sort_unstable();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an index"
        )]
        let index = (self.0.len().saturating_sub(1) as f64 * share).round() as usize;
        let time = self.0.get(index).copied().unwrap_or_default();
        time.as_secs_f64() * 1e6
    }

    pub fn median(&mut self) -> f64 {
        self.quantile(0.5)
    }

    /// The median and the 99th percentile as a cell of a table, in this unit.
    pub fn cell(&mut self, unit: Duration) -> String {
        let [p50, p99] = [0.5, 0.99].map(|share| {
            let value = self.quantile(share) / (unit.as_secs_f64() * 1e6);
            let digits = usize::from(value > 0.0 && value < 9.95);
            format!("{value:.digits$}")
        });
        format!("{p50}/{p99}")
    }
}
