//! A pending transaction, and the result of a finished one.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use proto::api::{ADDRESS_SET_OWNER_TYPE, DEFAULT_NETWORK_CONTROLLER, DnsName};

use super::{
    change::Change,
    queue::QueueReason,
    set_of::SetOf,
    set_plan::{Finding, Trigger},
};
use ovsdb_replica::{Condition, Datum, Function, Operation, Replica, transact::OperationResult};

use crate::{
    address_set::{self, AddressSet, TABLE},
    external_ids::{EXTERNAL_IDS, OWNER_CONTROLLER, OWNER_TYPE},
};

/// The limits of one transaction. A single name is allowed at any size.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BatchLimits {
    pub rows: usize,
    /// Bytes on the wire, roughly.
    pub bytes: usize,
}

impl Default for BatchLimits {
    /// 1,000 rows and 1 MiB: some 10 ms of the server's time, in which it serves no other client.
    fn default() -> Self {
        Self {
            rows: 1000,
            bytes: 1 << 20,
        }
    }
}

/// The weight of a row that is created only if its name is free: the server scans the table for it.
const GUARDED_ROWS: usize = 20;

/// If more sets are missing at once, as after a clean-up of ovn-kubernetes, the table's index over names protects them.
/// It refuses a duplicate at no cost, but does not say which one.
const MAX_GUARDED: usize = 20;

/// The approximate size of an operation that requires a free name.
const GUARD_BYTES: usize = 150;

#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) names: Vec<Planned>,
    operations: Vec<Operation>,
    /// Whether it must fail if ovn-kubernetes [manages](unmanaged) the database; its last operation then checks that.
    pub(super) is_guarded: bool,
    guarded: usize,
    rows: usize,
    bytes: usize,
}

#[derive(Debug)]
pub(super) struct Planned {
    pub(super) name: DnsName,
    /// Why it was checked.
    pub(super) mark: QueueReason,
    pub(super) findings: Vec<Finding>,
    /// The sets that are created only if their names are free; each has an operation at the start for that.
    guarded: Vec<SetOf>,
    /// All of its operations: those of `guarded`, then one for each finding.
    operations: Range<usize>,
}

impl Planned {
    /// Whether this operation belongs to the name.
    pub(super) fn has(&self, operation: usize) -> bool {
        self.operations.contains(&operation)
    }

    /// The set whose name another client has, if this operation checks that.
    pub(super) fn conflict(&self, operation: usize) -> Option<&SetOf> {
        self.guarded
            .get(operation.checked_sub(self.operations.start)?)
    }

    pub(super) fn changes(&self) -> impl Iterator<Item = &Change> {
        self.findings.iter().map(|finding| &finding.change)
    }
}

impl Batch {
    /// Adds the changes of a name.
    pub(super) fn add(&mut self, name: DnsName, mark: QueueReason, findings: Vec<Finding>) {
        let start = self.operations.len();
        let has_room = self.guarded < MAX_GUARDED;
        let guarded = findings.iter().filter_map(|finding| match &finding.change {
            Change::Create {
                set, is_managed, ..
            } => (*is_managed && has_room || mark.suspects.is_some()).then(|| set.clone()),
            Change::Mutate { .. } | Change::Delete { .. } => None,
        });
        let guarded: Vec<_> = guarded.collect();
        let guards = guarded
            .iter()
            .map(|set| address_set::is_absent(&name, &set.controller, set.family));
        let changes = findings
            .iter()
            .map(|finding| finding.change.operation(&name));
        self.operations.extend(guards.chain(changes));
        let lengths = findings.iter().map(|it| it.change.estimated_wire_len());
        self.bytes += lengths.sum::<usize>() + guarded.len() * GUARD_BYTES;
        self.guarded += guarded.len();
        self.rows += findings.len() + guarded.len() * GUARDED_ROWS;
        let operations = start..self.operations.len();
        self.names.push(Planned {
            name,
            mark,
            findings,
            guarded,
            operations,
        });
    }

    /// Whether it has names from another part of a refused transaction, or from none.
    pub(super) fn others_than(&self, suspects: Option<u64>) -> bool {
        let first = self.names.first();
        first.is_some_and(|planned| planned.mark.suspects != suspects)
    }

    pub(super) fn is_full(&self, limits: BatchLimits) -> bool {
        self.rows >= limits.rows || self.bytes >= limits.bytes
    }

    /// Takes the operations, to send them.
    pub(super) fn send(&mut self) -> Vec<Operation> {
        let mut operations = std::mem::take(&mut self.operations);
        if self.is_guarded {
            operations.push(unmanaged());
        }
        operations
    }

    /// Whether this operation is the guard against ovn-kubernetes.
    pub(super) fn is_guard(&self, operation: usize) -> bool {
        let guard = self.names.last().map_or(0, |name| name.operations.end);
        self.is_guarded && operation == guard
    }

    /// A name with a row in the replica that the server does not have.
    pub(super) fn ghost(
        &self,
        results: &[OperationResult],
        replica: &Replica<AddressSet>,
    ) -> Option<DnsName> {
        let is_there = |change: &Change| match change {
            Change::Create { .. } => false,
            Change::Mutate { uuid, .. } => replica.get(*uuid).is_some(),
            // Another store may have taken the row over.
            Change::Delete { uuid, store, .. } => {
                replica.get(*uuid).is_some_and(|set| set.is_made_for(store))
            }
        };
        let ghost = self.names.iter().find(|planned| {
            let changes = planned.operations.start + planned.guarded.len()..planned.operations.end;
            let results = results.get(changes).unwrap_or_default();
            let mut outcomes = planned.changes().zip(results);
            outcomes.any(|(change, result)| result.count == Some(0) && is_there(change))
        });
        ghost.map(|planned| planned.name.clone())
    }
}

/// Refuses the transaction if ovn-kubernetes' controller of the default network owns an address set that is not for DNS
/// names. Every database of ovn-kubernetes has such a set.
pub(super) fn unmanaged() -> Operation {
    let is_managed = vec![
        Condition::has_pair(EXTERNAL_IDS, OWNER_CONTROLLER, DEFAULT_NETWORK_CONTROLLER),
        Condition(
            EXTERNAL_IDS.into(),
            Function::Excludes,
            Datum::string_map([(OWNER_TYPE, ADDRESS_SET_OWNER_TYPE)]),
        ),
    ];
    Operation::wait_for_none(TABLE, is_managed)
}

/// The effects of a finished transaction.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Done {
    pub created: usize,
    pub mutated: usize,
    pub deleted: usize,
    pub inserted_addresses: usize,
    pub deleted_addresses: usize,
    /// For each name that changed in the store: the time since its event.
    pub lags: Vec<Duration>,
    /// The part of these that repaired lasting changes of other clients.
    pub repaired: Repaired,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Repaired {
    pub missing_rows: usize,
    /// Addresses that were missing in rows.
    pub missing_addresses: usize,
    /// Surplus members of rows.
    pub surplus_addresses: usize,
}

impl Done {
    /// Adds the changes of a name.
    pub(super) fn add(&mut self, planned: &Planned, now: Instant) {
        let since = planned
            .mark
            .since
            .map(|since| now.saturating_duration_since(since));
        self.lags.extend(since);
        for finding in &planned.findings {
            let is_repair = finding.trigger == Trigger::ForeignChange;
            match &finding.change {
                Change::Create { addresses, .. } => {
                    self.created += 1;
                    self.inserted_addresses += addresses.len();
                    self.repaired.missing_rows += usize::from(is_repair);
                }
                Change::Mutate { insert, delete, .. } => {
                    self.mutated += 1;
                    self.inserted_addresses += insert.len();
                    self.deleted_addresses += delete.len();
                    if is_repair {
                        self.repaired.missing_addresses += insert.len();
                        self.repaired.surplus_addresses += delete.len();
                    }
                }
                Change::Delete { members, .. } => {
                    self.deleted += 1;
                    self.deleted_addresses += members;
                }
            }
        }
    }
}
