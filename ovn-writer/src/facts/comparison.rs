//! The comparison of the statuses with the database, for `egress verify` and `--dry-run`.

use std::time::Instant;

use proto::facts::Comparison;

use crate::{plan::SyncState, references::NorthboundReplica, report::differences};

/// The differences that a running ovn-writer knows.
pub(crate) fn compare(state: &SyncState, replica: &NorthboundReplica, now: Instant) -> Comparison {
    let differing = state.differing();
    let differences = differing.flat_map(|name| {
        let plan = state.look(name, replica, now);
        differences(name, &plan, replica, &state.references)
    });
    let mut comparison = Comparison {
        not_compared: None,
        objects: state.desired.objects(),
        rows: replica.0.len(),
        is_managed: state.is_managed(),
        counts: state.differences.counts(),
        absent: state.absent().iter().map(ToString::to_string).collect(),
        other_stores: state.other_stores(replica),
        differences: differences.collect(),
    };
    comparison.sort();
    comparison
}
