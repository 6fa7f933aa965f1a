//! The metrics of the program, in one place.

use std::time::Instant;

use metrics::{counter, gauge, histogram};
use runtime::metrics::{Label, Metric};

use crate::{facts, plan::Planner};

pub const METRICS: &[&[Metric]] = &[
    WRITER,
    runtime::metrics::process::METRICS,
    runtime::store::METRICS,
    runtime::leader::METRICS,
    runtime::kube_events::METRICS,
];

runtime::metrics! {
    const WRITER;

    gauge RESOLVERS = "egress_policy_writer_dnsresolvers" [Label::one_of("ready", &["true", "false"])] "DNSResolver objects, by `status.ready`";
    gauge NAMES = "egress_policy_writer_names" "Different DNS names in the DNSResolver objects";
    gauge ADDRESSES = "egress_policy_writer_addresses" "Addresses in the objects of all DNSResolvers together";
    gauge LEFT_OUT = "egress_policy_writer_left_out_addresses" "Addresses that are left out, since an object has at most 5,000; the condition LimitExceeded has the names";
    gauge LEFT_OUT_NAMES = "egress_policy_writer_left_out_names" "Names that are left out, since a DNSResolver has at most 500";
    gauge NAME_TAKEN = "egress_policy_writer_name_taken" "DNSResolvers with an object of their name that belongs to another owner; it is left alone";
    gauge DNS_BLOCKED = "egress_policy_writer_dns_blocked" "DNSResolvers in whose namespace no NetworkPolicy lets pods reach DNS";
    counter UNDONE = "egress_policy_writer_foreign_changes_total" "Changes and deletions of the program's objects by other accounts, which it put right. Steady growth shows that two programs write the same objects";
    histogram LAG = "egress_policy_writer_sync_lag_seconds" "The time from a change in the store until all objects of a DNSResolver were written. It includes the pause of a second between two writes";
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of things in memory are far below 2^52"
)]
fn set(name: &'static str, count: usize) {
    gauge!(name).set(count as f64);
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of things in memory are far below 2^52"
)]
pub(crate) fn update(planner: &Planner) {
    let totals = facts::totals(planner);
    for (ready, count) in [
        ("true", totals.ready),
        ("false", totals.resolvers.saturating_sub(totals.ready)),
    ] {
        gauge!(RESOLVERS, "ready" => ready).set(count as f64);
    }
    set(NAMES, totals.names);
    set(ADDRESSES, totals.addresses);
    set(LEFT_OUT, totals.left_out_addresses);
    set(LEFT_OUT_NAMES, totals.left_out_names);
    set(NAME_TAKEN, totals.name_taken);
    set(DNS_BLOCKED, totals.dns_blocked);
    counter!(UNDONE).absolute(totals.undone);
}

pub(crate) fn written(since: Instant, now: Instant) {
    histogram!(LAG).record(now.saturating_duration_since(since));
}
