//! The collector: from the answers that CoreDNS streams to the addresses of the names that EgressFirewalls use.
//!
//! - [`observe`]: dnstap streams → [`observation`]s, for the names that are wanted, past the [`guards`]. [`query_origin`]: which queries are
//!   the collectors' own. [`new_names`]: how many new names a client brings in.
//! - [`rules`]: EgressFirewalls → the names in use; [`notices`]: what their authors are told.
//! - [`namespaces`]: how much each namespace may have; [`pods`]: pods that bypass the cluster's DNS.
//! - [`lookup`]: the collector's own DNS queries, when they are made, and their [`failure`]s.
//! - [`state`]: observations → what is known of a name → its status; no IO.
//! - [`objects`]: what is known of all names → DNSNameResolver objects: made, written by compare-and-swap, deleted.
//! - [`controller`]: owns all of this; [`control_loop`]: the one task that runs it.
//! - [`event_history`]: what happened of late to names that are wanted.
//! - [`flush`]: probes that push dnstap streams out, and tell which DNS servers have none; [`hearing`]: what follows for the lead.
//! - [`inspect`]: what is known, shown to people; [`explain`]: why an address is there, or is not.
//! - [`replay`]: a file of events through the same modules; [`capture`]: such a file.
//! - [`corefile`]: Corefiles of a CoreDNS that is to stream here.

pub mod args;
pub mod capture;
pub mod clients;
pub mod control_loop;
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
pub mod new_names;
pub mod notices;
pub mod objects;
pub mod observation;
pub mod observe;
pub mod pods;
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
    objects::METRICS,
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
