//! The collector: from the answers that CoreDNS streams to the addresses of the names that
//! EgressFirewalls use.
//!
//! - [`observe`]: dnstap streams → [`observation`]s for wanted names that pass the [`guards`].
//!   [`query_origin`]: the collectors' own queries.
//! - [`rules`]: EgressFirewalls → the names in use. [`notices`]: reports to the authors of rules.
//! - [`namespaces`]: the namespaces with rules, as numbers.
//! - [`lookup`]: the collector's own DNS queries and their schedule. [`failure`]: their failures.
//! - [`state`]: observations → the state of a name → its status; no IO.
//! - [`objects`]: the state of all names → DNSNameResolver objects: created, written by
//!   compare-and-swap, deleted.
//! - [`controller`]: owns the state. [`control_loop`]: the single task that runs it.
//! - [`flush`]: probes that flush dnstap streams, and find DNS servers without one.
//!   [`stream_coverage`]: which DNS servers stream here.
//! - [`inspect`]: the status page. [`explain`]: why an address is there, or is not.

pub mod args;
pub mod control_loop;
pub mod controller;
pub mod explain;
pub mod failure;
pub mod flush;
pub mod guards;
pub mod inspect;
mod interner;
pub mod lookup;
pub mod namespaces;
pub mod notices;
pub mod objects;
pub mod observation;
pub mod observe;
pub mod query_origin;
pub mod rules;
mod run;
pub mod state;
pub mod stream_coverage;

use runtime::metrics::Metric;

pub use self::run::run;

/// The metrics of the program.
pub const METRICS: &[&[Metric]] = &[
    observe::metrics::METRICS,
    flush::METRICS,
    lookup::metrics::METRICS,
    objects::METRICS,
    rules::METRICS,
    runtime::metrics::process::METRICS,
    runtime::store::METRICS,
    runtime::leader::METRICS,
    runtime::reload::METRICS,
    runtime::kube_events::METRICS,
    runtime::certificate_expiry::METRICS,
];
