//! What the owner counts.

use metrics::gauge;
use runtime::{
    metrics::{Label, Metric},
    networks::Purpose,
};

use super::Owner;
use crate::guards;

/// The metrics of the owner.
pub const METRICS: &[Metric] = &[
    Metric::gauge("collector_names", &[], "Names in use, and names of objects"),
    Metric::gauge(
        "collector_names_without_addresses",
        &[],
        "Names in use, wildcards not counted, of which no address is known",
    ),
    Metric::gauge(
        "collector_objects",
        &[],
        "DNSNameResolver objects in the objects namespace",
    ),
    Metric::gauge(
        "collector_addresses",
        &[],
        "Addresses that are known, each name's counted for itself",
    ),
    Metric::gauge(
        "collector_limit_fill_ratio",
        &[Label::one_of(
            "limit",
            &["addresses_per_name", "names_per_wildcard", "object_bytes"],
        )],
        "How full the fullest name, wildcard or object is: from 1 on the oldest-seen addresses go, or of a Deny rule new ones are \
         left out",
    ),
    Metric::gauge(
        "collector_lookups_scheduled",
        &[],
        "Names that wait to be looked up, or are being looked up",
    ),
    Metric::counter(
        "collector_lookups_repeated_total",
        &[Label::one_of("reason", &["lost", "gap"])],
        "Names to be asked for again before their time: their answer was lost, or they are wanted and anything may have been missed",
    ),
    Metric::counter(
        "collector_wildcard_gaps_total",
        &[],
        "Times that events may have been missed while wildcards were wanted: names first seen meanwhile are not known until they \
         are asked for again",
    ),
    Metric::counter(
        "collector_clock_gaps_total",
        &[],
        "Times that the process slept, or the clock was set: names are looked up again before addresses are removed",
    ),
    Metric::counter(
        "collector_answers_recalled_total",
        &[],
        "Answers that were remembered for a rule that came later",
    ),
    Metric::counter(
        "collector_objects_ignored_total",
        &[],
        "DNSNameResolver objects with an unusable spec.name",
    ),
    Metric::counter(
        "collector_addresses_expired_total",
        &[],
        "Addresses removed because expiry and grace were over",
    ),
    Metric::counter(
        "collector_addresses_purged_total",
        &[Label::one_of("reason", guards::REASONS)],
        "Addresses that were let in before a guard came that refuses them",
    ),
    Metric::gauge(
        "collector_guarded_networks",
        &[Label::one_of("purpose", Purpose::WORDS)],
        "Networks of the cluster's own whose addresses are refused, by what they are for",
    ),
    Metric::counter(
        "collector_evictions_total",
        &[Label::one_of("what", &["address", "name"])],
        "Addresses and names removed because a limit was reached",
    ),
    Metric::histogram(
        "collector_status_lag_seconds",
        &[],
        "From an observation to the stored status that has it",
    ),
];

impl Owner {
    /// Sets the gauges.
    pub fn report(&self) {
        let (mut addresses, mut bare) = (0, 0);
        let mut fullest = [0.0_f64; 3];
        for entry in self.entries.values() {
            addresses += entry.memory.addresses();
            let is_bare = entry.memory.is_empty() && !entry.memory.spec().is_wildcard();
            bare += usize::from(entry.wanted && is_bare);
            for (most, fill) in fullest.iter_mut().zip(entry.memory.fill(&entry.limits)) {
                *most = most.max(fill);
            }
        }
        gauge!("collector_names").set(self.entries.len() as f64);
        gauge!("collector_names_without_addresses").set(bare as f64);
        gauge!("collector_objects").set(self.objects.len() as f64);
        gauge!("collector_addresses").set(addresses as f64);
        gauge!("collector_lookups_scheduled").set(self.schedule.len() as f64);
        let [name, wildcard, object] = fullest;
        for (limit, fill) in [
            ("addresses_per_name", name),
            ("names_per_wildcard", wildcard),
            ("object_bytes", object),
        ] {
            gauge!("collector_limit_fill_ratio", "limit" => limit).set(fill);
        }
    }
}
