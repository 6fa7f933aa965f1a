//! The store in a Kubernetes cluster, and the programs' other uses of one, on a real API server.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests"
)]

mod chart;
mod chart_readme;
mod chart_values;
mod cluster;
mod collectors;
mod contract;
mod corefile;
mod docs;
mod failover;
mod faults;
mod hold;
mod installation;
mod kube_ovn;
mod learn;
mod nameserver;
mod policies;
mod port_forward;
mod programs;
mod proxy;
mod rbac;
mod sources;
mod status_writers;
mod watches;
mod writes;
