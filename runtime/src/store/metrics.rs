//! The metrics of every store, in one place.

use std::time::Instant;

use metrics::{counter, gauge, histogram};

use super::{Kind, StoreError};
use crate::metrics::Label;

const KIND: Label = Label::any("kind", "of the objects");
const SCOPE: Label = Label::any(
    "scope",
    "the namespace that is watched, `*` for all, and the label selector if there is one",
);
const OPERATION: Label = Label::one_of(
    "operation",
    &["create", "delete", "replace", "replace_status"],
);
const OUTCOME: Label = Label::one_of(
    "outcome",
    &[
        "done",
        "not_found",
        "already_exists",
        "conflict",
        "invalid",
        "too_large",
        "unavailable",
    ],
);

crate::metrics! {
    /// The metrics of the store.
    pub const METRICS;

    gauge IN_SYNC = "egress_store_in_sync" [KIND, SCOPE] "1 while the program has read all of these objects and receives their changes, else 0. If it stays 0 for minutes, the log has the reason";
    gauge BAD = "egress_store_undecodable_objects" [KIND, SCOPE] "Objects that exist and cannot be decoded. In a folder these are files, also those with a part that has no effect. The log names them";
    counter BAD_TOTAL = "egress_store_decode_failures_total" [KIND, SCOPE] "Faults of objects that could not be decoded. Each new fault of an object counts again";
    counter GAPS = "egress_store_watch_gaps_total" [KIND, SCOPE] "Times that a watch lost changes, so that the program read all of these objects again";
    counter WRITES = "egress_store_writes_total" [KIND, OPERATION, OUTCOME] "Requested writes, by outcome. `conflict`: another writer changed the object first, and the write is repeated. `invalid`, `too_large`: the store refuses the object. `unavailable`: the store cannot be reached, and the write is repeated. `not_found`, `already_exists`: another writer deleted or created the object first";
    histogram WRITE_DURATION = "egress_store_write_duration_seconds" [KIND, OPERATION] "The duration of a write at the store, without the time that it waited in the program";
}

pub(super) fn in_sync(kind: &str, scope: &str, yes: bool) {
    gauge!(IN_SYNC, "kind" => kind.to_owned(), "scope" => scope.to_owned()).set(if yes {
        1.0
    } else {
        0.0
    });
}

pub(super) fn bad_objects(kind: &str, scope: &str, now: usize, more: usize) {
    // Counts of objects in memory are far below 2^52.
    #[allow(clippy::cast_precision_loss)]
    gauge!(BAD, "kind" => kind.to_owned(), "scope" => scope.to_owned()).set(now as f64);
    counter!(BAD_TOTAL, "kind" => kind.to_owned(), "scope" => scope.to_owned())
        .increment(more as u64);
}

pub(super) fn gap(kind: &str, scope: &str) {
    counter!(GAPS, "kind" => kind.to_owned(), "scope" => scope.to_owned()).increment(1);
}

/// Runs a write, and counts it.
pub(crate) async fn timed<K: Kind, T>(
    operation: &'static str,
    write: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let started = Instant::now();
    let result = write.await;
    let outcome = match &result {
        Ok(_) => "done",
        Err(StoreError::NotFound(_)) => "not_found",
        Err(StoreError::AlreadyExists(_)) => "already_exists",
        Err(StoreError::Conflict(_)) => "conflict",
        Err(StoreError::Invalid { .. }) => "invalid",
        Err(StoreError::TooLarge { .. }) => "too_large",
        Err(StoreError::Unavailable { .. }) => "unavailable",
    };
    counter!(WRITES, "kind" => K::kind(&()), "operation" => operation, "outcome" => outcome)
        .increment(1);
    histogram!(WRITE_DURATION, "kind" => K::kind(&()), "operation" => operation)
        .record(started.elapsed());
    result
}
