//! The writer and its OVSDB client against a real `ovsdb-server`, and against one that does what a real one never should.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

mod client;
mod harness;
mod restarts;
mod scripted;
mod writer;
