//! What ingest counts. A reader adds to plain numbers of its own and gives them over a read at a time, so that no atomic
//! is shared for each frame.

use std::{collections::BTreeMap, net::IpAddr};

use metrics::{Counter, counter};
use proto::api::DnsName;
use runtime::metrics::Label;

use crate::{guards, notices::Rebinding, observation::Provenance};

/// So many answers of a read with refused addresses are told of; the others are counted.
const MAX_REBINDINGS: usize = 8;

macro_rules! outcomes {
    ($($(#[doc = $doc:literal])* $name:ident = $label:literal,)*) => {
        /// What came of a data frame: the label `outcome` of `collector_events_total`.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum Outcome { $($(#[doc = $doc])* $name,)* }

        impl Outcome {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The label.
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
    /// A wanted name, which this collector or another one asked for: it learns from the reply.
    Collector = "collector",
    /// The same answer, of the same stream, within the same tenth of a second as one that was an observation.
    Repeated = "repeated",
    /// The frame is no dnstap event (protobuf).
    BadEvent = "bad_event",
    /// The event is not a CLIENT_RESPONSE.
    OtherKind = "other_kind",
    /// The event does not show the secret that it has to (`--secret-file`).
    WrongSecret = "wrong_secret",
    /// There is no DNS message in it: the Corefile's `dnstap` line lacks `full`.
    NoMessage = "no_message",
    /// The DNS message is malformed.
    BadMessage = "bad_message",
    /// The answer is not NOERROR.
    Failure = "failure",
    /// The question is not for A or AAAA in class IN.
    OtherType = "other_type",
    /// No rule wants the name.
    NotWanted = "not_wanted",
    /// A wildcard wants the name, but no DNSNameResolver can hold it (such as `a_b.example.com`).
    BadName = "bad_name",
    /// A wildcard wants the name, which is new, and its client asked for too many of them (`--new-names-rate`).
    NewName = "new_name_over_rate",
    /// A successful answer without an address.
    NoAddress = "no_address",
    /// Every address was refused by the guards.
    Refused = "refused",
}

/// The counts since the last [`Counts::flush`].
#[derive(Debug)]
pub struct Counts {
    pending: [u64; LABELS.len()],
    counters: Vec<Counter>,
    refused: BTreeMap<&'static str, u64>,
    rebound: u64,
    rebindings: Vec<Rebinding>,
}

impl Default for Counts {
    fn default() -> Self {
        let counters = LABELS
            .iter()
            .map(|label| counter!("collector_events_total", "outcome" => *label));
        Self {
            pending: [0; LABELS.len()],
            counters: counters.collect(),
            refused: BTreeMap::new(),
            rebound: 0,
            rebindings: Vec::new(),
        }
    }
}

impl Counts {
    /// One more event.
    pub fn add(&mut self, outcome: Outcome) {
        if let Some(count) = self.pending.get_mut(outcome as usize) {
            *count += 1;
        }
    }

    /// One more address that the guards refused.
    pub fn refuse(&mut self, reason: &'static str) {
        *self.refused.entry(reason).or_default() += 1;
    }

    /// A wanted name was answered with a refused address.
    pub fn rebound(
        &mut self,
        name: &DnsName,
        address: IpAddr,
        reason: &'static str,
        source: Provenance,
    ) {
        self.rebound += 1;
        let is_known = |it: &Rebinding| (&it.name, it.address) == (name, address);
        if self.rebindings.len() < MAX_REBINDINGS && !self.rebindings.iter().any(is_known) {
            self.rebindings.push(Rebinding {
                name: name.clone(),
                address,
                reason,
                source,
            });
        }
    }

    /// Only now it is known where these answers were seen.
    pub fn set_source_of_rebindings(&mut self, source: Provenance) {
        for rebinding in &mut self.rebindings {
            rebinding.source = source;
        }
    }

    /// Whether there was such an answer since [`Counts::take_rebindings`].
    pub fn has_rebindings(&self) -> bool {
        self.rebound > 0
    }

    /// How many such answers there were since the last call, and a few of them.
    pub fn take_rebindings(&mut self) -> (Vec<Rebinding>, u64) {
        (
            std::mem::take(&mut self.rebindings),
            std::mem::take(&mut self.rebound),
        )
    }

    /// How many events of this outcome there were since the last flush.
    pub fn pending(&self, outcome: Outcome) -> u64 {
        self.pending.get(outcome as usize).copied().unwrap_or(0)
    }

    /// Whether any event since the last flush showed the secret that it has to, if there is one.
    pub fn shows_secret(&self) -> bool {
        use Outcome::{BadEvent, OtherKind, WrongSecret};
        let mut outcomes = Outcome::ALL.iter();
        outcomes
            .any(|it| !matches!(it, BadEvent | OtherKind | WrongSecret) && self.pending(*it) > 0)
    }

    /// How many addresses the guards refused since the last flush, by reason.
    pub fn refused(&self) -> &BTreeMap<&'static str, u64> {
        &self.refused
    }

    /// Gives the counts over to the metrics.
    pub fn flush(&mut self) {
        for (count, counter) in self.pending.iter_mut().zip(&self.counters) {
            if *count > 0 {
                counter.increment(std::mem::take(count));
            }
        }
        for (reason, count) in std::mem::take(&mut self.refused) {
            counter!("collector_addresses_refused_total", "reason" => reason).increment(count);
        }
    }
}

const REASON: &str = "reason";

runtime::metrics! {
    /// The metrics of ingest.
    pub const METRICS;

    counter "collector_events_total" [Label::one_of("outcome", LABELS)] "dnstap events by what came of them";
    counter "collector_addresses_refused_total" [Label::one_of(REASON, guards::REASONS)] "Addresses in answers that are never programmed";
    counter "collector_rebinding_attempts_total"
        "Answers for wanted names, of CoreDNS or to our own look-ups, with an address that is never programmed";
    counter "collector_connections_accepted_total" [Label::any("listener", "the URL")] "Connections from dnstap senders";
    gauge "collector_connections" "Connections from dnstap senders that are open";
    counter "collector_connection_errors_total" [Label::one_of(REASON, ERRORS)] "Connections that were refused, or ended with an error";
    counter "collector_read_pauses_total" "Times that a peer was not read on for a moment, since it sends more frames than it may";
    counter "collector_received_bytes_total" "Bytes read from dnstap senders";
    counter "collector_observations_lost_total" [Label::one_of(REASON, &["queue", "peer_share", "unknown_peer"])]
        "Observations dropped: the queue was full, or the part of it that one peer may fill, or what waits for a peer to become known";
    counter "collector_stream_gaps_total" [Label::one_of(REASON, &["start", "broken", "reopened", "unknown_peer"])]
        "Times that events may have been missed, so that every wanted name was to be asked for again: one opened after the start, a \
         stream broke, one came back that had broken, or too much came from a peer that was not known yet";
    counter "collector_lost_names_dropped_total"
        "Lost observations of which not even the name was kept, or not asked for, as there were too many: what was first seen under a \
         wildcard is lost until a pod asks again";
    counter "collector_capture_lost_bytes_total" "Bytes of events that are not in a capture, since it was not taken fast enough";
    histogram "collector_observation_delay_seconds" "From the DNS server's answer to its observation, by the two clocks";
}

/// Why connections are refused and why they end: [`super::error::Error::reason`], [`super::connection_limits::LimitExceeded::reason`] and what
/// listeners say.
const ERRORS: &[&str] = &[
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
    "peer_credentials",
    "too_many",
    "too_many_of_peer",
    "too_many_unknown",
];
