//! The store in a Kubernetes cluster, and what else the programs do with one, on a real API server.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    reason = "tests"
)]

mod cluster;
mod contract;
mod endpoints;
mod events;
mod leader;
mod programs;
mod rbac;
mod reports;
mod watches;
mod writes;
