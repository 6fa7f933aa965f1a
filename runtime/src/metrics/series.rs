//! Gauges whose series come and go. The exporter never drops a series: that of a removed DNS server would stay until
//! the program ends.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{Arc, Mutex, PoisonError},
};

use super::{Metric, MetricKind, PROGRAM};

/// All shown series, by the name of their metric.
static SHOWN: Mutex<BTreeMap<&str, Shown>> = Mutex::new(BTreeMap::new());

struct Shown {
    metric: &'static Metric,
    values: Values,
}

type Values = Arc<Mutex<BTreeMap<Vec<String>, f64>>>;

/// A gauge whose series come and go. Clones share it, and so do all handles of one metric.
#[derive(Clone, Debug)]
pub struct Series {
    metric: &'static Metric,
    values: Values,
}

impl Series {
    /// A handle to the gauge's series. The values of its labels are given in the order of [`Metric::labels`].
    pub fn of(metric: &'static Metric) -> Self {
        debug_assert_eq!(metric.kind, MetricKind::Gauge);
        let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = shown.entry(metric.name).or_insert_with(|| Shown {
            metric,
            values: Values::default(),
        });
        Self {
            metric: shown.metric,
            values: Arc::clone(&shown.values),
        }
    }

    /// Sets the value of one series, or removes it. The others stay.
    pub fn put<const N: usize>(&self, labels: [String; N], value: Option<f64>) {
        debug_assert_eq!(self.metric.labels.len(), N);
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        match value {
            Some(value) => values.insert(labels.to_vec(), value),
            None => values.remove(labels.as_slice()),
        };
    }

    /// Replaces all series.
    pub fn replace<const N: usize>(&self, series: impl IntoIterator<Item = ([String; N], f64)>) {
        debug_assert_eq!(self.metric.labels.len(), N);
        let series = series.into_iter();
        let series = series.map(|(labels, value)| (labels.to_vec(), value));
        *self.values.lock().unwrap_or_else(PoisonError::into_inner) = series.collect();
    }
}

/// All of them in the Prometheus text format. `program` is the label of that name, which all series of a program have.
pub(crate) fn render(program: &str) -> String {
    let mut text = String::new();
    let shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    for Shown { metric, values } in shown.values() {
        let values = values.lock().unwrap_or_else(PoisonError::into_inner);
        if !values.is_empty() {
            render_metric(metric, program, &values, &mut text);
        }
    }
    text
}

fn render_metric(
    metric: &Metric,
    program: &str,
    values: &BTreeMap<Vec<String>, f64>,
    text: &mut String,
) {
    let name = metric.name;
    // Writing to a String cannot fail.
    let _ok = write!(
        text,
        "# HELP {name} {}\n# TYPE {name} gauge\n",
        metric.meaning
    );
    for (labels, value) in values {
        let labels = metric.labels.iter().zip(labels);
        let labels: String = labels
            .map(|(label, value)| format!(",{}=\"{}\"", label.name, escaped(value)))
            .collect();
        let _ok = writeln!(text, "{name}{{{PROGRAM}=\"{program}\"{labels}}} {value}");
    }
    text.push('\n');
}

/// A label's value, escaped for the text format.
fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    value.replace('\n', "\\n")
}
