//! From what is wanted and what is there to transactions, and what becomes of them.
//!
//! [`Reconciler`] knows both sides and which names may differ. It takes each [`SyncEvent`] and recomputes the names concerned, and no
//! others, from the whole of their state; what led to it does not matter. While a transaction is under way, changes gather for the
//! next. There is no IO here, and no clock.
//!
//! | room | what it does |
//! |---|---|
//! | [`plan`] | what is different in the sets of a name, and what becomes of it |
//! | [`change`] | a change of a row, as an operation |
//! | [`differences`] | how many there are |
//! | `sync_state` | all that is known of both sides |
//! | [`absence`] | how many names may be closed as their objects are absent |
//! | `batch` | a transaction under way |
//! | `queue` | the names that are to be looked at, now or later |
//! | `admission` | what is changed now, and what waits |
//! | `drift_backoff` | when to undo what another client did |
//! | `rejected_transactions` | what follows when the server refuses one |
//! | `name_conflicts` | sets that cannot be made, as others have the name |
//! | [`change_log`] | what was done to the sets of a name |
//! | `index` | from the names of sets to DNS names |

pub mod absence;
mod admission;
mod batch;
pub mod change;
pub mod change_log;
pub mod differences;
mod drift_backoff;
mod index;
mod name_conflicts;
pub mod plan;
mod policy;
mod queue;
mod rejected_transactions;
pub mod set_of;
mod sync_state;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use foldhash::HashMap;
use proto::api::{DnsName, DnsNameResolver};
use runtime::{log_rate_limiter::LogRateLimiter, store::Event};

use self::{
    batch::Batch,
    change_log::{ChangeLog, ChangesText},
    drift_backoff::DriftBackoff,
    queue::{Mark, Queue},
    rejected_transactions::{Refused, back_off},
};
pub use self::{
    batch::{BatchLimits, Done, Repaired},
    change::Change,
    differences::Differences,
    name_conflicts::NameConflict,
    plan::{Creation, Plan, PlanOptions},
    policy::{CreateSets, Policy},
    sync_state::SyncState,
};
use ovsdb_replica::{Operation, Outcome, Refusal};

use crate::{
    address_set,
    references::{NorthboundChanges, NorthboundReplica},
};

/// The state of the whole.
#[derive(Debug)]
pub struct Reconciler {
    state: SyncState,
    queue: Queue,
    /// Names whose changes the server refused, until they succeed.
    refused: HashMap<DnsName, Refused>,
    /// What was undone lately, of the sets of each family.
    drift_backoff: HashMap<DnsName, [DriftBackoff; 2]>,
    /// The oldest first.
    in_flight: VecDeque<Batch>,
    repair_log: LogRateLimiter,
    pub(crate) change_log: ChangeLog,
    /// How many parts of refused transactions there were.
    parts: u64,
}

/// What happens around a [`Reconciler`].
#[derive(Debug)]
pub enum SyncEvent<'a> {
    /// The store says something.
    Store(&'a Event<DnsNameResolver>),
    /// The database was read anew: any name may differ, and nothing that was refused need be refused again.
    DatabaseRead(&'a NorthboundReplica),
    /// Something changed in the database: by this program or another client.
    DatabaseChanged(&'a NorthboundReplica, NorthboundChanges),
    /// The connection is lost: what was under way may have taken effect or not.
    DatabaseLost,
    /// Where nothing is written: a [question](Reconciler::probe) was answered, or the names of all sets were read.
    Answered(&'a Outcome),
    /// This program was held up until now: what happened meanwhile may be known only later. Names that are away are not closed for
    /// [`Delays::away`](plan::Delays::away).
    HeldUp,
}

/// How a transaction ended, and what follows from it.
#[derive(Debug)]
pub enum Finished {
    /// It took effect.
    Done(Done),
    /// It did not; its names will be tried again.
    Refused(Refusal),
    /// It did not, as ovn-kubernetes manages the database; other transactions follow.
    Managed,
    /// The replica cannot be relied on: start over.
    StartOver(StartOver),
}

/// Why everything must be read anew.
#[derive(Debug, thiserror::Error)]
pub enum StartOver {
    /// The outcome of a transaction is unknown.
    #[error("the outcome of a transaction is unknown: {0}")]
    Unknown(ovsdb_replica::Error),
    /// The server changed no row where the replica has one.
    #[error("a row of {0} that the replica has is not in the database")]
    ReplicaMismatch(DnsName),
}

impl Reconciler {
    /// Nothing is known yet.
    pub fn new(policy: Policy) -> Self {
        Self {
            state: SyncState::new(policy),
            queue: Queue::default(),
            refused: HashMap::default(),
            drift_backoff: HashMap::default(),
            in_flight: VecDeque::new(),
            repair_log: LogRateLimiter::default(),
            change_log: ChangeLog::default(),
            parts: 0,
        }
    }

    /// All that is known of both sides.
    pub fn state(&self) -> &SyncState {
        &self.state
    }

    /// Takes over what happened.
    pub fn handle(&mut self, event: SyncEvent<'_>, now: Instant) {
        match event {
            SyncEvent::Store(event) => {
                for name in self.state.store_changed(event, now) {
                    self.queue.mark(name, Mark::store(now));
                }
            }
            SyncEvent::DatabaseRead(replica) => {
                self.handle(SyncEvent::DatabaseLost, now);
                self.refused.clear();
                let since = self.queue.start_over();
                for name in self.state.database_read(replica) {
                    let since = since.get(&name).copied();
                    let suspects = None;
                    self.queue.mark(name, Mark { since, suspects });
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
            SyncEvent::HeldUp => {
                let away = self.state.policy.options.delays.away;
                self.state.closes_from = Some(now + away);
            }
        }
    }

    /// Whether nothing is left to do now; what was [refused](Self::refused) is left for later.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.in_flight.is_empty()
    }

    /// Whether there may be a [transaction](Reconciler::next_transaction) now. What changes while one is under way goes into the
    /// next; only if that one is as large as may be, and so would be the next, the server need not wait for us in between.
    pub fn has_room(&self) -> bool {
        let limits = self.state.policy.limits;
        match (self.in_flight.front(), self.in_flight.get(1)) {
            (None, _) => true,
            (Some(first), None) => first.is_full(limits) && self.queue.len() >= limits.rows,
            (Some(_), Some(_)) => false,
        }
    }

    /// The number of names whose changes the server refused, or some of them.
    pub fn refused(&self) -> usize {
        let is_other = |name: &&DnsName| !self.refused.contains_key(*name);
        self.refused.len() + self.state.name_conflicts.names().filter(is_other).count()
    }

    /// An administrator permits to empty the sets of the names that are absent now. Returns these names.
    pub fn allow_empty(&mut self) -> Vec<DnsName> {
        let names = self.state.allow_empty();
        self.queue.mark_all(names.iter().cloned());
        names
    }

    /// When there may be something to do even if nothing changes.
    pub fn next_timer(&self, now: Instant) -> Option<Instant> {
        if !self.state.desired.has_been_read {
            return None;
        }
        let state = self.state.next_timer(now);
        self.queue.next_timer().into_iter().chain(state).min()
    }

    /// The next transaction, if there is anything to do and [room](Reconciler::has_room). It is under way then, behind those that
    /// are, until [`Reconciler::finished`].
    pub fn next_transaction(
        &mut self,
        replica: &NorthboundReplica,
        now: Instant,
    ) -> Option<Vec<Operation>> {
        if !self.has_room() || !self.wake(now) {
            return None;
        }
        let mut batch = Batch::default();
        while let Some((name, mark)) = self.next_name(now) {
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
            // What something refers to is made even where ovn-kubernetes manages the database.
            batch.is_guarded |= self.state.policy.create == CreateSets::Auto
                && self.state.creation(now) == Creation::AtOnce
                && findings.iter().any(|finding| finding.change.is_creation());
            batch.add(name, mark, findings);
            if batch.is_full(self.state.policy.limits) {
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

    /// The next name that is to be looked at. When there is none, all were compared, which may bring some up again.
    fn next_name(&mut self, now: Instant) -> Option<(DnsName, Mark)> {
        if self.queue.is_empty() && self.in_flight.is_empty() {
            self.queue.mark_all(self.state.all_compared(now));
        }
        self.queue.pop()
    }

    /// What is different in each name that may differ, and what would become of it. Nothing is under way then.
    pub fn next_plans(
        &mut self,
        replica: &NorthboundReplica,
        now: Instant,
    ) -> Vec<(DnsName, Plan)> {
        let mut plans = Vec::new();
        if self.wake(now) {
            while let Some((name, _)) = self.next_name(now) {
                let plan = self.examine(&name, replica, false, now);
                plans.push((name, plan));
            }
        }
        plans
    }

    /// Where nothing is written: a transaction that changes nothing, and is refused if ovn-kubernetes manages the database; `None` if
    /// that need not be known. Its outcome is [`SyncEvent::Answered`].
    pub fn probe(&self) -> Option<Vec<Operation>> {
        let is_unknown = self.state.policy.create == CreateSets::Auto && !self.state.is_managed();
        is_unknown.then(|| vec![batch::unmanaged()])
    }

    /// The names are to be looked at again, as nothing was said of their plans yet. Where nothing is written: returns a transaction
    /// that reads the names of all sets. Its outcome is [`SyncEvent::Answered`].
    pub fn ask_names(&mut self, names: impl IntoIterator<Item = DnsName>) -> Vec<Operation> {
        self.queue.mark_all(names);
        vec![address_set::select_names()]
    }

    /// A transaction ended, which had `place` older ones before it. `replica` has all updates that came before its outcome.
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
                    (self.change_log).note(name, planned.mark.since, findings, now);
                    self.state.done(name, findings, replica, now);
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

    /// Takes out a transaction that was under way.
    fn ended(&mut self, place: usize) -> Batch {
        let batch = self.in_flight.remove(place).unwrap_or_default();
        for planned in &batch.names {
            self.queue.release(&planned.name);
        }
        batch
    }

    /// Marks what is to be looked at by now; false before the store was read, when nothing is wanted yet.
    fn wake(&mut self, now: Instant) -> bool {
        if !self.state.desired.has_been_read {
            return false;
        }
        self.queue.mark_all(self.state.wake(now));
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

    /// For how long the server will not be asked again to change the sets of a name, as it refused to.
    pub fn refused_for(&self, name: &DnsName, now: Instant) -> Option<Duration> {
        let refused = self.refused.get(name)?;
        Some(refused.until.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests;
