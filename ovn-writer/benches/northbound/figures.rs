//! Measured figures, with their limits.

use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// The quantile of the times, in microseconds; `share` is from 0 to 1.
    pub(crate) fn quantile(&mut self, share: f64) -> f64 {
        self.0.sort_unstable();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an index"
        )]
        let index = ((self.0.len() - 1) as f64 * share).round() as usize;
        self.0[index].as_secs_f64() * 1e6
    }

    pub(crate) fn median(&mut self) -> f64 {
        self.quantile(0.5)
    }
}

/// The exceeded limits.
#[derive(Default)]
pub(crate) struct Verdicts {
    missed: Vec<String>,
}

impl Verdicts {
    /// Prints a figure beside the most that it may be, and records a violation.
    pub(crate) fn judge(&mut self, what: &str, figure: f64, most: f64) {
        let kept = figure <= most;
        let verdict = if kept { "kept" } else { "MISSED" };
        println!("  {what}: {figure:.2} (at most {most}: {verdict})");
        if !kept {
            self.missed.push(format!("{what}: {figure:.2}"));
        }
    }

    pub(crate) fn missed(&self) -> &[String] {
        &self.missed
    }
}
