//! The metrics of names and objects.

use metrics::{counter, gauge};
use names::{Counts, Names};
use runtime::metrics::Label;

use super::publisher::Publisher;
use crate::cluster::networks::Purpose;
use tracing::info;

runtime::metrics! {
    pub const METRICS;

    gauge "egress_collector_names" "Names in rules and names of DNSNameResolver objects; a wildcard counts once";
    gauge "egress_collector_names_without_addresses" "Names in rules without a known address, not counting wildcards";
    gauge "egress_collector_names_left_out" "Names in rules that are left out because their namespaces have too many names: Allow rules open nothing for them, and Deny rules block nothing";
    gauge "egress_collector_namespaces_at_cap" "Namespaces at their cap of names or addresses: further ones are left out";
    counter "egress_collector_addresses_left_out_total"
        "New addresses of names in rules that were left out because their namespaces have as many addresses as they may";
    gauge "egress_collector_objects" "DNSNameResolver objects in the objects namespace";
    gauge "egress_collector_addresses" "Known addresses; an address of two names counts twice";
    gauge "egress_collector_limit_fill_ratio" [Label::one_of("limit", &["addresses_per_name", "names_per_wildcard", "object_size"])]
        "Used part of the limit in the fullest name, wildcard or object. At 1, the addresses that were seen longest ago leave, or names under the wildcard. The addresses that leave a Deny rule are not blocked";
    gauge "egress_collector_lookups_scheduled" "Names that wait to be looked up, or are being looked up";
    counter "egress_collector_lookups_repeated_total" [Label::one_of("reason", &["lost", "gap"])]
        "Names looked up before they were due. `lost`: an answer for this name was dropped. `gap`: dnstap events may have been lost, so every name is looked up";
    counter "egress_collector_wildcard_gaps_total"
        "Times that dnstap events may have been lost while rules had wildcards. Names under a wildcard that were first queried during that time have no address until a pod queries them again";
    counter "egress_collector_clock_gaps_total"
        "Times that the process was suspended, or the clock was set. Names are looked up again before addresses are removed";
    counter "egress_collector_answers_recalled_total" "Answers that the collector had seen before a rule for their name was made, and that the new rule used at once";
    counter "egress_collector_objects_ignored_total" "Times that a DNSNameResolver object was ignored, since its spec.name is no lower-case fully qualified DNS name; the log names it";
    counter "egress_collector_addresses_expired_total" "Addresses removed because their TTL and `--grace` were over, and no look-up or answer had them again";
    counter "egress_collector_retained_addresses_dropped_total"
        "Addresses removed because `--retain` alone kept more than 100 addresses of their name: those seen longest ago leave";
    counter "egress_collector_addresses_refused_total" [Label::one_of("reason", proto::address::GUARDS)]
        "Addresses that the collector refused, by kind: in answers, and among the known ones when it learnt of another network. `deny-answer`: a network in `--deny-answer`. `api-server`, `service-cidr`, `pod-cidr`, `user-defined-network`, `node`: the cluster's own addresses. The other kinds are always refused";
    counter "egress_collector_rebinding_attempts_total"
        "Answers for names in rules, in dnstap streams or to look-ups, with an address that the collector refuses. The Event `AddressRefused` on the EgressFirewall names the name";
    gauge "egress_collector_guarded_networks" [Label::one_of("purpose", Purpose::WORDS)]
        "Networks of the cluster whose addresses the collector refuses, by purpose. 0 if it cannot read them, and the log has the reason; for `node` also with `--allow-node-addresses`";
    counter "egress_collector_evictions_total" [Label::one_of("what", &["address", "name"])]
        "Addresses and names removed because a name, a wildcard or an object was full. `address`: an address left. `name`: a name under a wildcard left, with its addresses. An Event on the DNSNameResolver names them";
    histogram "egress_collector_status_lag_seconds" "Seconds from the receipt of an answer to the stored status with its addresses";
}

/// Totals over all names.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Census {
    pub(crate) addresses: usize,
    /// Names in use without an address, not counting wildcards.
    pub(crate) bare: usize,
    /// The used part of each limit where it is highest: addresses of a name, names of a wildcard,
    /// addresses and names of an object.
    pub(crate) fullest: [f64; 3],
}

impl Census {
    pub(crate) fn new(names: &Names) -> Self {
        let mut census = Self::default();
        for (name, entry) in names.iter() {
            let list = entry.list();
            census.addresses += list.addresses();
            let is_bare = list.is_empty() && !name.is_wildcard();
            census.bare += usize::from(entry.is_used() && is_bare);
            let fill = entry.state().size().fill(list, entry.limits());
            for (most, fill) in census.fullest.iter_mut().zip(fill) {
                *most = most.max(fill);
            }
        }
        census
    }
}

/// Sets the gauges.
pub(super) fn report(publisher: &Publisher) {
    let names = &publisher.names;
    let census = Census::new(names);
    gauge!("egress_collector_names").set(names.len() as f64);
    gauge!("egress_collector_names_without_addresses").set(census.bare as f64);
    gauge!("egress_collector_names_left_out").set(names.names_left_out() as f64);
    gauge!("egress_collector_namespaces_at_cap").set(names.at_cap().count() as f64);
    gauge!("egress_collector_objects").set(publisher.objects.count() as f64);
    gauge!("egress_collector_addresses").set(census.addresses as f64);
    gauge!("egress_collector_lookups_scheduled").set(names.scheduled() as f64);
    let [name, wildcard, object] = census.fullest;
    for (limit, fill) in [
        ("addresses_per_name", name),
        ("names_per_wildcard", wildcard),
        ("object_size", object),
    ] {
        gauge!("egress_collector_limit_fill_ratio", "limit" => limit).set(fill);
    }
}

/// Counts a refused address.
pub(super) fn count_refused(reason: &'static str) {
    counter!("egress_collector_addresses_refused_total", "reason" => reason).increment(1);
}

/// Adds the events to the counters.
pub(super) fn count(counts: &Counts) {
    if *counts == Counts::default() {
        return;
    }
    if counts.backfilled > 0 {
        info!(
            names = counts.backfilled,
            "dnstap events may have been lost: looking up again all names in rules, and the known names under wildcards"
        );
    }
    counter!("egress_collector_addresses_expired_total").increment(counts.expired);
    counter!("egress_collector_retained_addresses_dropped_total")
        .increment(counts.retained_dropped);
    counter!("egress_collector_evictions_total", "what" => "address")
        .increment(counts.evicted_addresses);
    counter!("egress_collector_evictions_total", "what" => "name").increment(counts.evicted_names);
    counter!("egress_collector_addresses_left_out_total").increment(counts.left_out);
    counter!("egress_collector_lookups_repeated_total", "reason" => "lost")
        .increment(counts.asked_after_loss);
    counter!("egress_collector_lookups_repeated_total", "reason" => "gap")
        .increment(counts.backfilled);
    counter!("egress_collector_lost_names_dropped_total").increment(counts.losses_dropped);
    counter!("egress_collector_wildcard_gaps_total").increment(counts.wildcard_gaps);
}
