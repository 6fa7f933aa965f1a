//! The metrics of look-ups. No label contains a name or an address.

use runtime::metrics::Label;

use names::{Failure, LookupResult};

/// The value of the label `outcome`.
pub(super) fn outcome(result: &LookupResult) -> &'static str {
    match result.failed() {
        Some(_) => "failed",
        None if result.v4.has_addresses() || result.v6.has_addresses() => "addresses",
        None => "no_data",
    }
}

const TRANSPORT: Label = Label::one_of("transport", &["udp", "tcp"]);

const REASON: Label = Label::one_of("reason", Failure::LABELS);

runtime::metrics! {
    pub const METRICS;

    counter "egress_collector_lookups_total" [Label::one_of("outcome", &["addresses", "no_data", "failed"])]
        "Look-ups of names, A and AAAA together. `no_data`: NOERROR without an address. `failed`: no server answered NOERROR, neither for IPv4 nor for IPv6; NXDOMAIN counts here";
    counter "egress_collector_lookup_failures_total" [REASON] "Look-ups that failed: no server answered NOERROR, neither for IPv4 nor for IPv6. Most reasons are response codes; NXDOMAIN is normal for names that do not exist. `Timeout`: no server answered. `Network`: no server could be reached. `BadReply`: the answer cannot be decoded. `NoServer`: the collector knows no DNS server";
    histogram "egress_collector_lookup_lateness_seconds"
        "Delay of look-ups: from the time due to the start; due is an address's expiry plus up to a second of jitter";
    histogram "egress_collector_lookup_duration_seconds" "From a look-up's first query to its end";
    gauge "egress_collector_lookups_in_flight" "Look-ups in progress";
    counter "egress_collector_lookup_queries_total" [TRANSPORT] "Queries sent, including datagrams sent again";
    counter "egress_collector_lookup_query_failures_total" [Label::one_of("reason", &["Timeout", "Network", "BadReply"])] "Queries without an answer that can be decoded. `Timeout`: the server did not answer in time. `Network`: the server cannot be reached. `BadReply`: the answer cannot be decoded. Answers with a response code such as SERVFAIL do not count here";
    histogram "egress_collector_lookup_query_duration_seconds" [TRANSPORT] "From a query to its answer";
    counter "egress_collector_lookup_truncated_total" "Truncated answers over UDP, whose query was repeated over TCP";
    gauge "egress_collector_lookup_servers" "DNS servers that look-ups may query";
    gauge "egress_collector_lookup_servers_silent" "DNS servers that did not answer the last queries; look-ups use the others";
}
