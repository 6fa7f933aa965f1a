//! The collector: from the answers that CoreDNS streams to the addresses of the names that EgressFirewalls use.
//!
//! - [`ingest`]: dnstap streams → [`observation`]s, for the [`names`] that are wanted, past the [`guards`].
//! - [`pods`]: pods that bypass the cluster's DNS; [`namespaces`]: how much each namespace may have.
//! - [`policy`]: EgressFirewalls → the names in use; [`notices`]: what their authors are told.
//! - [`state`]: observations → what is known of a name → its status; no IO.
//! - [`owner`]: the one task that owns all statuses.
//! - [`resolve`]: the collector's own look-ups, and their [`failure`]s; [`remember`]: answers for names that no rule wants yet.
//! - [`recent`]: what happened of late to names that are wanted.
//! - [`flush`]: probes that push dnstap streams out, and tell which DNS servers have none.
//! - [`inspect`]: what is known, shown to people; [`explain`]: why something is there, or is not.
//! - [`replay`]: a file of events through the same; [`capture`]: such a file.
//! - [`corefile`]: Corefiles of a CoreDNS that is to stream here.
//! - [`publish`]: changes → the store, by compare-and-swap.

pub mod args;
pub mod capture;
pub mod clients;
pub mod controller;
pub mod corefile;
pub mod event_history;
pub mod explain;
pub mod failure;
pub mod flush;
pub mod guards;
pub mod hearing;
pub mod inspect;
pub mod lookup;
pub mod namespaces;
pub mod notices;
pub mod observation;
pub mod observe;
pub mod pods;
pub mod publish;
pub mod query_origin;
pub mod replay;
pub mod rules;
mod run;
pub mod state;

use runtime::metrics::Metric;

pub use self::run::run;

/// The metrics of the program.
pub const METRICS: &[&[Metric]] = &[
    observe::metrics::METRICS,
    flush::METRICS,
    lookup::metrics::METRICS,
    controller::METRICS,
    rules::METRICS,
    corefile::live::METRICS,
    pods::METRICS,
    namespaces::METRICS,
    runtime::store::METRICS,
    runtime::leader::METRICS,
    runtime::reload::METRICS,
    runtime::kube_events::METRICS,
    runtime::certificate_expiry::METRICS,
];
