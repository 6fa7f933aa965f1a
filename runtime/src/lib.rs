//! What both programs stand on.
//!
//! - [`store`]: where `EgressFirewall` and `DNSNameResolver` objects live.
//! - [`cluster`]: a Kubernetes API server.
//! - [`changes`]: values that are passed on when they change.
//! - [`clock`]: the time of day, as a value that tests set.
//! - [`absence`]: how many names may be absent before that is a fault.
//! - [`admin`]: liveness, readiness and metrics over HTTP.
//! - [`read_coalescing`]: fewer wake-ups by streams that flow fast.
//! - [`args`]: flags that both programs have.
//! - [`endpoints`]: where the servers behind a Service are.
//! - [`certificate_expiry`]: until when certificates are valid.
//! - [`http`]: HTTP servers that nobody can hold up; [`listen`]: the sockets.
//! - [`inspect`]: what a program knows, for who runs it.
//! - [`leader`]: which replica leads.
//! - [`memory`]: how much memory the process may have.
//! - [`mod@metrics`]: what the metrics are.
//! - [`cluster_cidrs`]: which networks are a cluster's own.
//! - [`reload`]: what is read again when its files change; [`tls`]: keys and certificates.
//! - [`peers`]: the other instances of a program, by the addresses that they ask DNS servers from.
//! - [`kube_events`]: what users are told about their objects.
//! - [`shutdown`]: signals, draining, and the tasks of a program.
//! - [`log_rate_limiter`]: log lines that anybody outside can cause.
//! - [`telemetry`]: logs and metrics.
//!
//! A program parses its flags ([`args::parse`]), sets up logs and metrics, and hands its future to [`run_program`].

pub mod absence;
pub mod admin;
pub mod args;
pub mod certificate_expiry;
pub mod changes;
pub mod clock;
pub mod cluster;
pub mod cluster_cidrs;
pub mod endpoints;
pub mod http;
pub mod inspect;
pub mod kube_events;
pub mod leader;
pub mod listen;
pub mod log_rate_limiter;
pub mod memory;
pub mod metrics;
mod open_store;
pub mod peers;
mod program;
pub mod read_coalescing;
pub mod reload;
pub mod shutdown;
pub mod store;
pub mod telemetry;
mod threads;
pub mod tls;

pub use self::{
    open_store::OpenStore,
    program::{UsageError, run_program},
    threads::{run_alone, with_threads},
};

/// The version of the programs, and the commit that they were built from where that is known: `0.1.0 (3f2a91c0d4e5)`.
pub const VERSION: &str = env!("VERSION_AND_COMMIT");
