//! Flush probes: queries of the collector that make CoreDNS send its dnstap stream early, and that
//! find DNS servers without a stream.
//!
//! CoreDNS writes dnstap through a buffer of 4 KiB that it flushes once a second. A query over TCP
//! with 4,100 octets of padding becomes a CLIENT_QUERY event that does not fit the buffer. So
//! CoreDNS flushes everything before it at once. The query is always for the same name, one that
//! the server answers by itself. The padding identifies the probe.
//!
//! Each server block has its own buffer and stream. So the unit of probing is a *block*: a server
//! and one of the names (`--flush-name`). A probe shows which stream belongs to its block: the one
//! in which it comes back. So streams may come over TCP or a unix socket, and addresses of servers
//! and streams need not match.
//!
//! A probe flushes the buffers of all `dnstap` lines of its block, so one collector is enough. A
//! collector that sees another's probe in its own stream in time does not send one.
//!
//! - [`probe`]: the query, and how it is recognized. [`streams`]: reports of the readers.
//! - [`schedule`]: when a probe is due. [`plan`]: the same for all blocks. Neither does IO.
//! - [`prober`]: the connection to one server. [`task`]: the task that runs all of it.

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
    pub const METRICS;

    counter "egress_collector_flush_probes_total" "Flush probes sent: padded DNS queries that make a DNS server send its buffered dnstap events";
    counter "egress_collector_flush_probes_skipped_total"
        "Flush probes that were due but not sent, since the server is unreachable or has not answered earlier ones";
    counter "egress_collector_flush_reports_lost_total" "Flush probes that came back in a stream and were dropped, since more than 4,096 waited. Streams may then be probed more often; no answer is lost";
    histogram "egress_collector_flush_delay_seconds" "From a probe to the arrival of the events that the DNS server had buffered";
    gauge "egress_collector_flush_interval_seconds" "Seconds between two flush probes of a stream: `--flush-probe`, or more if there are over 1,000 probes a second in all";
    gauge "egress_collector_dns_blocks" [Label::one_of("state", plan::BlockState::WORDS)]
        "Server blocks of DNS servers, by the state of their dnstap streams. Good: `resting` (no rule has a name, so no probes), `flushed` (stream received, probed by this collector), `standby` (stream received, probed by another collector). For less than 30 s: `trying` (first probe under way), `searching` (no probe came back yet, or not lately). Bad: `blind` (none for 30 s: answers are not seen), `forwards` (the block forwards probes, so answers come up to a second late)";
    + DNS_BLOCK_BLIND;
}

/// Its series are removed with the blocks.
const DNS_BLOCK_BLIND: Metric = Metric::gauge(
    "egress_collector_dns_block_blind",
    &[
        Label::any("server", "its address and port"),
        Label::any("name", "the name by which the block is probed"),
    ],
    "1 for a server block whose dnstap events have not arrived for 30 s, although the collector probes it; 0 for the others. Its answers are not seen",
);
