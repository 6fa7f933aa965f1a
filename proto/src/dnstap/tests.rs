//! Events: hand-made, and from a real CoreDNS.

mod coredns;
mod event;
