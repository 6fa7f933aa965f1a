//! The metrics of the writer, in one place.

use metrics::{counter, gauge, histogram};
use ovsdb_replica::Outcome;
use runtime::metrics::{Label, Metric};

use crate::{
    desired::Skip,
    sync::{Differences, Done, Reconciler, Repaired},
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

/// How a transaction ended, as a label.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OutcomeLabel {
    Done,
    Refused,
    Unknown,
}

impl OutcomeLabel {
    pub(crate) fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Done(_) => Self::Done,
            Outcome::Refused(_) => Self::Refused,
            Outcome::Unknown(_) => Self::Unknown,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
        }
    }
}

/// How a session ended, as a label.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EndLabel {
    Lost,
    StartOver,
}

impl EndLabel {
    fn as_str(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::StartOver => "start_over",
        }
    }
}

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

pub(crate) fn transaction(outcome: OutcomeLabel) {
    counter!(TRANSACTIONS, "outcome" => outcome.as_str()).increment(1);
}

pub(crate) fn done(done: &Done) {
    for lag in &done.lags {
        histogram!(LAG).record(*lag);
    }
    rows_changed(done);
    repaired(done.repaired);
    counter!(INSERTED).increment(done.inserted_addresses as u64);
    counter!(DELETED).increment(done.deleted_addresses as u64);
}

fn rows_changed(done: &Done) {
    let changes = [
        ("create", done.created),
        ("mutate", done.mutated),
        ("delete", done.deleted),
    ];
    for (change, count) in changes {
        counter!(ROWS_CHANGED, "change" => change).increment(count as u64);
    }
}

fn repaired(repaired: Repaired) {
    let kinds = [
        ("missing_row", repaired.missing_rows),
        ("missing_address", repaired.missing_addresses),
        ("surplus_address", repaired.surplus_addresses),
    ];
    for (kind, count) in kinds {
        counter!(REPAIRS, "kind" => kind).increment(count as u64);
    }
}

pub(crate) fn session() {
    counter!(SESSIONS).increment(1);
}

pub(crate) fn session_end(reason: EndLabel) {
    counter!(SESSION_ENDS, "reason" => reason.as_str()).increment(1);
}

pub(crate) fn connection_failure() {
    counter!(FAILURES).increment(1);
}

/// What is true now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State<'a> {
    pub(crate) sync: &'a Reconciler,
    /// The number of rows; `None` while there is no session.
    pub(crate) rows: Option<usize>,
    pub(crate) in_sync: bool,
    /// How many names are [absent](Reconciler::absent), and whether the store is suspect.
    pub(crate) absence: (usize, bool),
}

pub(crate) fn state(state: &State<'_>) {
    let State {
        sync,
        rows,
        in_sync,
        absence: (absent, is_suspect),
    } = *state;
    set(CONNECTED, usize::from(rows.is_some()));
    set(IN_SYNC, usize::from(in_sync));
    if let Some(rows) = rows {
        set(ROWS, rows);
    }
    let desired = sync.desired();
    set(OBJECTS, desired.objects());
    set(UNUSABLE, desired.unusable());
    set(REFUSED, sync.refused());
    set(CLASHES, sync.name_conflicts());
    set(MANAGED, usize::from(sync.is_managed()));
    set(ABSENT, absent);
    set(SUSPECT, usize::from(is_suspect));
    differences(&sync.differences());
    for reason in Skip::ALL {
        let count = u32::try_from(desired.skipped(reason)).unwrap_or(u32::MAX);
        gauge!(SKIPPED, "reason" => reason.as_str()).set(count);
    }
}

fn differences(differences: &Differences) {
    for (kind, count) in differences.by_kind() {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        gauge!(DIFFERENCES, "kind" => kind).set(count);
    }
    set(FOREIGN, differences.foreign_addresses);
}

/// Counts of things in memory: far below 2^52.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn set(name: &'static str, count: usize) {
    gauge!(name).set(count as f64);
}
