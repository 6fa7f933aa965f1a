//! What the metrics of a program are, in tables: what Prometheus is told of them, what `docs/metrics.md` says, and what the
//! tests hold `/metrics` against.
//!
//! Names follow <https://prometheus.io/docs/practices/naming/>: base units, the unit at the end, `_total` for counters.

mod document;
pub(crate) mod series;
#[cfg(test)]
mod tests;

use std::fmt;

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, histogram};

pub use self::{document::section, series::Series};

/// Declares a table of metrics: of each the type, the name, the labels in brackets if it has any, and the meaning. With `NAME =` the
/// name of the metric is a constant, too. `+ METRIC` adds one that is declared elsewhere.
#[macro_export]
macro_rules! metrics {
    (
        $(#[$about:meta])* $visibility:vis const $table:ident;
        $($kind:ident $($constant:ident =)? $name:literal $([$($label:expr),+])? $meaning:literal;)*
        $(+ $metric:ident;)*
    ) => {
        $($(const $constant: &str = $name;)?)*
        $(#[$about])*
        $visibility const $table: &[$crate::metrics::Metric] = &[
            $($crate::metrics::Metric::$kind($name, &[$($($label),+)?], $meaning),)*
            $($metric,)*
        ];
    };
}

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name, without `_bucket`, `_sum` and `_count`.
    pub name: &'static str,
    /// What Prometheus may do with it.
    pub kind: MetricKind,
    /// What tells its series apart.
    pub labels: &'static [Label],
    /// What it says, in one sentence without a full stop.
    pub meaning: &'static str,
}

/// The types of Prometheus that are used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MetricKind {
    /// It only grows, from 0 at the start.
    Counter,
    /// It is as it is now.
    Gauge,
    /// Durations in buckets.
    Histogram,
}

/// A label.
#[derive(Clone, Copy, Debug)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// What it may be.
    pub values: Values,
}

/// What a label may be.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// One of these.
    OneOf(&'static [&'static str]),
    /// Something of this kind.
    Any(&'static str),
}

impl Metric {
    /// A counter.
    pub const fn counter(
        name: &'static str,
        labels: &'static [Label],
        meaning: &'static str,
    ) -> Self {
        Self::new(name, MetricKind::Counter, labels, meaning)
    }

    /// A gauge.
    pub const fn gauge(
        name: &'static str,
        labels: &'static [Label],
        meaning: &'static str,
    ) -> Self {
        Self::new(name, MetricKind::Gauge, labels, meaning)
    }

    /// A histogram.
    pub const fn histogram(
        name: &'static str,
        labels: &'static [Label],
        meaning: &'static str,
    ) -> Self {
        Self::new(name, MetricKind::Histogram, labels, meaning)
    }

    const fn new(
        name: &'static str,
        kind: MetricKind,
        labels: &'static [Label],
        meaning: &'static str,
    ) -> Self {
        Self {
            name,
            kind,
            labels,
            meaning,
        }
    }

    /// The unit, which the name ends in; nothing for what is counted or is yes or no.
    pub fn unit(&self) -> Option<Unit> {
        let name = self.name.strip_suffix("_total").unwrap_or(self.name);
        match name.rsplit('_').next() {
            Some("seconds") => Some(Unit::Seconds),
            Some("bytes") => Some(Unit::Bytes),
            _ => None,
        }
    }

    /// Tells the exporter of it. A counter or histogram all of whose series are known has them from then on, so that the
    /// first event is an increase.
    fn describe(&self) {
        match (self.kind, self.unit()) {
            (MetricKind::Counter, Some(unit)) => describe_counter!(self.name, unit, self.meaning),
            (MetricKind::Counter, None) => describe_counter!(self.name, self.meaning),
            (MetricKind::Gauge, Some(unit)) => describe_gauge!(self.name, unit, self.meaning),
            (MetricKind::Gauge, None) => describe_gauge!(self.name, self.meaning),
            (MetricKind::Histogram, Some(unit)) => {
                describe_histogram!(self.name, unit, self.meaning);
            }
            (MetricKind::Histogram, None) => describe_histogram!(self.name, self.meaning),
        }
        for labels in self.series() {
            match self.kind {
                MetricKind::Counter => counter!(self.name, &labels).absolute(0),
                MetricKind::Histogram => drop(histogram!(self.name, &labels)),
                MetricKind::Gauge => {}
            }
        }
    }

    /// The labels of every series, if they are known; none if a label may be anything.
    fn series(&self) -> Vec<Vec<(&'static str, &'static str)>> {
        let mut all = vec![Vec::new()];
        for label in self.labels {
            let values = match label.values {
                Values::OneOf(values) => values,
                Values::Any(_) => &[],
            };
            let longer = |labels: Vec<_>| {
                let with = move |value: &&'static str| {
                    let mut labels = labels.clone();
                    labels.push((label.name, *value));
                    labels
                };
                values.iter().map(with)
            };
            all = all.into_iter().flat_map(longer).collect();
        }
        all
    }
}

impl Label {
    /// A label with a few values.
    pub const fn one_of(name: &'static str, values: &'static [&'static str]) -> Self {
        let values = Values::OneOf(values);
        Self { name, values }
    }

    /// A label that may be anything of a kind.
    pub const fn any(name: &'static str, kind: &'static str) -> Self {
        let values = Values::Any(kind);
        Self { name, values }
    }
}

impl fmt::Display for MetricKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        })
    }
}

/// Tells the exporter of metrics; once, after [`crate::telemetry::init_metrics`].
pub fn describe(tables: &[&[Metric]]) {
    tables.iter().copied().flatten().for_each(Metric::describe);
}
