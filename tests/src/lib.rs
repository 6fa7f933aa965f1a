//! The real programs on one machine, as in production: stock CoreDNS, `collector`, `ovn-writer` and an `ovsdb-server`
//! with OVN's northbound schema. The tests in `tests/programs` and the demo use it.
//!
//! Everything here panics if an expected event does not happen: that fails the test. [`world::World`] then shows the
//! programs' logs. All sockets are unix sockets in a temporary folder or on a free port of 127.0.0.1. Every process
//! ends with its value, or with the thread that started it.
//!
//! - [`world`]: all of them together; [`workdir`]: their common folder.
//! - [`programs`], [`coredns`], [`ovsdb_server`], [`northbound`], [`kube`]: one server each; [`process`]: their common base.
//! - [`ovnkube`]: rules and sets in ovn-kubernetes' form.
//! - [`surroundings`]: foreign rows in the northbound database.
//! - [`datapath`]: OVN and Open vSwitch, for packets; [`ovn`]: their programs.
//! - [`network`]: a separate network; [`pki`]: certificates; [`chart`]: the Helm chart.
//! - [`upstream`]: a scripted DNS server.
//! - [`dns`], [`store`], [`admin`], [`transaction_log`], [`ovsdb`], [`dnstap`], [`allowed`]:
//!   clients and checks.
//! - [`faults`]: what a person is told of a fault; [`hold`]: queries to forwarders.
//! - [`wait`]: waiting for a condition; [`soak`]: the length of tests.
//! - [`cpu_wakeup`], [`cpu_time`], [`times`], [`traffic`]: for benches; [`page`], [`bar_chart`]: their results in `docs/`.
//! - [`path_latency`]: the time of each leg from an answer to the first packet.
//! - [`skip`]: tests that cannot run on this machine.

pub mod admin;
pub mod allowed;
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
