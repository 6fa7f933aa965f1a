//! Flush probes: queries of our own that make CoreDNS's dnstap stream early, and tell which DNS servers have none.
//!
//! CoreDNS writes dnstap through a buffer of 4 KiB that it flushes once a second. A query over TCP with 4,100 octets of padding
//! stands in the stream as a CLIENT_QUERY that does not fit the buffer, so that all that waits there goes out at once. The
//! query is for a name that the server answers by itself, always the same one; what tells probes apart stands in the padding.
//!
//! Each server block has a buffer, and a stream, of its own: what is probed is a *block*, a server and one of the names
//! (`--flush-name`). Which stream is which block's is learned from the probes themselves: it is the one in which they come back.
//! So it does not matter whether streams come over TCP or a unix socket, nor how servers and streams are addressed.
//!
//! A probe flushes the buffers of all `dnstap` lines of its block, so one collector is enough. A collector that sees another's
//! probe in its own stream in time does not send.
//!
//! - [`probe`]: the query, and how it is known again; [`streams`]: what readers tell of their streams.
//! - [`schedule`]: when. [`plan`]: for all blocks. Neither does IO.
//! - [`prober`]: the connection to one server; [`task`]: the task that holds all together.

pub mod plan;
pub mod probe;
pub mod prober;
pub mod schedule;
pub mod streams;
pub mod target;
pub mod task;
pub mod view;

pub use self::{probe::Template, streams::Streams, task::run, view::BlockView};

use runtime::metrics::{Label, Metric};

runtime::metrics! {
    /// The metrics of probes.
    pub const METRICS;

    counter "collector_flush_probes_total" "Queries sent to DNS servers to push their dnstap streams out";
    counter "collector_flush_probes_skipped_total"
        "Probes that were due and not sent: the server cannot be reached, or has not answered those before";
    counter "collector_flush_reports_lost_total" "Probes that came back in a stream and were not looked at, as there were too many";
    histogram "collector_flush_delay_seconds" "From a probe to the arrival of all that the DNS server had held back of its stream";
    gauge "collector_flush_interval_seconds" "How often a stream is pushed out, as far as the budget goes";
    gauge "collector_dns_blocks" [Label::one_of("state", plan::State::WORDS)]
        "Server blocks of DNS servers, by how things stand with their dnstap streams";
    + DNS_BLOCK_BLIND;
}

/// Its series go with the blocks.
const DNS_BLOCK_BLIND: Metric = Metric::gauge(
    "collector_dns_block_blind",
    &[
        Label::any("server", "its address and port"),
        Label::any("name", "the name by which the block is probed"),
    ],
    "1 for a DNS server's block of which no dnstap event has come for 30 s though it was probed, 0 for the others",
);
