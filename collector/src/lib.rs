//! The collector: from the answers that CoreDNS streams to the addresses of the names that
//! EgressFirewalls use.
//!
//! - [`observe`]: dnstap streams → observations for wanted names that pass the [`guards`].
//!   [`query_origin`]: the collectors' own queries.
//! - [`rules`]: EgressFirewalls → the names in use. [`notices`]: reports to the authors of rules.
//! - [`lookup`]: the collector's own DNS queries and their schedule.
//! - [`publish`]: the state of all names → DNSNameResolver objects: created, written by
//!   compare-and-swap, deleted.
//! - [`flush`]: probes that flush dnstap streams, and find DNS servers without one.
//!   [`stream_coverage`]: which DNS servers stream here.
//! - [`inspect`]: the status page. [`explain`]: why an address is there, or is not.

pub mod args;
pub mod explain;
pub mod flush;
pub mod guards;
pub mod inspect;
mod interner;
pub mod lookup;
pub mod notices;
pub mod observe;
pub mod publish;
pub mod query_origin;
pub mod rules;
mod run;
pub mod stream_coverage;

use runtime::metrics::Metric;

pub use self::run::run;

/// The metrics of the program.
pub const METRICS: &[&[Metric]] = &[
    observe::metrics::METRICS,
    flush::METRICS,
    lookup::metrics::METRICS,
    publish::METRICS,
    rules::METRICS,
    runtime::metrics::process::METRICS,
    runtime::store::METRICS,
    runtime::leader::METRICS,
    runtime::reload::METRICS,
    runtime::kube_events::METRICS,
    runtime::certificate_expiry::METRICS,
];
