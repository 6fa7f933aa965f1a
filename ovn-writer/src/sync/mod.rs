//! From what is wanted and what is there to transactions, one at a time.
//!
//! [`Reconciler`] holds what the store says, and which names may differ from the database. It is told of every change on either side
//! and recomputes the names concerned, and no others, from the whole of their state; what led to it does not matter. While a
//! transaction is under way, changes gather for the next. There is no IO here, and no clock.

mod plan;

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    ops::Range,
    time::{Duration, Instant},
};

use proto::api::{DnsName, DnsNameResolver};
use runtime::store::Event;

pub use self::plan::{Change, plan};
use crate::{
    address_set::AddressSet,
    desired::Desired,
    ovsdb::{Operation, Outcome, Refusal, Replica, transact::OperationResult},
};

/// The first wait after the server refused the changes of a name; each further refusal doubles it.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// The longest wait after refusals.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// How much may go into one transaction. One name goes in whatever its size.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BatchLimits {
    /// Rows that are changed.
    pub rows: usize,
    /// Bytes on the wire, roughly.
    pub bytes: usize,
}

impl Default for BatchLimits {
    /// 1,000 rows and 1 MiB: some 10 ms of the server's time, in which it serves nobody else.
    fn default() -> Self {
        Self {
            rows: 1000,
            bytes: 1 << 20,
        }
    }
}

/// The state of the whole.
#[derive(Debug, Default)]
pub struct Reconciler {
    desired: Desired,
    limits: BatchLimits,
    /// Names that may differ from the database.
    dirty: HashMap<DnsName, Dirty>,
    /// Their order. It has all of them that do not wait after a refusal; one that is not dirty any more is passed over.
    queue: VecDeque<DnsName>,
    /// Names whose changes the server refused, until they succeed.
    refused: HashMap<DnsName, Refused>,
    in_flight: Option<Batch>,
}

/// Why a name may differ.
#[derive(Clone, Copy, Debug, Default)]
struct Dirty {
    /// When the store changed; `None` if it was the database.
    since: Option<Instant>,
    /// Whether it must be alone in its transaction, as it was in one that was refused without a word on which name it was.
    alone: bool,
}

#[derive(Clone, Copy, Debug)]
struct Refused {
    times: u32,
    /// While it waits.
    until: Option<Instant>,
}

/// A transaction that is under way.
#[derive(Debug, Default)]
struct Batch {
    names: Vec<Planned>,
}

#[derive(Debug)]
struct Planned {
    name: DnsName,
    since: Option<Instant>,
    changes: Vec<Change>,
    operations: Range<usize>,
}

/// What a transaction that is done did.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Done {
    /// Rows that were made.
    pub created: usize,
    /// Rows whose addresses changed.
    pub mutated: usize,
    /// Rows that were deleted.
    pub deleted: usize,
    /// Addresses that were put into rows.
    pub inserted_addresses: usize,
    /// Addresses that were taken out of rows.
    pub deleted_addresses: usize,
    /// For each name that the store changed: how long ago that was.
    pub lags: Vec<Duration>,
}

/// How a transaction ended, and what follows from it.
#[derive(Debug)]
pub enum Finished {
    /// It took effect.
    Done(Done),
    /// It did not; its names will be tried again.
    Refused(Refusal),
    /// The replica cannot be relied on: start over.
    StartOver(StartOver),
}

/// Why everything must be read anew.
#[derive(Debug, thiserror::Error)]
pub enum StartOver {
    /// The outcome of a transaction is unknown.
    #[error("the outcome of a transaction is unknown: {0}")]
    Unknown(crate::ovsdb::Error),
    /// The server changed no row where the replica has one.
    #[error("a row of {0} that the replica has is not in the database")]
    Ghost(DnsName),
}

impl Reconciler {
    /// Nothing is known yet.
    pub fn new(limits: BatchLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// What the store says.
    pub fn desired(&self) -> &Desired {
        &self.desired
    }

    /// Takes over what the store says.
    pub fn store_changed(&mut self, event: Event<DnsNameResolver>, now: Instant) {
        for name in self.desired.apply(event) {
            self.mark(
                name,
                Dirty {
                    since: Some(now),
                    alone: false,
                },
            );
        }
    }

    /// Rows of these names changed in the database, by whomever.
    pub fn rows_changed(&mut self, names: impl IntoIterator<Item = DnsName>) {
        for name in names {
            self.mark(name, Dirty::default());
        }
    }

    /// The database was read anew: any name may differ, and nothing that was refused need be refused again.
    pub fn database_read(&mut self) {
        self.database_lost();
        self.refused.clear();
        self.queue.clear();
        let before = std::mem::take(&mut self.dirty);
        for name in self.desired.names().cloned().collect::<Vec<_>>() {
            let since = before.get(&name).and_then(|dirty| dirty.since);
            self.mark(
                name,
                Dirty {
                    since,
                    alone: false,
                },
            );
        }
    }

    /// The connection is lost: what was under way may have taken effect or not.
    pub fn database_lost(&mut self) {
        if let Some(batch) = self.in_flight.take() {
            for planned in batch.names {
                self.mark(
                    planned.name,
                    Dirty {
                        since: planned.since,
                        alone: false,
                    },
                );
            }
        }
    }

    /// Whether nothing is left to do now; what was [refused](Self::refused) is left for later.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.in_flight.is_none()
    }

    /// The number of names whose changes the server refused.
    pub fn refused(&self) -> usize {
        self.refused.len()
    }

    /// When a name that was refused is to be tried again, if there is one.
    pub fn next_retry(&self) -> Option<Instant> {
        self.refused
            .values()
            .filter_map(|refused| refused.until)
            .min()
    }

    /// The next transaction, if there is anything to do and none is under way. It is under way then, until
    /// [`Reconciler::finished`].
    pub fn next_transaction(
        &mut self,
        replica: &Replica<AddressSet>,
        now: Instant,
    ) -> Option<Vec<Operation>> {
        if self.in_flight.is_some() {
            return None;
        }
        self.end_waits(now);
        let (mut batch, mut operations) = (Batch::default(), Vec::new());
        let (mut rows, mut bytes) = (0, 0);
        while let Some(name) = self.queue.pop_front() {
            let waits = self
                .refused
                .get(&name)
                .is_some_and(|refused| refused.until.is_some());
            let Some(&dirty) = self.dirty.get(&name).filter(|_| !waits) else {
                continue;
            };
            if dirty.alone && !batch.names.is_empty() {
                self.queue.push_front(name);
                break;
            }
            self.dirty.remove(&name);
            let changes = self.changes(&name, replica);
            if changes.is_empty() {
                self.refused.remove(&name);
                continue;
            }
            let start = operations.len();
            operations.extend(changes.iter().flat_map(|change| change.operations(&name)));
            rows += changes.len();
            bytes += operations
                .iter()
                .skip(start)
                .map(Operation::approximate_len)
                .sum::<usize>();
            let operations = start..operations.len();
            batch.names.push(Planned {
                name,
                since: dirty.since,
                changes,
                operations,
            });
            if dirty.alone || rows >= self.limits.rows || bytes >= self.limits.bytes {
                break;
            }
        }
        if batch.names.is_empty() {
            return None;
        }
        self.in_flight = Some(batch);
        Some(operations)
    }

    /// The transaction that was under way ended. `replica` has all updates that came before its outcome.
    pub fn finished(
        &mut self,
        outcome: Outcome,
        replica: &Replica<AddressSet>,
        now: Instant,
    ) -> Finished {
        match outcome {
            Outcome::Done(results) => {
                let batch = self.in_flight.take().unwrap_or_default();
                match ghost(&batch, &results, replica) {
                    Some(name) => Finished::StartOver(StartOver::Ghost(name)),
                    None => Finished::Done(self.done(batch, now)),
                }
            }
            Outcome::Refused(refusal) => {
                self.was_refused(&refusal, now);
                Finished::Refused(refusal)
            }
            Outcome::Unknown(error) => {
                self.database_lost();
                Finished::StartOver(StartOver::Unknown(error))
            }
        }
    }

    fn done(&mut self, batch: Batch, now: Instant) -> Done {
        let mut done = Done::default();
        for planned in batch.names {
            self.refused.remove(&planned.name);
            tracing::debug!(name = %planned.name, changes = ?planned.changes, "rows changed");
            done.lags.extend(
                planned
                    .since
                    .map(|since| now.saturating_duration_since(since)),
            );
            for change in planned.changes {
                match change {
                    Change::Create { addresses, .. } => {
                        done.created += 1;
                        done.inserted_addresses += addresses.len();
                    }
                    Change::Mutate { insert, delete, .. } => {
                        done.mutated += 1;
                        done.inserted_addresses += insert.len();
                        done.deleted_addresses += delete.len();
                    }
                    Change::Delete { members, .. } => {
                        done.deleted += 1;
                        done.deleted_addresses += members;
                    }
                }
            }
        }
        done
    }

    fn was_refused(&mut self, refusal: &Refusal, now: Instant) {
        let batch = self.in_flight.take().unwrap_or_default();
        let single = batch.names.len() == 1;
        for Planned {
            name,
            since,
            operations,
            ..
        } in batch.names
        {
            let blamed = match refusal.operation {
                Some(index) => operations.contains(&index),
                None => single,
            };
            if blamed {
                self.wait(&name, refusal, now);
            }
            // If nobody knows which of them it was, each goes alone the next time.
            let alone = refusal.operation.is_none();
            self.mark(name, Dirty { since, alone });
        }
    }

    fn wait(&mut self, name: &DnsName, refusal: &Refusal, now: Instant) {
        let times = self.refused.get(name).map_or(0, |refused| refused.times);
        if times == 0 {
            tracing::warn!(%name, %refusal, "the server refuses to change the address sets of a name");
        }
        let wait = FIRST_WAIT
            .saturating_mul(1 << times.min(10))
            .min(LONGEST_WAIT);
        let refused = Refused {
            times: times.saturating_add(1),
            until: Some(now + wait),
        };
        self.refused.insert(name.clone(), refused);
    }

    fn end_waits(&mut self, now: Instant) {
        for (name, refused) in &mut self.refused {
            if refused.until.is_some_and(|until| until <= now) {
                refused.until = None;
                self.queue.push_back(name.clone());
            }
        }
    }

    fn changes(&mut self, name: &DnsName, replica: &Replica<AddressSet>) -> Vec<Change> {
        let rows: Vec<_> = replica.with_key(name).collect();
        let changes = plan(name, self.desired.wanted(name).as_ref(), &rows);
        let in_a_row = |address: &_| rows.iter().any(|(_, row)| row.holds(address));
        self.desired.settle(name, !rows.is_empty(), in_a_row);
        changes
    }

    fn mark(&mut self, name: DnsName, new: Dirty) {
        match self.dirty.entry(name) {
            Entry::Occupied(mut entry) => {
                let dirty = entry.get_mut();
                dirty.since = dirty.since.or(new.since);
                dirty.alone |= new.alone;
            }
            Entry::Vacant(entry) => {
                self.queue.push_back(entry.key().clone());
                entry.insert(new);
            }
        }
    }
}

/// A name with a row that is in the replica, though the server found none to change.
fn ghost(
    batch: &Batch,
    results: &[OperationResult],
    replica: &Replica<AddressSet>,
) -> Option<DnsName> {
    for planned in &batch.names {
        let mut next = planned.operations.start;
        for change in &planned.changes {
            // The last operation of a change is the one that counts.
            next += change.operation_count();
            let count = results
                .get(next.saturating_sub(1))
                .and_then(|result| result.count);
            let there = change
                .uuid()
                .is_some_and(|uuid| replica.get(uuid).is_some());
            if count == Some(0) && there {
                return Some(planned.name.clone());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests;
