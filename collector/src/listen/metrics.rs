//! The metrics of ingest. A reader counts in plain integers and adds them to the metrics once a
//! read, so readers share no atomic for each frame.

use metrics::{Counter, counter};
use runtime::metrics::Label;

macro_rules! outcomes {
    ($($(#[doc = $doc:literal])* $name:ident = $label:literal,)*) => {
        /// The outcome of a data frame: the label `outcome` of `egress_collector_events_total`.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum Outcome { $($(#[doc = $doc])* $name,)* }

        impl Outcome {
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            pub fn label(self) -> &'static str {
                match self { $(Self::$name => $label,)* }
            }
        }

        const LABELS: &[&str] = &[$($label,)*];
    };
}

outcomes! {
    /// An observation: a successful answer for a wanted name.
    Observed = "observed",
    /// The same of a message that is cut off or has a bad record: what is good in it counts.
    Partial = "partial",
    /// A reply to a collector's own look-up of a wanted name: the collector uses the reply
    /// itself.
    Collector = "collector",
    /// The same answer in the same stream within a tenth of a second.
    Repeated = "repeated",
    /// The frame is no dnstap event (protobuf).
    BadEvent = "bad_event",
    /// The event is not a CLIENT_RESPONSE.
    OtherKind = "other_kind",
    /// The event lacks the secret (`--secret-file`).
    WrongSecret = "wrong_secret",
    /// The event has no DNS message: the Corefile's `dnstap` line lacks `full`.
    NoMessage = "no_message",
    /// The DNS message is malformed.
    BadMessage = "bad_message",
    /// The answer is not NOERROR.
    Failure = "failure",
    /// The question is not for A or AAAA in class IN.
    OtherType = "other_type",
    /// No rule wants the name.
    NotWanted = "not_wanted",
    /// The chain of CNAME records is too long, or a loop.
    BadChain = "bad_chain",
    /// A successful answer without an address.
    NoAddress = "no_address",
}

/// The counts since the last [`Counts::flush`].
#[derive(Debug)]
pub struct Counts {
    pending: [u64; LABELS.len()],
    counters: Vec<Counter>,
}

impl Default for Counts {
    fn default() -> Self {
        let counters = LABELS
            .iter()
            .map(|label| counter!("egress_collector_events_total", "outcome" => *label));
        Self {
            pending: [0; LABELS.len()],
            counters: counters.collect(),
        }
    }
}

impl Counts {
    pub fn add(&mut self, outcome: Outcome) {
        if let Some(count) = self.pending.get_mut(outcome as usize) {
            *count += 1;
        }
    }

    /// The number of events with this outcome since the last flush.
    pub fn pending(&self, outcome: Outcome) -> u64 {
        self.pending.get(outcome as usize).copied().unwrap_or(0)
    }

    /// Whether an event since the last flush showed the secret. Always true if none is required.
    pub fn shows_secret(&self) -> bool {
        use Outcome::{BadEvent, OtherKind, WrongSecret};
        let mut outcomes = Outcome::ALL.iter();
        outcomes.any(|outcome| {
            !matches!(outcome, BadEvent | OtherKind | WrongSecret) && self.pending(*outcome) > 0
        })
    }

    /// Adds the counts to the metrics.
    pub fn flush(&mut self) {
        for (count, counter) in self.pending.iter_mut().zip(&self.counters) {
            if *count > 0 {
                counter.increment(std::mem::take(count));
            }
        }
    }
}

const REASON: &str = "reason";

runtime::metrics! {
    /// The metrics of ingest.
    pub const METRICS;

    counter "egress_collector_events_total" [Label::one_of("outcome", LABELS)] "dnstap events. `observed`: used. `partial`: cut off or with a bad record, the rest of it is used. `collector`: answer to a collector's own look-up. `repeated`: same answer within 0.1 s. `not_wanted`: no rule has the name. `other_kind`: no response to a client. `other_type`: neither A nor AAAA. `failure`: not NOERROR. `no_address`: NOERROR without an address. All others are answers that are lost by a fault. `wrong_secret`: no valid secret. `no_message`: the `dnstap` line lacks `full`. `bad_event`: no dnstap. `bad_message`: no valid DNS message. `bad_chain`: more than 32 CNAME records, or a loop";
    counter "egress_collector_connections_accepted_total" [Label::any("listener", "the URL")] "Connections from dnstap senders";
    gauge "egress_collector_connections" "Open connections from dnstap senders";
    counter "egress_collector_connection_errors_total" [Label::one_of(REASON, ERRORS)] "Connections that were refused, or ended with an error. `unknown_peer`: no EndpointSlice and no `--allow-peer` has the address. `host_network`: a DNS server with the address of a Node, without `--secret-file` and `--allow-peer`. `too_many`: more than 1,000 in all. `too_many_of_peer`: more than 64 of one peer. `too_many_unknown`: unknown peers have half of all connections. `handshake_timeout`: the peer began no stream in time. `frame_timeout`: a frame took longer than 30 s. `handshake`, `frame`: not valid as Frame Streams. `truncated`: the stream ended within a frame. `tls`, `read`, `write`: an error of TLS or of the network. `accept`: no connection could be accepted, as without free file descriptors";
    counter "egress_collector_received_bytes_total" "Bytes read from dnstap senders";
    counter "egress_collector_observations_lost_total" [Label::one_of(REASON, &["queue", "peer_share"])]
        "Answers that were dropped; their names are looked up at once. `queue`: the queue was full. `peer_share`: the quarter of the queue for one sender was full";
    counter "egress_collector_stream_gaps_total" [Label::one_of(REASON, &["opened", "broken"])]
        "Times that dnstap events may have been lost, so that all names are looked up, once a minute at most. `opened`: a stream opened. `broken`: a stream broke";
    counter "egress_collector_lost_names_dropped_total"
        "Dropped answers whose names were not looked up, since too many names waited. Such a name under a wildcard has no address until a pod queries it again";
    counter "egress_collector_capture_lost_bytes_total" "Bytes of events missing from `egress capture` or `egress learn`, which did not read fast enough";
    histogram "egress_collector_observation_delay_seconds" "Seconds from the DNS server's answer to its receipt, by the clocks of the two hosts";
}

/// The reasons why connections are refused or end: [`super::error::Error::reason`],
/// [`super::connection_table::ConnectionTable::permit`], and those of listeners.
const ERRORS: &[&str] = &[
    "accept",
    "read",
    "write",
    "tls",
    "handshake",
    "truncated",
    "frame",
    "handshake_timeout",
    "frame_timeout",
    "unknown_peer",
    "host_network",
    "too_many",
    "too_many_of_peer",
    "too_many_unknown",
];
