//! The metrics of the writer, in one place.
//!
//! | metric | type | labels | meaning |
//! |---|---|---|---|
//! | `ovn_writer_transactions_total` | counter | `outcome` | transactions that ended: `done`, `refused` or `unknown` |
//! | `ovn_writer_rows_changed_total` | counter | `change` | rows of acknowledged transactions: `create`, `mutate` or `delete` |
//! | `ovn_writer_addresses_inserted_total` | counter | | addresses that acknowledged transactions put into rows |
//! | `ovn_writer_addresses_deleted_total` | counter | | addresses that acknowledged transactions took out of rows |
//! | `ovn_writer_sync_lag_seconds` | histogram | | from a change in the store to the acknowledged transaction |
//! | `ovn_writer_sessions_total` | counter | | sessions in which the database was read |
//! | `ovn_writer_session_ends_total` | counter | `reason` | how they ended: `lost` by themselves, `start_over` by us |
//! | `ovn_writer_connection_failures_total` | counter | | attempts that did not become a session |
//! | `ovn_writer_connected` | gauge | | 1 while there is a session |
//! | `ovn_writer_in_sync` | gauge | | 1 while the database is as the store says, as far as is known |
//! | `ovn_writer_rows` | gauge | | rows for DNS names in the database |
//! | `ovn_writer_objects` | gauge | | `DNSNameResolver` objects in the store |
//! | `ovn_writer_unusable_objects` | gauge | | objects whose name no address set can have |
//! | `ovn_writer_refused_names` | gauge | | names whose changes the server refuses; they are tried again |
//! | `ovn_writer_name_clashes` | gauge | | of these, names with a set that cannot be made, as somebody else has one of its name |
//! | `ovn_writer_repairs_total` | counter | `kind` | what was undone that somebody else did: `missing_row`, `missing_address`, `surplus_address` |
//! | `ovn_writer_differences` | gauge | `kind` | what differs now: the same three, `name_clash`, a row that cannot be made as somebody else has one of its name, and `unwanted_row`, one with addresses for a name that is not in the store |
//! | `ovn_writer_foreign_addresses` | gauge | | addresses that others put into rows under a name as they wrote it, and that stay |
//! | `ovn_writer_managed` | gauge | | 1 if ovn-kubernetes manages the address sets of the database, as far as is known |
//! | `ovn_writer_missing_objects` | gauge | | objects that hold although the last list of the store had none of them |
//! | `ovn_writer_store_in_doubt` | gauge | | 1 while nothing is removed, as the store seems to be the wrong one or to have been emptied |
//! | `ovn_writer_held_back_names` | gauge | | names that the store lacks and whose sets stay, as it lacks most names that have some |
//! | `ovn_writer_skipped_addresses` | gauge | `reason` | addresses in statuses that are not programmed |

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use crate::{
    desired::Skip,
    ovsdb::Outcome,
    sync::{Differences, Done, Doubt, Reconciler, Repaired},
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
const MISSING: &str = "ovn_writer_missing_objects";
const DOUBT: &str = "ovn_writer_store_in_doubt";
const HELD_BACK: &str = "ovn_writer_held_back_names";

/// How a transaction ended, as a label.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OutcomeLabel {
    Done,
    Refused,
    Unknown,
}

impl OutcomeLabel {
    const ALL: [Self; 3] = [Self::Done, Self::Refused, Self::Unknown];

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
    const ALL: [Self; 2] = [Self::Lost, Self::StartOver];

    fn as_str(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::StartOver => "start_over",
        }
    }
}

/// Describes the metrics and shows every counter at 0; once, after the recorder is there.
pub(crate) fn describe() {
    describe_counter!(TRANSACTIONS, "Transactions that ended, by outcome.");
    describe_counter!(
        ROWS_CHANGED,
        "Rows that acknowledged transactions changed, by change."
    );
    describe_counter!(
        INSERTED,
        "Addresses that acknowledged transactions put into rows."
    );
    describe_counter!(
        DELETED,
        "Addresses that acknowledged transactions took out of rows."
    );
    describe_histogram!(
        LAG,
        Unit::Seconds,
        "From a change in the store to the acknowledged transaction."
    );
    describe_counter!(SESSIONS, "Sessions in which the database was read.");
    describe_counter!(SESSION_ENDS, "Sessions that ended, by reason.");
    describe_counter!(
        FAILURES,
        "Attempts to connect that did not become a session."
    );
    describe_gauge!(CONNECTED, "1 while there is a session.");
    describe_gauge!(
        IN_SYNC,
        "1 while the database is as the store says, as far as is known."
    );
    describe_gauge!(ROWS, "Rows for DNS names in the database.");
    describe_gauge!(OBJECTS, "DNSNameResolver objects in the store.");
    describe_gauge!(UNUSABLE, "Objects whose name no address set can have.");
    describe_gauge!(
        REFUSED,
        "Names whose changes the server refuses; they are tried again."
    );
    describe_gauge!(
        SKIPPED,
        "Addresses in statuses that are not programmed, by reason."
    );
    describe_gauge!(
        CLASHES,
        "Names whose address set cannot be made, as somebody else has one of its name."
    );
    describe_counter!(REPAIRS, "What was undone that somebody else did, by kind.");
    describe_gauge!(DIFFERENCES, "What differs from the store now, by kind.");
    describe_gauge!(
        FOREIGN,
        "Addresses that others put into rows under a name as they wrote it."
    );
    describe_gauge!(MANAGED, "1 if ovn-kubernetes manages the address sets.");
    describe_gauge!(
        MISSING,
        "Objects that hold although the last list of the store had none of them."
    );
    describe_gauge!(
        DOUBT,
        "1 while nothing is removed, as the store seems to be the wrong one or emptied."
    );
    describe_gauge!(
        HELD_BACK,
        "Names that the store lacks and whose sets stay, as it lacks most names that have some."
    );
    for outcome in OutcomeLabel::ALL {
        counter!(TRANSACTIONS, "outcome" => outcome.as_str()).absolute(0);
    }
    for reason in EndLabel::ALL {
        counter!(SESSION_ENDS, "reason" => reason.as_str()).absolute(0);
    }
    for name in [INSERTED, DELETED, SESSIONS, FAILURES] {
        counter!(name).absolute(0);
    }
    rows_changed(&Done::default());
    repaired(Repaired::default());
}

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
}

pub(crate) fn state(state: &State<'_>) {
    let State {
        sync,
        rows,
        in_sync,
    } = *state;
    set(CONNECTED, usize::from(rows.is_some()));
    set(IN_SYNC, usize::from(in_sync));
    if let Some(rows) = rows {
        set(ROWS, rows);
    }
    let desired = sync.desired();
    set(OBJECTS, desired.objects());
    set(UNUSABLE, desired.unusable());
    set(MISSING, desired.missing());
    set(REFUSED, sync.refused());
    set(CLASHES, sync.clashes());
    set(MANAGED, usize::from(sync.is_managed()));
    let doubt = sync.doubt();
    set(DOUBT, usize::from(doubt.is_some()));
    let held_back = match doubt {
        Some(Doubt::Unconfirmed { absent, .. }) => absent,
        Some(Doubt::Missing(_)) | None => 0,
    };
    set(HELD_BACK, held_back);
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
