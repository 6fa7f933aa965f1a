//! The real programs on one machine, as in production: stock CoreDNS, `collector`, `ovn-writer` and an `ovsdb-server`
//! with OVN's northbound schema. The tests in `tests/programs` and the demo use it.
//!
//! Everything here panics if an expected event does not happen: that fails the test. [`world::World`] then shows the
//! programs' logs. All sockets are unix sockets in a temporary folder or on a free port of 127.0.0.1. Every process
//! ends with its value, or with the thread that started it.

pub mod admin;
pub mod bar_chart;
pub mod chart;
pub mod coredns;
pub mod cpu_time;
pub mod cpu_wakeup;
pub mod datapath;
pub mod dns;
pub mod dnstap;
pub mod faults;
pub mod hold;
pub mod kube;
pub mod network;
pub mod node;
pub mod northbound;
pub mod ovn;
pub mod ovnkube;
pub mod ovsdb;
pub mod ovsdb_server;
pub mod page;
pub mod path_latency;
pub mod pki;
pub mod process;
pub mod programs;
pub mod skip;
pub mod soak;
pub mod store;
pub mod surroundings;
pub mod times;
pub mod traffic;
pub mod transaction_log;
pub mod upstream;
pub mod wait;
pub mod workdir;
pub mod world;
