//! Events: by hand, from a real CoreDNS, and next to prost.

mod coredns;
mod differential;
mod event;
