//! The descriptions of a program's metrics, in tables. They are the source for Prometheus, for `docs/metrics.md`, and
//! for the tests of `/metrics`.
//!
//! Names follow <https://prometheus.io/docs/practices/naming/>: base units, the unit at the end, `_total` for counters.

pub mod process;
use std::fmt;

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, histogram};

/// The label that every series has: the name of the program.
pub const PROGRAM: &str = "program";

/// Declares a table of metrics. Each has a type, a name, labels in brackets (if any), and a meaning. `NAME =` also
/// defines a constant with the name of the metric.
#[macro_export]
macro_rules! metrics {
    (
        $(#[$about:meta])* $visibility:vis const $table:ident;
        $($kind:ident $($constant:ident =)? $name:literal $([$($label:expr),+])? $meaning:literal;)*
    ) => {
        $($(const $constant: &str = $name;)?)*
        $(#[$about])*
        $visibility const $table: &[$crate::metrics::Metric] = &[
            $($crate::metrics::Metric {
                name: $name,
                kind: $crate::metrics!(@kind $kind),
                labels: &[$($($label),+)?],
                meaning: $meaning,
            },)*
        ];
    };
    (@kind counter) => { $crate::metrics::MetricKind::Counter };
    (@kind gauge) => { $crate::metrics::MetricKind::Gauge };
    (@kind histogram) => { $crate::metrics::MetricKind::Histogram };
}

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name, without `_bucket`, `_sum` and `_count`.
    pub name: &'static str,
    /// Its Prometheus type.
    pub kind: MetricKind,
    /// The labels of its series.
    pub labels: &'static [Label],
    /// The meaning, in one sentence without a full stop.
    pub meaning: &'static str,
}

/// The used Prometheus types.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MetricKind {
    /// Only grows, from 0 at the start.
    Counter,
    /// The current value.
    Gauge,
    /// Durations in buckets.
    Histogram,
}

/// A label.
#[derive(Clone, Copy, Debug)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// Its possible values.
    pub values: Values,
}

/// The possible values of a label.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// One of these.
    OneOf(&'static [&'static str]),
    /// Any value of this kind.
    Any(&'static str),
}

impl Metric {
    /// The unit at the end of the name; `None` for counts and booleans.
    pub fn unit(&self) -> Option<Unit> {
        let name = self.name.strip_suffix("_total").unwrap_or(self.name);
        match name.rsplit('_').next() {
            Some("seconds") => Some(Unit::Seconds),
            Some("bytes") => Some(Unit::Bytes),
            _ => None,
        }
    }

    /// Registers the metric with the exporter. If all series of a counter or histogram are known, they exist from then
    /// on, so that the first event shows as an increase.
    fn describe(&self) {
        let unit = self.unit().unwrap_or(Unit::Count);
        match self.kind {
            MetricKind::Counter => describe_counter!(self.name, unit, self.meaning),
            MetricKind::Gauge => describe_gauge!(self.name, unit, self.meaning),
            MetricKind::Histogram => describe_histogram!(self.name, unit, self.meaning),
        }
        for labels in self.series() {
            match self.kind {
                MetricKind::Counter => counter!(self.name, &labels).absolute(0),
                MetricKind::Histogram => drop(histogram!(self.name, &labels)),
                MetricKind::Gauge => {}
            }
        }
    }

    /// The labels of every series; empty if a label has arbitrary values.
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
    /// A label with a fixed set of values.
    pub const fn one_of(name: &'static str, values: &'static [&'static str]) -> Self {
        let values = Values::OneOf(values);
        Self { name, values }
    }

    /// A label with arbitrary values of a kind.
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

/// Registers the metrics with the exporter; once.
pub(crate) fn describe(tables: &[&[Metric]]) {
    tables.iter().copied().flatten().for_each(Metric::describe);
}
