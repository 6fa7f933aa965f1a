//! The store in a Kubernetes cluster, and the programs' other uses of one, on a real API server.

mod chart;
mod chart_values;
mod cluster;
mod collectors;
mod contract;
mod corefile;
mod docs;
mod faults;
mod installation;
mod kube_ovn;
mod learn;
mod nameserver;
mod policies;
mod port_forward;
mod programs;
mod proxy;
mod rbac;
mod soak;
mod sources;
mod status_writers;
mod watches;
mod writes;
