//! Events: hand-made, from a real CoreDNS, and compared with prost.

mod coredns;
mod differential;
mod event;
