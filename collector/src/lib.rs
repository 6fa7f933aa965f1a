//! The collector: from the answers that CoreDNS streams to the addresses of the names that
//! EgressFirewalls use.
//!
//! - [`listen`]: dnstap streams → frames.
//! - [`matching`]: frames → observations for names in rules.
//! - [`rules`]: EgressFirewalls → the names in rules, and reports to their authors.
//! - [`lookup`]: the collector's own DNS queries.
//! - [`publish`]: observations → the state of all names (crate `names`) → DNSNameResolver objects.
//! - [`cluster`]: the networks of the cluster, its DNS servers, and the other collectors.
//! - [`hold`]: a forwarder that delays an answer until its status is written.
//! - [`flush`]: probes that flush dnstap streams, and find DNS servers without one.
//! - [`facts`]: the status page, and why an address is there, or is not.

pub mod args;
pub mod cluster;
pub mod facts;
pub mod flush;
pub mod hold;
pub mod listen;
pub mod lookup;
pub mod matching;
pub mod publish;
pub mod rules;
mod run;

use std::process::ExitCode;

use runtime::metrics::Metric;

use self::args::{ADMIN, Args, PREFIX};

/// The program. What is async is compiled where it is called, so it is called here.
pub fn main() -> ExitCode {
    let args: Args = runtime::args::parse(PREFIX, ADMIN);
    runtime::telemetry::init_logging(args.common.log_format);
    runtime::run_program("collector", run::run(args))
}

/// The metrics of the program.
pub const METRICS: &[&[Metric]] = &[
    listen::metrics::METRICS,
    flush::METRICS,
    hold::METRICS,
    lookup::METRICS,
    publish::METRICS,
    rules::METRICS,
    runtime::metrics::process::METRICS,
    runtime::store::METRICS,
    runtime::leader::METRICS,
    runtime::reload::METRICS,
    runtime::kube_events::METRICS,
];
