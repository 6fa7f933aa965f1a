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
