//! The metrics of the writer, in one place.
#![expect(
    clippy::cast_precision_loss,
    reason = "counts of things in memory are far below 2^52"
)]

use std::time::Instant;

use metrics::{counter, gauge, histogram};
use ovsdb_replica::Outcome;
use runtime::metrics::{Label, Metric};

use crate::{
    desired::Skip,
    sync::{Done, Reconciler},
};

const TRANSACTIONS: &str = "ovn_writer_transactions_total";
const ROWS_CHANGED: &str = "ovn_writer_rows_changed_total";
const INSERTED: &str = "ovn_writer_addresses_inserted_total";
const DELETED: &str = "ovn_writer_addresses_deleted_total";
const LAG: &str = "ovn_writer_sync_lag_seconds";
const SESSIONS: &str = "ovn_writer_sessions_total";
const SESSION_ENDS: &str = "ovn_writer_session_ends_total";
const FAILURES: &str = "ovn_writer_connection_failures_total";
const CONNECTED: &str = "ovn_writer_connected";
const IN_SYNC: &str = "ovn_writer_in_sync";
const ROWS: &str = "ovn_writer_rows";
const OBJECTS: &str = "ovn_writer_objects";
const UNUSABLE: &str = "ovn_writer_unusable_objects";
const REFUSED: &str = "ovn_writer_refused_names";
const SKIPPED: &str = "ovn_writer_skipped_addresses";
const CLASHES: &str = "ovn_writer_name_clashes";
const REPAIRS: &str = "ovn_writer_repairs_total";
const DIFFERENCES: &str = "ovn_writer_differences";
const FOREIGN: &str = "ovn_writer_foreign_addresses";
const MANAGED: &str = "ovn_writer_managed";
const ABSENT: &str = "ovn_writer_absent_names";
const SUSPECT: &str = "ovn_writer_store_suspect";

/// The metrics of the program.
pub const METRICS: &[&[Metric]] = &[
    WRITER,
    runtime::store::METRICS,
    runtime::leader::METRICS,
    runtime::certificate_expiry::METRICS,
];

const WRITER: &[Metric] = &[
    Metric::counter(
        TRANSACTIONS,
        &[Label::one_of("outcome", &["done", "refused", "unknown"])],
        "Transactions that ended",
    ),
    Metric::counter(
        ROWS_CHANGED,
        &[Label::one_of("change", &["create", "mutate", "delete"])],
        "Rows that acknowledged transactions changed",
    ),
    Metric::counter(
        INSERTED,
        &[],
        "Addresses that acknowledged transactions put into rows",
    ),
    Metric::counter(
        DELETED,
        &[],
        "Addresses that acknowledged transactions took out of rows",
    ),
    Metric::histogram(
        LAG,
        &[],
        "From a change in the store to the acknowledged transaction",
    ),
    Metric::counter(SESSIONS, &[], "Sessions in which the database was read"),
    Metric::counter(
        SESSION_ENDS,
        &[Label::one_of("reason", &["lost", "start_over"])],
        "Sessions that ended, by themselves or by us",
    ),
    Metric::counter(
        FAILURES,
        &[],
        "Attempts to connect that did not become a session",
    ),
    Metric::gauge(CONNECTED, &[], "1 while there is a session"),
    Metric::gauge(
        IN_SYNC,
        &[],
        "1 while the database is as the store says, as far as is known",
    ),
    Metric::gauge(ROWS, &[], "Rows for DNS names in the database"),
    Metric::gauge(OBJECTS, &[], "DNSNameResolver objects in the store"),
    Metric::gauge(UNUSABLE, &[], "Objects whose name no address set can have"),
    Metric::gauge(
        REFUSED,
        &[],
        "Names whose changes the server refuses; they are tried again",
    ),
    Metric::gauge(
        SKIPPED,
        &[Label::one_of("reason", Skip::WORDS)],
        "Addresses in statuses that are not programmed",
    ),
    Metric::gauge(
        CLASHES,
        &[],
        "Names whose address set cannot be made, as another client has one of its name",
    ),
    Metric::counter(
        REPAIRS,
        &[Label::one_of(
            "kind",
            &["missing_row", "missing_address", "surplus_address"],
        )],
        "Changes by other clients that stayed and were undone",
    ),
    Metric::gauge(
        DIFFERENCES,
        &[Label::one_of(
            "kind",
            &[
                "missing_row",
                "missing_address",
                "surplus_address",
                "name_clash",
                "unwanted_row",
            ],
        )],
        "What differs from the store now: `name_clash` is a row that cannot be made as another client has one of its name, \
         `unwanted_row` one with addresses for a name that is not in the store",
    ),
    Metric::gauge(
        FOREIGN,
        &[],
        "Addresses that others put into rows under a name as they wrote it, and that stay",
    ),
    Metric::gauge(
        MANAGED,
        &[],
        "1 if ovn-kubernetes manages the address sets of the database, as far as is known",
    ),
    Metric::gauge(
        ABSENT,
        &[],
        "Names whose address sets are in use and that have no DNSNameResolver object; their sets stay as they are",
    ),
    Metric::gauge(
        SUSPECT,
        &[],
        "1 while so many names in use have had no object for a minute that no set is emptied for that",
    ),
];

/// How a transaction ended.
pub(crate) fn outcome_label(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Done(_) => "done",
        Outcome::Refused(_) => "refused",
        Outcome::Unknown(_) => "unknown",
    }
}

pub(crate) fn transaction(outcome: &'static str) {
    counter!(TRANSACTIONS, "outcome" => outcome).increment(1);
}

pub(crate) fn done(done: &Done) {
    for lag in &done.lags {
        histogram!(LAG).record(*lag);
    }
    for (change, count) in [
        ("create", done.created),
        ("mutate", done.mutated),
        ("delete", done.deleted),
    ] {
        counter!(ROWS_CHANGED, "change" => change).increment(count as u64);
    }
    for (kind, count) in [
        ("missing_row", done.repaired.missing_rows),
        ("missing_address", done.repaired.missing_addresses),
        ("surplus_address", done.repaired.surplus_addresses),
    ] {
        counter!(REPAIRS, "kind" => kind).increment(count as u64);
    }
    counter!(INSERTED).increment(done.inserted_addresses as u64);
    counter!(DELETED).increment(done.deleted_addresses as u64);
}

pub(crate) fn session() {
    counter!(SESSIONS).increment(1);
}

pub(crate) fn session_end(reason: &'static str) {
    counter!(SESSION_ENDS, "reason" => reason).increment(1);
}

pub(crate) fn connection_failure() {
    counter!(FAILURES).increment(1);
}

/// What is true now. `rows` is their number; `None` while there is no session.
pub(crate) fn state(sync: &Reconciler, rows: Option<usize>, in_sync: bool, now: Instant) {
    let state = sync.state();
    let (absent, is_suspect) = state.absent(now);
    set(CONNECTED, usize::from(rows.is_some()));
    set(IN_SYNC, usize::from(in_sync));
    if let Some(rows) = rows {
        set(ROWS, rows);
    }
    set(OBJECTS, state.desired.objects());
    set(UNUSABLE, state.desired.unusable());
    set(REFUSED, sync.refused());
    set(CLASHES, state.name_conflicts());
    set(MANAGED, usize::from(state.is_managed()));
    set(ABSENT, absent);
    set(SUSPECT, usize::from(is_suspect));
    set(FOREIGN, state.differences.foreign_addresses);
    for (kind, count) in state.differences.by_kind() {
        gauge!(DIFFERENCES, "kind" => kind).set(count as f64);
    }
    for reason in Skip::ALL {
        let count = state.desired.skipped(reason);
        gauge!(SKIPPED, "reason" => reason.as_str()).set(count as f64);
    }
}

fn set(name: &'static str, count: usize) {
    gauge!(name).set(count as f64);
}
