//! The setup of logs and metrics.

use std::{
    env,
    io::{self, IsTerminal},
};

use anyhow::Context;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::{
    EnvFilter, filter::LevelFilter, layer::SubscriberExt, util::SubscriberInitExt,
};

use crate::{
    args::LogFormat,
    metrics::{Metric, PROGRAM, describe, process},
};

/// Bounds for every histogram whose name ends in `_seconds`: 100 µs to 1 min.
const SECONDS: [f64; 18] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0, 60.0,
];

/// The default log filter. The API client's own lines are off, since its callers log each error once. hickory warns
/// about every forged or malformed reply, which an attacker can send in any number.
const DEFAULT_FILTER: &str = "info,kube_client=off,hickory_net=error,hickory_proto=error";

/// Sends log lines to stderr. `RUST_LOG` selects them (`debug`, or `info,collector::observe=debug`); the default is
/// `info` and above. A second call changes nothing.
pub fn init_logging(format: LogFormat) {
    let filter = filter(&env::var(EnvFilter::DEFAULT_ENV).unwrap_or_default());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    let registry = tracing_subscriber::registry().with(filter);
    let _already_set_up = match format {
        LogFormat::Text => registry.with(lines).try_init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
}

fn filter(chosen: &str) -> EnvFilter {
    EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .parse_lossy(if chosen.is_empty() {
            DEFAULT_FILTER
        } else {
            chosen
        })
}

/// The metrics of the process, as Prometheus reads them. The admin server shows it and does its upkeep.
#[derive(Clone)]
pub struct Exporter(PrometheusHandle);

impl Exporter {
    pub(crate) fn new(recorded: PrometheusHandle) -> Self {
        Self(recorded)
    }

    /// All metrics in the Prometheus text format.
    pub(crate) fn render(&self) -> String {
        process::record_process();
        self.0.render()
    }

    /// Folds histograms, so that they do not grow while no client asks for them.
    pub(crate) fn run_upkeep(&self) {
        self.0.run_upkeep();
    }
}

/// Makes the recorder that all metrics of the process go to, and tells it of the metrics in `tables`. Every series has the label
/// `program`.
///
/// # Errors
/// There is one already.
pub fn init_metrics(program: &'static str, tables: &[&[Metric]]) -> anyhow::Result<Exporter> {
    let recorded = PrometheusBuilder::new()
        .add_global_label(PROGRAM, program)
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
        .install_recorder()
        .context("metrics cannot be set up")?;
    describe(tables);
    process::record_build();
    Ok(Exporter::new(recorded))
}
