//! Flush probes: queries of the collector that make CoreDNS send its dnstap events early, and that
//! find DNS servers that are not streaming.
//!
//! CoreDNS writes dnstap through a buffer of 4 KiB that it flushes once a second. A query over TCP
//! with 4,100 octets of padding becomes a CLIENT_QUERY event that does not fit the buffer. So
//! CoreDNS flushes everything before it at once. The query is always for the same name, one that
//! the server answers by itself. A random number in the padding identifies the probe.
//!
//! Each server block of a CoreDNS has its own buffer. So each name (`--flush-name`) stands for a
//! block, and every server gets a probe for each name in every interval. A probe may come back in
//! any stream. The probes of other collectors are ignored.
//!
//! - [`probe`]: the query, how it is recognized, and the reports of the readers.
//! - [`block`]: what is known of one block. [`plan`]: the probes to send. Neither does IO.
//! - [`prober`]: the connection to one server. [`task`]: the task that runs all of it.

pub mod block;
pub mod coverage;
pub mod plan;
pub mod probe;
pub mod prober;
pub mod task;

pub use self::{
    block::{BlockState, BlockView},
    probe::{ProbeReports, Template},
    task::run,
};

use runtime::metrics::{Label, Metric};

runtime::metrics! {
    pub const METRICS;

    counter "egress_collector_flush_probes_total" "Flush probes sent: padded DNS queries that make a DNS server send its buffered dnstap events";
    counter "egress_collector_flush_probes_skipped_total"
        "Flush probes that were due but not sent, since the server is unreachable or has not answered earlier ones";
    counter "egress_collector_flush_reports_lost_total" "Flush probes that came back in a stream and were dropped, since more than 4,096 waited. No answer is lost";
    histogram "egress_collector_flush_delay_seconds" "From a probe to the arrival of the events that the DNS server had buffered";
    gauge "egress_collector_dns_blocks" [Label::one_of("state", BlockState::WORDS)]
        "Server blocks of DNS servers, by the results of their flush probes. Good: `streaming` (probes come back). For less than 30 s: `trying` (waits for the first probe). Bad: `not_streaming` (no probe came back for 30 s: answers are not seen), `forwards` (the block forwards probes, so answers come up to a second late)";
    + NOT_STREAMING;
}

/// Its series are removed with the blocks.
const NOT_STREAMING: Metric = Metric::gauge(
    "egress_collector_dns_block_not_streaming",
    &[
        Label::any("server", "its address and port"),
        Label::any("name", "the name by which the block is probed"),
    ],
    "1 for a server block none of whose flush probes came back as a dnstap event for 30 s; 0 for the others. Its answers are not seen",
);
