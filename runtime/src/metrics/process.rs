//! The metrics of every program: which build it is, and what its process uses.

use metrics::gauge;
use metrics_process::Collector;

use super::Label;

crate::metrics! {
    /// The build, and the metrics of processes that Prometheus prescribes.
    pub const METRICS;

    gauge BUILD_INFO = "egress_build_info"
        [Label::any("version", "the version of the program"), Label::any("commit", "the commit that it was built from, or `unknown`")]
        "Always 1; the labels name the build";
    counter "process_cpu_seconds_total" "CPU time that the process used, in user and kernel mode";
    gauge "process_max_fds" "File descriptors that the process may have open";
    gauge "process_open_fds" "File descriptors that the process has open";
    gauge "process_resident_memory_bytes" "Memory of the process that is resident";
    gauge "process_start_time_seconds" "When the process started, in seconds since 1970";
    gauge "process_threads" "Threads of the process";
    gauge "process_virtual_memory_bytes" "Virtual memory of the process";
    gauge "process_virtual_memory_max_bytes" "Virtual memory that the process may have; 0 without a limit";
}

/// Records the build, which stays as it is.
pub(crate) fn record_build() {
    let (version, commit) = (env!("CARGO_PKG_VERSION"), env!("BUILD_COMMIT"));
    gauge!(BUILD_INFO, "version" => version, "commit" => commit).set(1.0);
}

/// Records what the process uses now. Values that cannot be read stay as they are.
pub(crate) fn record_process() {
    Collector::default().collect();
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        time::{SystemTime, UNIX_EPOCH},
    };

    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    #[test]
    fn every_metric_of_this_process_is_recorded() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let opened: Vec<_> = (0..50)
            .map(|_| fs::File::open("/dev/null").unwrap())
            .collect();
        metrics::with_local_recorder(&recorder, record_process);
        let text = recorder.handle().render();
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("{name} in {text}"))
                .trim()
                .parse()
                .unwrap()
        };
        for metric in METRICS {
            if metric.name.starts_with("process_") {
                value(&format!("{} ", metric.name));
            }
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let age = now.as_secs_f64() - value("process_start_time_seconds ");
        assert!((-2.0..3600.0).contains(&age), "{age}");
        let open = value("process_open_fds ");
        assert!(
            open > opened.len() as f64 && open < value("process_max_fds "),
            "{open}"
        );
        let resident = value("process_resident_memory_bytes ");
        assert!(resident > 1e6, "{resident}");
        assert!(resident < value("process_virtual_memory_bytes "));
        assert!(value("process_threads ") >= 1.0);
    }
}
