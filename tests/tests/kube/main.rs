//! The store in a Kubernetes cluster, and the programs' other uses of one, on a real API server.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests"
)]

mod bad_input;
mod chart;
mod chart_readme;
mod chart_values;
mod check;
mod cluster;
mod collectors;
mod contract;
mod databases;
mod definitions;
mod deployments;
mod docs;
mod events;
mod foreign;
mod guards;
mod history;
mod installation;
mod kube_ovn;
mod leader;
mod learn;
mod nameserver;
mod peers;
mod policies;
mod port_forward;
mod programs;
mod proxy;
mod rbac;
mod soak;
mod sources;
mod standby;
mod status_writers;
mod uninstall;
mod watches;
mod writes;
