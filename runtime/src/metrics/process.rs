//! The metrics of every program: which build it is, and what its process uses.

use std::fs;

use metrics::{counter, gauge};
use rustix::{
    param::{clock_ticks_per_second, page_size},
    process::{Resource, getrlimit},
};

use super::Label;

crate::metrics! {
    /// The build, and the metrics of processes that Prometheus prescribes.
    pub const METRICS;

    gauge BUILD_INFO = "egress_build_info"
        [Label::any("version", "the version of the program"), Label::any("commit", "the commit that it was built from, or `unknown`")]
        "Always 1; the labels name the build";
    counter CPU = "process_cpu_seconds_total" "CPU time that the process used, in user and kernel mode";
    gauge MAX_FDS = "process_max_fds" "File descriptors that the process may have open";
    gauge OPEN_FDS = "process_open_fds" "File descriptors that the process has open";
    gauge RESIDENT_MEMORY = "process_resident_memory_bytes" "Memory of the process that is resident";
    gauge START_TIME = "process_start_time_seconds" "When the process started, in seconds since 1970";
    gauge THREADS = "process_threads" "Threads of the process";
    gauge VIRTUAL_MEMORY = "process_virtual_memory_bytes" "Virtual memory of the process";
    gauge MAX_VIRTUAL_MEMORY = "process_virtual_memory_max_bytes" "Virtual memory that the process may have; 0 without a limit";
}

/// Records the build, which stays as it is.
pub(crate) fn record_build() {
    let (version, commit) = (env!("CARGO_PKG_VERSION"), env!("BUILD_COMMIT"));
    gauge!(BUILD_INFO, "version" => version, "commit" => commit).set(1.0);
}

/// Records what the process uses now. Values that cannot be read stay as they are.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
pub(crate) fn record_process() {
    let limit = |resource| getrlimit(resource).current.unwrap_or(0) as f64;
    gauge!(MAX_FDS).set(limit(Resource::Nofile));
    gauge!(MAX_VIRTUAL_MEMORY).set(limit(Resource::As));
    if let Ok(descriptors) = fs::read_dir("/proc/self/fd") {
        // One of them is that of the folder.
        gauge!(OPEN_FDS).set(descriptors.count().saturating_sub(1) as f64);
    }
    let Some(stat) = fs::read_to_string("/proc/self/stat")
        .ok()
        .and_then(|text| Stat::parse(&text))
    else {
        return;
    };
    let ticks = clock_ticks_per_second();
    counter!(CPU).absolute(stat.cpu_ticks / ticks);
    gauge!(RESIDENT_MEMORY).set(stat.resident_pages as f64 * page_size() as f64);
    gauge!(THREADS).set(stat.threads as f64);
    gauge!(VIRTUAL_MEMORY).set(stat.virtual_bytes as f64);
    let system = fs::read_to_string("/proc/stat").ok();
    if let Some(boot) = system.and_then(|text| boot_time(&text)) {
        gauge!(START_TIME).set(boot as f64 + stat.start_ticks as f64 / ticks as f64);
    }
}

/// Some fields of `/proc/PID/stat`; see proc_pid_stat(5).
#[derive(Debug, Eq, PartialEq)]
struct Stat {
    /// In user and kernel mode.
    cpu_ticks: u64,
    threads: u64,
    /// Since the system booted.
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The name of the program in parentheses may contain spaces and parentheses. Field 3 follows.
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: field(14)?.saturating_add(field(15)?),
            threads: field(20)?,
            start_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

/// When the system booted, in seconds since 1970, from `/proc/stat`.
fn boot_time(text: &str) -> Option<u64> {
    let mut lines = text.lines();
    let time = lines.find_map(|line| line.strip_prefix("btime "))?;
    time.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    #[test]
    fn the_fields_of_a_process_follow_its_name() {
        let text = "42 (a) b (c) S 1 42 42 0 -1 4194560 9 0 0 0 120 30 0 0 20 0 7 0 5000 8192000 300 18446744073709551615 1";
        let expected = Stat {
            cpu_ticks: 150,
            threads: 7,
            start_ticks: 5000,
            virtual_bytes: 8_192_000,
            resident_pages: 300,
        };
        assert_eq!(Stat::parse(text), Some(expected));
        for text in ["", "42 (a", "42 (a) S 1", "42 (a) S x"] {
            assert_eq!(Stat::parse(text), None, "{text}");
        }
        assert_eq!(
            boot_time("cpu 1 2\nbtime 1700000000\nx"),
            Some(1_700_000_000)
        );
        assert_eq!(boot_time("cpu 1 2"), None);
    }

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
