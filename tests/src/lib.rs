//! The real programs, run on one machine as they run in production: stock CoreDNS, `collector`, `ovn-writer` and an
//! `ovsdb-server` with OVN's northbound schema. The tests in `tests/programs` and the demo stand on it.
//!
//! Everything here panics when something does not happen: that is how a test fails. [`world::World`] then shows what the
//! programs logged. All sockets are unix sockets in a temporary folder or on a free port of 127.0.0.1, and every process
//! ends with the value that stands for it, or with the thread that started it.
//!
//! - [`world`]: all of them together; [`workdir`]: the folder they share.
//! - [`programs`], [`coredns`], [`northbound`], [`kube`]: one server each; [`process`]: what is common to them.
//! - [`ovnkube`]: ovn-kubernetes, as far as address sets see it.
//! - [`surroundings`]: what other clients keep in the northbound database.
//! - [`datapath`]: OVN and Open vSwitch, for packets.
//! - [`network`]: a network apart; [`pods`]: clients in networks of their own; [`pki`]: certificates; [`chart`]: the Helm chart;
//!   [`service`]: a Service.
//! - [`upstream`]: a DNS server that does what it is told; [`told`]: clients, and what they are told.
//! - [`dns`], [`store`], [`admin`], [`metrics`], [`monitor`], [`transaction_log`], [`ovsdb`], [`dnstap`], [`allowed`]: how tests ask
//!   and look.
//! - [`wait`]: waiting for a condition; [`soak`]: for how long; [`cpu_wakeup`]: what keeps processors from sleeping while a bench runs.
//! - [`skip`]: tests that cannot run on this machine.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by a panic, and prints what it measured"
)]

pub mod admin;
pub mod allowed;
pub mod chart;
pub mod coredns;
pub mod cpu_wakeup;
pub mod datapath;
pub mod dns;
pub mod dnstap;
pub mod kube;
pub mod metrics;
pub mod monitor;
pub mod network;
pub mod northbound;
pub mod ovnkube;
pub mod ovsdb;
pub mod pki;
pub mod pods;
pub mod process;
pub mod programs;
pub mod service;
pub mod skip;
pub mod soak;
pub mod store;
pub mod surroundings;
pub mod told;
pub mod transaction_log;
pub mod upstream;
pub mod wait;
pub mod workdir;
pub mod world;
