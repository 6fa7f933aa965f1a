//! Values of the last hour, taken from the metrics.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use parking_lot::Mutex;
use proto::facts::Series;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::telemetry::Exporter;

/// The time between two values.
const STEP: Duration = Duration::from_secs(30);

/// The values of an hour.
const KEPT: usize = 120;

/// What is kept of a metric.
#[derive(Clone, Copy, Debug)]
pub enum Plot {
    /// The sum of the series of a gauge.
    Gauge(&'static str, &'static str),
    /// The growth a second of the series of a counter together.
    Rate(&'static str, &'static str),
    /// The mean of a histogram of seconds in a step, in milliseconds.
    MeanMillis(&'static str, &'static str),
}

/// The kept values. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct History(Arc<Mutex<Vec<Kept>>>);

#[derive(Debug)]
struct Kept {
    plot: Plot,
    /// The last totals: of a counter, or of a histogram's sum and count.
    last: Option<[f64; 2]>,
    values: VecDeque<Option<f64>>,
}

impl History {
    /// A history of these metrics: a title with its unit, and a name.
    pub fn new(plots: impl IntoIterator<Item = Plot>) -> Self {
        let kept = plots.into_iter().map(|plot| Kept {
            plot,
            last: None,
            values: VecDeque::new(),
        });
        Self(Arc::new(Mutex::new(kept.collect())))
    }

    /// Takes the values until the token is cancelled.
    ///
    /// # Errors
    /// None.
    pub async fn run(self, metrics: Exporter, token: CancellationToken) -> anyhow::Result<()> {
        let mut steps = interval(STEP);
        steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while token.run_until_cancelled(steps.tick()).await.is_some() {
            self.take(&metrics.render());
        }
        Ok(())
    }

    /// The kept values.
    pub fn series(&self) -> Vec<Series> {
        let kept = self.0.lock();
        let series = kept.iter().map(|kept| Series {
            title: kept.plot.title().to_owned(),
            step_seconds: STEP.as_secs(),
            values: kept.values.iter().copied().collect(),
        });
        series.collect()
    }

    /// Takes a value of each metric from the Prometheus text format.
    fn take(&self, text: &str) {
        for kept in &mut *self.0.lock() {
            if kept.values.len() >= KEPT {
                kept.values.pop_front();
            }
            let value = kept.next(text);
            kept.values.push_back(value);
        }
    }
}

impl Plot {
    fn title(self) -> &'static str {
        let (Self::Gauge(title, _) | Self::Rate(title, _) | Self::MeanMillis(title, _)) = self;
        title
    }
}

impl Kept {
    fn next(&mut self, text: &str) -> Option<f64> {
        let totals = match self.plot {
            Plot::Gauge(_, name) => return total(text, name),
            Plot::Rate(_, name) => [total(text, name).unwrap_or(0.0), STEP.as_secs_f64()],
            Plot::MeanMillis(_, name) => {
                let of = |end| total(text, &format!("{name}{end}")).unwrap_or(0.0);
                [of("_sum") * 1000.0, of("_count")]
            }
        };
        let [last, last_count] = self.last.replace(totals)?;
        let [now, count] = totals;
        let divisor = match self.plot {
            Plot::MeanMillis(..) => count - last_count,
            _ => count,
        };
        (divisor > 0.0).then(|| (now - last) / divisor)
    }
}

/// The sum of all series of a metric; `None` if it has none.
fn total(text: &str, name: &str) -> Option<f64> {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let value = match rest.strip_prefix('{') {
            Some(labels) => labels.rsplit_once("} ")?.1,
            None => rest.strip_prefix(' ')?,
        };
        value.parse::<f64>().ok()
    });
    values.reduce(|one, other| one + other)
}
