//! What look-ups count. No label holds a name or an address.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use runtime::metrics::{Label, Metric};

use super::{
    pool::Transport,
    result::{FamilyOutcome, LookupResult},
};
use crate::failure::Failure;

/// Handles of what is counted for every look-up.
#[derive(Clone)]
pub(super) struct Metrics {
    addresses: Counter,
    no_data: Counter,
    failed: Counter,
    lateness: Histogram,
    seconds: Histogram,
    udp_seconds: Histogram,
    tcp_seconds: Histogram,
    udp: Counter,
    tcp: Counter,
    truncated: Counter,
    in_flight: Gauge,
    servers: Gauge,
    silent: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let rounds = |outcome| counter!("collector_lookups_total", "outcome" => outcome);
        let queries =
            |transport| counter!("collector_lookup_queries_total", "transport" => transport);
        let seconds = |transport| histogram!("collector_lookup_query_duration_seconds", "transport" => transport);
        Self {
            addresses: rounds("addresses"),
            no_data: rounds("no_data"),
            failed: rounds("failed"),
            lateness: histogram!("collector_lookup_lateness_seconds"),
            seconds: histogram!("collector_lookup_duration_seconds"),
            udp_seconds: seconds("udp"),
            tcp_seconds: seconds("tcp"),
            udp: queries("udp"),
            tcp: queries("tcp"),
            truncated: counter!("collector_lookup_truncated_total"),
            in_flight: gauge!("collector_lookups_in_flight"),
            servers: gauge!("collector_lookup_servers"),
            silent: gauge!("collector_lookup_servers_silent"),
        }
    }
}

impl Metrics {
    /// Counts UDP queries, those that are sent a second time too.
    pub(super) fn datagrams(&self) -> Counter {
        self.udp.clone()
    }

    /// A look-up begins so long after it was due.
    pub(super) fn late(&self, late: Duration) {
        self.lateness.record(late);
    }

    pub(super) fn result(&self, result: &LookupResult, took: Duration) {
        match outcome(result) {
            "addresses" => self.addresses.increment(1),
            "no_data" => self.no_data.increment(1),
            _ => self.failed.increment(1),
        }
        if let Some(failure) = result.failed() {
            counter!("collector_lookup_failures_total", "reason" => failure.label()).increment(1);
        }
        self.seconds.record(took);
    }

    /// What became of a look-up at the servers beside the others.
    pub(super) fn auxiliary_servers(&self, outcome: &'static str) {
        counter!("collector_trusted_lookups_total", "outcome" => outcome).increment(1);
    }

    pub(super) fn tcp_query(&self) {
        self.tcp.increment(1);
    }

    /// `cut`: whether it is asked again over TCP.
    pub(super) fn answered(&self, transport: Transport, cut: bool, took: Duration) {
        match transport {
            Transport::Udp => self.udp_seconds.record(took),
            Transport::Tcp => self.tcp_seconds.record(took),
        }
        if cut {
            self.truncated.increment(1);
        }
    }

    pub(super) fn query_failed(&self, failure: Failure) {
        counter!("collector_lookup_query_failures_total", "reason" => failure.label()).increment(1);
    }

    pub(super) fn refused(&self, reason: &'static str) {
        counter!("collector_addresses_refused_total", "reason" => reason).increment(1);
    }

    pub(super) fn in_flight(&self, rounds: usize) {
        self.in_flight.set(rounds as f64);
    }

    pub(super) fn servers(&self, all: usize, silent: usize) {
        self.servers.set(all as f64);
        self.silent.set(silent as f64);
    }
}

/// What a round gave, as a label.
pub(super) fn outcome(result: &LookupResult) -> &'static str {
    let found = |outcome: &FamilyOutcome| matches!(outcome, FamilyOutcome::Addresses { .. });
    match result.failed() {
        Some(_) => "failed",
        None if found(&result.v4) || found(&result.v6) => "addresses",
        None => "no_data",
    }
}

const TRANSPORT: Label = Label::one_of("transport", &["udp", "tcp"]);

const REASON: Label = Label::one_of("reason", Failure::LABELS);

/// The metrics of look-ups.
pub const METRICS: &[Metric] = &[
    Metric::counter(
        "collector_lookups_total",
        &[Label::one_of(
            "outcome",
            &["addresses", "no_data", "failed"],
        )],
        "Look-ups of names, A and AAAA together, by what came of them",
    ),
    Metric::counter(
        "collector_trusted_lookups_total",
        &[Label::one_of(
            "outcome",
            &["addresses", "no_data", "failed", "skipped"],
        )],
        "Look-ups of names at the name servers of pods (--trusted-nameserver), by what came of them; skipped when too many are under way",
    ),
    Metric::counter(
        "collector_lookup_failures_total",
        &[REASON],
        "Look-ups that failed for both families",
    ),
    Metric::histogram(
        "collector_lookup_lateness_seconds",
        &[],
        "How long after it was due a look-up began; due is an address's expiry and up to a second of jitter",
    ),
    Metric::histogram(
        "collector_lookup_duration_seconds",
        &[],
        "From a look-up's first query to its end",
    ),
    Metric::gauge("collector_lookups_in_flight", &[], "Look-ups under way"),
    Metric::counter(
        "collector_lookup_queries_total",
        &[TRANSPORT],
        "Queries sent, those sent a second time too",
    ),
    Metric::counter(
        "collector_lookup_query_failures_total",
        &[REASON],
        "Queries without an answer that can be read",
    ),
    Metric::histogram(
        "collector_lookup_query_duration_seconds",
        &[TRANSPORT],
        "From a query to its answer",
    ),
    Metric::counter(
        "collector_lookup_truncated_total",
        &[],
        "Answers over UDP that were asked for again over TCP",
    ),
    Metric::gauge(
        "collector_lookup_servers",
        &[],
        "DNS servers that may be asked",
    ),
    Metric::gauge(
        "collector_lookup_servers_silent",
        &[],
        "DNS servers that did not answer lately",
    ),
];
