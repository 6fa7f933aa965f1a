//! The store in a Kubernetes cluster, and the programs' other uses of one, on a real API server.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests"
)]

mod absence;
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
mod endpoints;
mod events;
mod fairness;
mod foreign;
mod guards;
mod history;
mod installation;
mod kube_ovn;
mod leader;
mod nameserver;
mod openshift_scc;
mod peers;
mod policies;
mod port_forward;
mod probes;
mod programs;
mod proxy;
mod rbac;
mod reports;
mod soak;
mod sources;
mod standby;
mod status_writers;
mod throttled;
mod uninstall;
mod watches;
mod writes;
