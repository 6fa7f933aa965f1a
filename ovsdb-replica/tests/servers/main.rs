//! The client and its examples against real servers, and against one that does what a real one never should.
#![allow(
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

mod examples;
mod order;
mod scripted;
mod server;
