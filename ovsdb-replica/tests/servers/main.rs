//! The client against a faulty server. The ovn-writer's tests have real ones.
#![allow(
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

mod scripted;
