//! The client and its examples against real servers, and against a faulty one.
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
