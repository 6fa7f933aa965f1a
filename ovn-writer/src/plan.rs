//! Plans transactions from the desired and the actual state, and tracks their outcomes.
//!
//! [`Reconciler`] has both states, and the names that may differ. For each [`SyncEvent`] it recomputes only the
//! affected names, from their whole state and not from the event's content. While a transaction is pending, changes
//! gather for the next. There is no IO here, and no clock.
//!
//! | module | content |
//! |---|---|
//! | [`set_plan`] | the differences of a name's sets, and the action for each |
//! | [`change`] | a change of a row, as an operation |
//! | [`differences`] | counts of differences |
//! | `state` | the state of both sides |
//! | `batch` | a pending transaction |
//! | `queue` | the names to check, now or later |
//! | `admission` | the changes to make now, and those that wait |
//! | `drift_backoff` | when to undo another client's change |
//! | `rejected_transactions` | retries after the server refused a transaction |
//! | `name_conflicts` | sets that cannot be created because others have their name |
//! | `new_addresses` | the last new addresses of rows |
//! | `index` | from the names of sets to DNS names |

mod admission;
mod batch;
pub mod change;
pub mod differences;
mod drift_backoff;
mod index;
mod name_conflicts;
mod new_addresses;
mod policy;
mod queue;
mod rejected_transactions;
pub mod set_of;
pub mod set_plan;
mod state;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use foldhash::HashMap;
use proto::api::{DnsName, DnsNameResolver};
use runtime::{log_rate_limiter::LogRateLimiter, store::Event};

use self::{
    batch::Batch,
    change::ChangesText,
    drift_backoff::DriftBackoff,
    queue::{Queue, QueueReason},
    rejected_transactions::{RejectedName, back_off},
};
pub use self::{
    batch::{BatchLimits, Done, Repaired},
    change::Change,
    differences::Differences,
    name_conflicts::NameConflict,
    new_addresses::{NewAddress, NewAddresses},
    policy::{Delays, Policy},
    set_plan::Plan,
    state::SyncState,
};
use ovsdb_replica::{Operation, Outcome, Refusal};

use crate::{
    address_set,
    references::{NorthboundChanges, NorthboundReplica},
};

/// The state of the reconciliation.
#[derive(Debug)]
pub struct Reconciler {
    state: SyncState,
    queue: Queue,
    /// Names whose changes the server refused, until they succeed.
    refused: HashMap<DnsName, RejectedName>,
    /// Recent repairs, of the sets of each family.
    drift_backoff: HashMap<DnsName, [DriftBackoff; 2]>,
    /// The oldest first.
    in_flight: VecDeque<Batch>,
    repair_log: LogRateLimiter,
    pub(crate) new_addresses: NewAddresses,
    /// The number of parts of refused transactions so far.
    parts: u64,
}

/// An input of a [`Reconciler`].
#[derive(Debug)]
pub enum SyncEvent<'a> {
    /// An event of the store.
    Store(&'a Event<DnsNameResolver>),
    /// The database was read again: any name may differ, and refused changes may succeed now.
    DatabaseRead(&'a NorthboundReplica),
    /// The database changed, by this program or another client.
    DatabaseChanged(&'a NorthboundReplica, NorthboundChanges),
    /// The connection is lost: the effect of pending transactions is unknown.
    DatabaseLost,
    /// In a process that does not write: a [probe](Reconciler::probe) was answered, or the names of all sets were read.
    Answered(&'a Outcome),
}

/// The end of a transaction, and its consequence.
#[derive(Debug)]
pub enum Finished {
    Done(Done),
    /// The server refused it; its names will be retried.
    Refused(Refusal),
    /// The server refused it, since ovn-kubernetes manages the database; other transactions follow.
    Managed,
    /// The replica is unreliable: start over.
    StartOver(StartOver),
}

/// Why everything must be read again.
#[derive(Debug, thiserror::Error)]
pub enum StartOver {
    /// The outcome of a transaction is unknown.
    #[error("the outcome of a transaction is unknown: {0}")]
    Unknown(ovsdb_replica::Error),
    /// The server found no row although the replica has one.
    #[error("the replica has a row of {0} that is not in the database")]
    ReplicaMismatch(DnsName),
}

impl Reconciler {
    /// An empty state.
    pub fn new(policy: Policy) -> Self {
        Self {
            state: SyncState::new(policy),
            queue: Queue::default(),
            refused: HashMap::default(),
            drift_backoff: HashMap::default(),
            in_flight: VecDeque::new(),
            repair_log: LogRateLimiter::default(),
            new_addresses: NewAddresses::default(),
            parts: 0,
        }
    }

    /// The state of both sides.
    pub fn state(&self) -> &SyncState {
        &self.state
    }

    pub fn handle(&mut self, event: SyncEvent<'_>, now: Instant) {
        match event {
            SyncEvent::Store(event) => {
                let reason = QueueReason::store(now);
                for name in self.state.store_changed(event) {
                    self.queue.mark(name, reason);
                }
            }
            SyncEvent::DatabaseRead(replica) => {
                self.handle(SyncEvent::DatabaseLost, now);
                self.refused.clear();
                let since = self.queue.start_over();
                for name in self.state.database_read(replica) {
                    let since = since.get(&name).copied();
                    let suspects = None;
                    self.queue.mark(name, QueueReason { since, suspects });
                }
            }
            SyncEvent::DatabaseChanged(replica, changes) => {
                self.queue
                    .mark_all(self.state.database_changed(replica, &changes));
                self.queue.mark_all(changes.0);
            }
            SyncEvent::DatabaseLost => {
                while !self.in_flight.is_empty() {
                    for planned in self.ended(0).names {
                        self.queue.mark(planned.name, planned.mark);
                    }
                }
            }
            SyncEvent::Answered(outcome) => self.state.answered(outcome),
        }
    }

    /// Whether there is nothing to do now; [refused](Self::refused) changes are retried later.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.in_flight.is_empty()
    }

    /// Whether there may be a [transaction](Reconciler::next_transaction) now. Changes that come while one is pending
    /// gather for the next. Only if both are of full size, the server need not wait for us in between.
    pub fn has_room(&self) -> bool {
        let limits = self.state.policy.limits;
        match (self.in_flight.front(), self.in_flight.get(1)) {
            (None, _) => true,
            (Some(first), None) => first.is_full(limits) && self.queue.len() >= limits.rows,
            (Some(_), Some(_)) => false,
        }
    }

    /// The number of names with refused changes.
    pub fn refused(&self) -> usize {
        let is_other = |name: &&DnsName| !self.refused.contains_key(*name);
        self.refused.len() + self.state.name_conflicts.names().filter(is_other).count()
    }

    /// When there may be something to do even without an event.
    pub fn next_timer(&self) -> Option<Instant> {
        let timer = self.queue.next_timer();
        timer.filter(|_| self.state.desired.has_been_read)
    }

    /// The next transaction, if there is anything to do and [room](Reconciler::has_room). It is then pending, behind
    /// the earlier ones, until [`Reconciler::finished`].
    pub fn next_transaction(
        &mut self,
        replica: &NorthboundReplica,
        now: Instant,
    ) -> Option<Vec<Operation>> {
        if !self.has_room() || !self.wake(now) {
            return None;
        }
        let mut batch = Batch::default();
        while let Some((name, mark)) = self.next_name() {
            let refused = self.refused.get(&name).map(|refused| refused.until);
            if let Some(until) = refused.filter(|until| *until > now) {
                self.queue.defer(name, mark, until);
                continue;
            }
            let mut mark = mark;
            if mark.suspects.is_none() && self.state.name_conflicts.are_due(&name, now) {
                mark.suspects = self.next_suspects();
            }
            if batch.others_than(mark.suspects) {
                self.queue.put_back(name, mark);
                break;
            }
            let plan = self.examine(&name, replica, true, now);
            let findings = self.admit(&name, mark, plan, now);
            if findings.is_empty() {
                continue;
            }
            // The server refuses to delete a row to which a NAT row refers, and other changes with it.
            let deletes = findings.iter().any(|finding| finding.change.is_deletion());
            if deletes && !batch.names.is_empty() {
                self.queue.put_back(name, mark);
                break;
            }
            // Sets in use are created even if ovn-kubernetes manages the database.
            batch.is_guarded |= !self.state.is_managed()
                && findings.iter().any(|finding| finding.change.is_creation());
            batch.add(name, mark, findings);
            if deletes || batch.is_full(self.state.policy.limits) {
                break;
            }
        }
        if batch.names.is_empty() {
            return None;
        }
        for planned in &batch.names {
            self.queue.hold(planned.name.clone());
        }
        let operations = batch.send();
        self.in_flight.push_back(batch);
        Some(operations)
    }

    /// The next name to check. If there is none, all were compared.
    fn next_name(&mut self) -> Option<(DnsName, QueueReason)> {
        let next = self.queue.pop();
        self.state.is_compared |= next.is_none() && self.in_flight.is_empty();
        next
    }

    /// The differences and planned actions of each name that may differ. No transaction is pending then.
    pub fn next_plans(
        &mut self,
        replica: &NorthboundReplica,
        now: Instant,
    ) -> Vec<(DnsName, Plan)> {
        let mut plans = Vec::new();
        if self.wake(now) {
            while let Some((name, _)) = self.next_name() {
                let plan = self.examine(&name, replica, false, now);
                plans.push((name, plan));
            }
        }
        plans
    }

    /// For a process that does not write: a transaction without changes that the server refuses if ovn-kubernetes
    /// manages the database. `None` if that need not be known. Its outcome is [`SyncEvent::Answered`].
    pub fn probe(&self) -> Option<Vec<Operation>> {
        (!self.state.is_managed()).then(|| vec![batch::unmanaged()])
    }

    /// For a process that does not write: queues the names again, since their plans were not reported yet. Returns a
    /// transaction that reads the names of all sets. Its outcome is [`SyncEvent::Answered`].
    pub fn ask_names(&mut self, names: impl IntoIterator<Item = DnsName>) -> Vec<Operation> {
        self.queue.mark_all(names);
        vec![address_set::select_names()]
    }

    /// Records the end of a transaction that had `place` older ones before it. `replica` has all updates from before
    /// its outcome.
    pub fn finished(
        &mut self,
        place: usize,
        outcome: Outcome,
        replica: &NorthboundReplica,
        now: Instant,
    ) -> Finished {
        match outcome {
            Outcome::Done(results) => {
                let batch = self.ended(place);
                if let Some(name) = batch.ghost(&results, &replica.0) {
                    return Finished::StartOver(StartOver::ReplicaMismatch(name));
                }
                let mut done = Done::default();
                for planned in &batch.names {
                    let (name, findings) = (&planned.name, &planned.findings);
                    self.refused.remove(name);
                    tracing::debug!(%name, changes = %ChangesText(findings), "rows changed");
                    self.new_addresses.record(planned, replica, now);
                    self.state.done(findings, replica);
                    done.add(planned, now);
                }
                Finished::Done(done)
            }
            Outcome::Refused(refusal) => {
                let batch = self.ended(place);
                let guard = refusal.operation.filter(|index| batch.is_guard(*index));
                if guard.is_some() {
                    self.state.is_managed = true;
                    for planned in batch.names {
                        self.state.desired.compared(&planned.name, false);
                        self.queue.mark(planned.name, planned.mark);
                    }
                    return Finished::Managed;
                }
                self.was_refused(batch, &refusal, replica, now);
                Finished::Refused(refusal)
            }
            Outcome::Unknown(error) => {
                self.handle(SyncEvent::DatabaseLost, now);
                Finished::StartOver(StartOver::Unknown(error))
            }
        }
    }

    /// Removes a pending transaction.
    fn ended(&mut self, place: usize) -> Batch {
        let batch = self.in_flight.remove(place).unwrap_or_default();
        for planned in &batch.names {
            self.queue.release(&planned.name);
        }
        batch
    }

    /// Queues the names that are due; false before the store was read, when no address is desired yet.
    fn wake(&mut self, now: Instant) -> bool {
        if !self.state.desired.has_been_read {
            return false;
        }
        self.queue.mark_all(self.state.wake());
        self.queue.wake(now);
        true
    }

    fn examine(
        &mut self,
        name: &DnsName,
        replica: &NorthboundReplica,
        is_carried_out: bool,
        now: Instant,
    ) -> Plan {
        let plan = self.state.examine(name, replica, is_carried_out, now);
        if let Some(due) = plan.due {
            self.queue.look_at(name.clone(), due);
        }
        plan
    }

    /// How long the server will not be asked again to change the sets of a name, after a refusal.
    pub fn refused_for(&self, name: &DnsName, now: Instant) -> Option<Duration> {
        let refused = self.refused.get(name)?;
        Some(refused.until.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests;
