//! The writer and its OVSDB client against a real `ovsdb-server`.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "tests"
)]

mod absence;
mod cluster;
mod dry_run;
mod follow;
mod harness;
mod lead;
mod raft;
mod restarts;
mod soak;
mod tls;
