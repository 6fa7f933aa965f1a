//! The metrics of every store, in one place.
//!
//! | metric | type | labels | meaning |
//! |---|---|---|---|
//! | `store_in_sync` | gauge | `kind`, `scope` | 1 while the watch knows the whole content |
//! | `store_bad_objects` | gauge | `kind`, `scope` | objects that are there now and do not decode |
//! | `store_bad_objects_total` | counter | `kind`, `scope` | objects found not to decode, each change of one counted |
//! | `store_watch_gaps_total` | counter | `kind`, `scope` | times a watch lost changes and read everything again |
//! | `store_writes_total` | counter | `kind`, `operation`, `outcome` | writes that were asked for |
//! | `store_write_duration_seconds` | histogram | `kind`, `operation` | how long they took, waiting for their turn not included |
//!
//! The scope of a watch is its namespace (`*` for all) and its label selector, if it has one.

use std::time::Duration;

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use super::{Kind, StoreError};

const IN_SYNC: &str = "store_in_sync";
const BAD: &str = "store_bad_objects";
const BAD_TOTAL: &str = "store_bad_objects_total";
const GAPS: &str = "store_watch_gaps_total";
const WRITES: &str = "store_writes_total";
const WRITE_DURATION: &str = "store_write_duration_seconds";

/// Describes the metrics; once, after the recorder is there.
pub(crate) fn describe() {
    describe_gauge!(IN_SYNC, "1 while the watch knows the whole content.");
    describe_gauge!(BAD, "Objects that are there now and do not decode.");
    describe_counter!(
        BAD_TOTAL,
        "Objects found not to decode, each change of one counted."
    );
    describe_counter!(
        GAPS,
        "Times a watch lost changes and read everything again."
    );
    describe_counter!(WRITES, "Writes that were asked for, by outcome.");
    describe_histogram!(
        WRITE_DURATION,
        Unit::Seconds,
        "How long a write took, waiting for its turn not included."
    );
}

pub(super) fn in_sync(kind: &str, scope: &str, yes: bool) {
    gauge!(IN_SYNC, "kind" => kind.to_owned(), "scope" => scope.to_owned()).set(if yes {
        1.0
    } else {
        0.0
    });
}

pub(super) fn bad_objects(kind: &str, scope: &str, now: usize, more: usize) {
    // Counts of objects in memory: far below 2^52.
    #[allow(clippy::cast_precision_loss)]
    gauge!(BAD, "kind" => kind.to_owned(), "scope" => scope.to_owned()).set(now as f64);
    counter!(BAD_TOTAL, "kind" => kind.to_owned(), "scope" => scope.to_owned())
        .increment(more as u64);
}

pub(super) fn gap(kind: &str, scope: &str) {
    counter!(GAPS, "kind" => kind.to_owned(), "scope" => scope.to_owned()).increment(1);
}

pub(super) fn write<K: Kind, T>(
    operation: &'static str,
    took: Duration,
    result: &Result<T, StoreError>,
) {
    let outcome = match result {
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
    histogram!(WRITE_DURATION, "kind" => K::kind(&()), "operation" => operation).record(took);
}
