//! The common base of the programs. It knows no kind of object: a kind is a type parameter.
//!
//! - [`store`]: the store of objects.
//! - [`cluster`]: a Kubernetes API server.
//! - [`changes`]: values that are sent when they change.
//! - [`clock`]: the time of day, as a value that tests set.
//! - [`address_filter`]: the addresses of statuses that may come into rules.
//! - [`admin`]: liveness, readiness and metrics over HTTP.
//! - [`args`]: flags that programs share.
//! - [`http`]: HTTP servers that clients cannot block; [`listen`]: the sockets.
//! - [`inspect`]: the state of a program, for administrators.
//! - [`instance`]: the pod and the node of the process.
//! - [`leader`]: leader election.
//! - [`mod@metrics`]: the descriptions of metrics.
//! - [`reload`]: files that are read again when they change; [`tls`]: keys and certificates.
//! - [`kube_events`]: Kubernetes Events on users' objects.
//! - [`shutdown`]: signals, draining, and the tasks of a program.
//! - [`log_rate_limiter`]: a rate limit for log lines that outside input causes.
//! - [`telemetry`]: logs and metrics.
//! - [`token_bucket`]: a limit of bytes a second. [`written_bytes`]: those of the last 10 s.
//!
//! A program parses its flags ([`args::parse`]), sets up logs and metrics, and hands its future to [`run_program`].

#![deny(missing_docs)]

pub mod address_filter;
pub mod admin;
pub mod args;
pub mod changes;
pub mod clock;
pub mod cluster;
pub mod http;
pub mod inspect;
pub mod instance;
pub mod kube_events;
pub mod leader;
pub mod listen;
mod lock;
pub mod log_rate_limiter;
pub mod metrics;
mod open_store;
mod program;
pub mod reload;
pub mod shutdown;
pub mod store;
pub mod telemetry;
mod threads;
pub mod tls;
pub mod token_bucket;
pub mod written_bytes;

pub use self::{
    open_store::OpenStore,
    program::{UsageError, run_program},
    threads::run_alone,
};

/// The version of the programs, and the commit of the build if it is known: `0.1.0 (3f2a91c0d4e5)`.
pub const VERSION: &str = env!("VERSION_AND_COMMIT");
