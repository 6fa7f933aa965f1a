//! What look-ups count. No label holds a name or an address.

use runtime::metrics::Label;

use super::result::{FamilyOutcome, LookupResult};
use crate::failure::Failure;

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

runtime::metrics! {
    /// The metrics of look-ups.
    pub const METRICS;

    counter "collector_lookups_total" [Label::one_of("outcome", &["addresses", "no_data", "failed"])]
        "Look-ups of names, A and AAAA together, by what came of them";
    counter "collector_trusted_lookups_total" [Label::one_of("outcome", &["addresses", "no_data", "failed", "skipped"])]
        "Look-ups of names at the name servers of pods (--trusted-nameserver), by what came of them; skipped when too many are under way";
    counter "collector_lookup_failures_total" [REASON] "Look-ups that failed for both families";
    histogram "collector_lookup_lateness_seconds"
        "How long after it was due a look-up began; due is an address's expiry and up to a second of jitter";
    histogram "collector_lookup_duration_seconds" "From a look-up's first query to its end";
    gauge "collector_lookups_in_flight" "Look-ups under way";
    counter "collector_lookup_queries_total" [TRANSPORT] "Queries sent, those sent a second time too";
    counter "collector_lookup_query_failures_total" [REASON] "Queries without an answer that can be read";
    histogram "collector_lookup_query_duration_seconds" [TRANSPORT] "From a query to its answer";
    counter "collector_lookup_truncated_total" "Answers over UDP that were asked for again over TCP";
    gauge "collector_lookup_servers" "DNS servers that may be asked";
    gauge "collector_lookup_servers_silent" "DNS servers that did not answer lately";
}
