//! The real programs, with real servers around them; one topic per file. scripts/test builds the tools.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests"
)]

mod absence;
mod addresses;
mod alerts;
mod api;
mod archive;
mod bad_input;
mod capture;
mod check;
mod clock;
mod compare;
mod corefile;
mod dashboard;
mod ends;
mod expiry;
mod explain;
mod flags;
mod flow;
mod image;
mod inspect;
mod loads;
mod lookups;
mod malformed_input;
mod metrics;
mod overload;
mod packets;
mod pages;
mod path;
mod peers;
mod policies;
mod probes;
mod release;
mod replicas;
mod restarts;
mod rules;
mod senders;
mod soak;
mod sources;
mod start;
mod versions;
