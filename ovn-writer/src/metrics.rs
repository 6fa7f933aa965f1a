//! The metrics of the writer, in one place.
#![expect(
    clippy::cast_precision_loss,
    reason = "counts of things in memory are far below 2^52"
)]

use metrics::{counter, gauge, histogram};
use ovsdb_replica::Outcome;
use runtime::metrics::{Label, Metric};

use crate::{
    desired::Skip,
    plan::{Done, Reconciler},
};

pub const METRICS: &[&[Metric]] = &[
    WRITER,
    runtime::metrics::process::METRICS,
    runtime::store::METRICS,
    runtime::leader::METRICS,
];

runtime::metrics! {
    const WRITER;

    counter TRANSACTIONS = "egress_ovn_writer_transactions_total" [Label::one_of("outcome", &["done", "refused", "unknown"])]
        "Transactions that ended. `refused`: the server returned an error, and they are retried. `unknown`: the connection ended before the answer, and the database is read again";
    counter ROWS_CHANGED = "egress_ovn_writer_rows_changed_total" [Label::one_of("change", &["create", "mutate", "delete"])]
        "Rows changed by transactions that the database acknowledged";
    counter INSERTED = "egress_ovn_writer_addresses_inserted_total" "Addresses added to rows by transactions that the database acknowledged";
    counter DELETED = "egress_ovn_writer_addresses_deleted_total" "Addresses removed from rows by transactions that the database acknowledged";
    histogram LAG = "egress_ovn_writer_sync_lag_seconds" "The time from the event of an object until the database acknowledged the transaction";
    counter SESSIONS = "egress_ovn_writer_sessions_total" "Sessions with the database: one at the start, and one more after each session that ended";
    counter SESSION_ENDS = "egress_ovn_writer_session_ends_total" [Label::one_of("reason", &["lost", "start_over"])]
        "Sessions with the database that ended. `lost`: the connection ended. `start_over`: the ovn-writer ended it, since the outcome of a transaction was unknown or its copy of the database was wrong. Each is followed by a new session; more than a few an hour need a look at the log";
    counter FAILURES = "egress_ovn_writer_connection_failures_total" "Failed attempts to connect to the database";
    gauge CONNECTED = "egress_ovn_writer_connected" "1 while the ovn-writer is connected to the database and has read it";
    gauge IN_SYNC = "egress_ovn_writer_in_sync" "1 while the database has the addresses of the objects. 0 while the ovn-writer is not connected";
    gauge ROWS = "egress_ovn_writer_rows" "Address_Set rows for DNS names in the database";
    gauge OBJECTS = "egress_ovn_writer_objects" "DNSNameResolver objects in the store";
    gauge UNUSABLE = "egress_ovn_writer_unusable_objects" "DNSNameResolver objects that the ovn-writer ignores, since their spec.name is not a valid DNS name; the log names them";
    gauge REFUSED = "egress_ovn_writer_refused_names" "Names whose changes the database server refuses. They are retried, and the log has the server's words";
    gauge SKIPPED = "egress_ovn_writer_skipped_addresses" [Label::one_of("reason", Skip::WORDS)] "Addresses in statuses that the ovn-writer does not write to the database, by reason. `unparsable`: no IP address. `deny-answer`: a network in `--deny-answer`. `cluster`: a network in `--cluster-cidr`. `family-not-in-use`: no network in `--cluster-cidr` has its IP family. The other kinds are never written";
    gauge CLASHES = "egress_ovn_writer_name_clashes" "Names whose address set cannot be created, because another client has a set of the same name for another purpose";
    counter REPAIRS = "egress_ovn_writer_repairs_total" [Label::one_of("kind", &["missing_row", "missing_address", "surplus_address"])]
        "Changes by other OVSDB clients that the ovn-writer undid, since no object explained them. `missing_row`: another client deleted a row. `missing_address`: it removed an address. `surplus_address`: it added an address. Steady growth shows that two clients undo each other's writes";
    gauge DIFFERENCES = "egress_ovn_writer_differences"
        [Label::one_of("kind", &["missing_row", "missing_address", "surplus_address", "name_clash", "unwanted_row"])]
        "Current differences between objects and database; `egress verify` lists them. `missing_row`: a name has no row. `missing_address`: a row lacks an address of the object. `surplus_address`: a row has an address that the object lacks. `name_clash`: a row cannot be created, because another client has one of its name. `unwanted_row`: a row of this program has neither an object nor a rule, and is to be deleted";
    gauge FOREIGN = "egress_ovn_writer_foreign_addresses" "Addresses that ovn-kubernetes' own resolver added to its rows, without `--enable-dns-name-resolver`. They stay; the number needs no action";
    gauge MANAGED = "egress_ovn_writer_managed" "1 if ovn-kubernetes manages the address sets of the database: then no set is created that no rule refers to";
    gauge ABSENT = "egress_ovn_writer_absent_names"
        "Names whose address sets rules use, and that have no DNSNameResolver object. Their sets keep their addresses; `egress verify` names them";
}

/// The label of a transaction's outcome.
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

/// Sets the gauges. `rows` is the number of rows; `None` without a session.
pub(crate) fn state(sync: &Reconciler, rows: Option<usize>, in_sync: bool) {
    let state = sync.state();
    set(CONNECTED, usize::from(rows.is_some()));
    set(IN_SYNC, usize::from(in_sync));
    if let Some(rows) = rows {
        set(ROWS, rows);
    }
    set(OBJECTS, state.desired.objects());
    set(UNUSABLE, state.desired.unusable());
    set(REFUSED, sync.refused());
    set(CLASHES, state.name_conflicts.names().count());
    set(MANAGED, usize::from(state.is_managed()));
    set(ABSENT, state.absent().len());
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
