//! Signals from the writer's own metrics, at the moment they are recorded.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    time::{Duration, Instant},
};

use metrics::{
    Counter, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
enum Signal {
    /// The change of a name was acknowledged.
    Acknowledged(Instant),
    /// The database matches the store.
    InSync(Instant),
}

pub(crate) struct Signals {
    signals: Receiver<Signal>,
    handle: PrometheusHandle,
}

/// Installs the program's recorder, and subscribes to two metrics.
pub(crate) fn install() -> Signals {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let (sender, signals) = channel();
    let listening = Listening { recorder, sender };
    metrics::set_global_recorder(listening).unwrap();
    Signals { signals, handle }
}

impl Signals {
    /// The time when the change of a name was acknowledged.
    pub(crate) fn acknowledged(&self) -> Instant {
        loop {
            if let Signal::Acknowledged(time) = self.next() {
                return time;
            }
        }
    }

    /// The time when the database matched the store.
    pub(crate) fn in_sync(&self) -> Instant {
        loop {
            if let Signal::InSync(time) = self.next() {
                return time;
            }
        }
    }

    /// Discards the signals so far.
    pub(crate) fn clear(&self) {
        while self.signals.try_recv().is_ok() {}
        self.handle.run_upkeep();
    }

    fn next(&self) -> Signal {
        self.signals
            .recv_timeout(PATIENCE)
            .expect("the writer does something")
    }
}

struct Listening {
    recorder: PrometheusRecorder,
    sender: Sender<Signal>,
}

impl Recorder for Listening {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.recorder.describe_counter(key, unit, description);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.recorder.describe_gauge(key, unit, description);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.recorder.describe_histogram(key, unit, description);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        self.recorder.register_counter(key, metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        let gauge = self.recorder.register_gauge(key, metadata);
        if key.name() != "egress_ovn_writer_in_sync" {
            return gauge;
        }
        static IN_SYNC: AtomicBool = AtomicBool::new(false);
        Gauge::from_arc(Arc::new(InSync {
            gauge,
            was: &IN_SYNC,
            sender: self.sender.clone(),
        }))
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        let histogram = self.recorder.register_histogram(key, metadata);
        if key.name() != "egress_ovn_writer_sync_lag_seconds" {
            return histogram;
        }
        Histogram::from_arc(Arc::new(Lag {
            histogram,
            sender: self.sender.clone(),
        }))
    }
}

struct Lag {
    histogram: Histogram,
    sender: Sender<Signal>,
}

impl HistogramFn for Lag {
    fn record(&self, value: f64) {
        // At the end there is no receiver.
        let _ = self.sender.send(Signal::Acknowledged(Instant::now()));
        self.histogram.record(value);
    }
}

struct InSync {
    gauge: Gauge,
    was: &'static AtomicBool,
    sender: Sender<Signal>,
}

impl GaugeFn for InSync {
    fn increment(&self, value: f64) {
        self.gauge.increment(value);
    }

    fn decrement(&self, value: f64) {
        self.gauge.decrement(value);
    }

    fn set(&self, value: f64) {
        self.gauge.set(value);
        let is = value == 1.0;
        if !self.was.swap(is, Ordering::Relaxed) && is {
            let _ = self.sender.send(Signal::InSync(Instant::now()));
        }
    }
}
