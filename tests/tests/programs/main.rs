//! The real programs, with real servers around them; one topic per file. scripts/test builds the tools.

mod alerts;
mod capture;
mod corefile;
mod faults;
mod flags;
mod flow;
mod hold;
mod image;
mod inspect;
mod metrics;
mod packets;
mod pages;
mod path;
mod peers;
mod probes;
mod replicas;
mod restarts;
mod soak;
mod wrong_inputs;
