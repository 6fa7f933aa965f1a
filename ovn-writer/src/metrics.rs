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
//! | `ovn_writer_skipped_addresses` | gauge | `reason` | addresses in statuses that are not programmed |

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use crate::{
    desired::{Desired, Skip},
    ovsdb::Outcome,
    sync::Done,
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
}

pub(crate) fn transaction(outcome: OutcomeLabel) {
    counter!(TRANSACTIONS, "outcome" => outcome.as_str()).increment(1);
}

pub(crate) fn done(done: &Done) {
    rows_changed(done);
    counter!(INSERTED).increment(done.inserted_addresses as u64);
    counter!(DELETED).increment(done.deleted_addresses as u64);
    for lag in &done.lags {
        histogram!(LAG).record(*lag);
    }
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
    pub(crate) desired: &'a Desired,
    /// The number of rows; `None` while there is no session.
    pub(crate) rows: Option<usize>,
    pub(crate) refused: usize,
    pub(crate) in_sync: bool,
}

pub(crate) fn state(state: &State<'_>) {
    // Counts of things in memory: far below 2^52.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let set = |name: &'static str, count: usize| gauge!(name).set(count as f64);
    let State {
        desired,
        rows,
        refused,
        in_sync,
    } = *state;
    set(CONNECTED, usize::from(rows.is_some()));
    set(IN_SYNC, usize::from(in_sync));
    if let Some(rows) = rows {
        set(ROWS, rows);
    }
    set(OBJECTS, desired.objects());
    set(UNUSABLE, desired.unusable());
    set(REFUSED, refused);
    for reason in Skip::ALL {
        let count = u32::try_from(desired.skipped(reason)).unwrap_or(u32::MAX);
        gauge!(SKIPPED, "reason" => reason.as_str()).set(count);
    }
}
