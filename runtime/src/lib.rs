//! What both programs stand on.
//!
//! - [`store`]: where `EgressFirewall` and `DNSNameResolver` objects live.
//! - [`clock`]: the time of day, as a value that tests set.
//! - [`admin`]: liveness, readiness and metrics over HTTP.
//! - [`args`]: flags that both programs have.
//! - [`shutdown`]: signals, draining, and the tasks of a program.

pub mod admin;
pub mod args;
pub mod clock;
pub mod shutdown;
pub mod store;
