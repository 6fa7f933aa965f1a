//! From what is wanted and what is there to transactions, and what becomes of them.
//!
//! [`Reconciler`] knows both sides and which names may differ. It is told of every change on either side and recomputes the names
//! concerned, and no others, from the whole of their state; what led to it does not matter. While a transaction is under way,
//! changes gather for the next. There is no IO here, and no clock.
//!
//! | room | what it does |
//! |---|---|
//! | [`plan`] | what is different in the sets of a name, and what becomes of it |
//! | [`change`] | a change of a row, as an operation |
//! | [`differences`] | how many there are |
//! | `picture` | all that is known of both sides |
//! | `batch` | a transaction under way |
//! | `queue` | the names that are to be looked at, now or later |
//! | `repairs` | when to undo what somebody else did |
//! | `refusals` | what follows when the server refuses one |
//! | `clashes` | sets that cannot be made, as others have the name |
//! | `evidence` | whether this is the store that the rows come from |
//! | [`journal`], `look` | what there is to see of a name |
//! | `index` | from the names of sets to DNS names |

mod batch;
pub mod change;
mod clashes;
pub mod differences;
mod evidence;
mod index;
pub mod journal;
mod look;
mod picture;
pub mod plan;
mod policy;
mod queue;
mod refusals;
mod repairs;

use std::{collections::VecDeque, time::Instant};

use foldhash::HashMap;
use proto::api::{DnsName, DnsNameResolver, Family};
use runtime::{sparse::Sparse, store::Event};

use self::{
    batch::Batch,
    change::InWords,
    journal::Journal,
    picture::Picture,
    plan::Verdict,
    queue::{Mark, Queue},
    refusals::{Refused, back_off},
    repairs::Repairs,
};
pub use self::{
    batch::{BatchLimits, Done, Repaired},
    change::Change,
    clashes::Taken,
    differences::Differences,
    picture::Doubt,
    plan::{Creation, Plan, Terms},
    policy::{CreateSets, Policy},
};
use crate::{
    address_set,
    desired::Desired,
    ovsdb::{Operation, Outcome, Refusal},
    references::{NorthboundChanges, NorthboundReplica, References, SetName},
};

/// How the server refuses a transaction whose wait is in vain.
const TIMED_OUT: &str = "timed out";

/// The state of the whole.
#[derive(Debug)]
pub struct Reconciler {
    picture: Picture,
    queue: Queue,
    /// Names whose changes the server refused, until they succeed.
    refused: HashMap<DnsName, Refused>,
    /// What was undone lately, of the sets of each family.
    repairs: HashMap<DnsName, [Repairs; 2]>,
    /// The oldest first.
    in_flight: VecDeque<Batch>,
    repairs_log: Sparse,
    journal: Journal,
    /// How many parts of refused transactions there were.
    parts: u64,
}

/// How a transaction ended, and what follows from it.
#[derive(Debug)]
pub enum Finished {
    /// It took effect.
    Done(Done),
    /// It did not; its names will be tried again.
    Refused(Refusal),
    /// It did not, as somebody manages the database; other transactions follow.
    Managed,
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
    pub fn new(policy: Policy) -> Self {
        Self {
            picture: Picture::new(policy),
            queue: Queue::default(),
            refused: HashMap::default(),
            repairs: HashMap::default(),
            in_flight: VecDeque::new(),
            repairs_log: Sparse::default(),
            journal: Journal::default(),
            parts: 0,
        }
    }

    /// What the store says.
    pub fn desired(&self) -> &Desired {
        &self.picture.desired
    }

    /// Who refers to sets.
    pub fn references(&self) -> &References {
        &self.picture.references
    }

    /// Takes over what the store says.
    pub fn store_changed(&mut self, event: &Event<DnsNameResolver>, now: Instant) {
        for name in self.picture.store_changed(event, now) {
            self.queue.mark(name, Mark::store(now));
        }
    }

    /// The database was read anew: any name may differ, and nothing that was refused need be refused again.
    pub fn database_read(&mut self, replica: &NorthboundReplica) {
        self.database_lost();
        self.refused.clear();
        self.picture.clashes.clear();
        let since = self.queue.start_over();
        for name in self.picture.database_read(replica) {
            let since = since.get(&name).copied();
            let mark = Mark::reading();
            self.queue.mark(name, Mark { since, ..mark });
        }
    }

    /// Something changed in the database, by whomever.
    pub fn database_changed(&mut self, replica: &NorthboundReplica, changes: NorthboundChanges) {
        for name in self.picture.database_changed(replica, &changes) {
            self.queue.mark(name, Mark::default());
        }
        for name in changes.0 {
            self.queue.mark(name, Mark::drift());
        }
    }

    /// The connection is lost: what was under way may have taken effect or not.
    pub fn database_lost(&mut self) {
        while !self.in_flight.is_empty() {
            let batch = self.ended(0);
            for planned in batch.names {
                self.queue.mark(planned.name, planned.mark);
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
        let limits = self.picture.policy.limits;
        match (self.in_flight.front(), self.in_flight.get(1)) {
            (None, _) => true,
            (Some(first), None) => first.is_full(limits) && self.queue.len() >= limits.rows,
            (Some(_), Some(_)) => false,
        }
    }

    /// The number of names whose changes the server refused, or some of them.
    pub fn refused(&self) -> usize {
        let is_other = |name: &&DnsName| !self.refused.contains_key(*name);
        self.refused.len() + self.picture.clashes.names().filter(is_other).count()
    }

    /// The number of names with a set that cannot be made, as somebody else has one of the same name.
    pub fn clashes(&self) -> usize {
        self.picture.clashes.names().count()
    }

    /// The differences that are known of.
    pub fn differences(&self) -> Differences {
        self.picture.differences
    }

    /// Whether somebody manages the address sets of the database, as far as is known.
    pub fn is_managed(&self) -> bool {
        self.picture.is_managed()
    }

    /// Why nothing is removed, if there is a reason.
    pub fn doubt(&self) -> Option<Doubt> {
        self.picture.doubt()
    }

    /// When there may be something to do even if nothing changes.
    pub fn next_timer(&self) -> Option<Instant> {
        if !self.picture.desired.has_been_read() {
            return None;
        }
        let deadline = self.picture.desired.next_deadline();
        self.queue.next_timer().into_iter().chain(deadline).min()
    }

    /// The next transaction, if there is anything to do and [room](Reconciler::has_room). It is under way then, behind those that
    /// are, until [`Reconciler::finished`].
    pub fn next_transaction(
        &mut self,
        replica: &NorthboundReplica,
        now: Instant,
    ) -> Option<Vec<Operation>> {
        if !self.has_room() || !self.wake(replica, now) {
            return None;
        }
        let mut batch = Batch::default();
        while let Some((name, mark)) = self.queue.pop() {
            let refused = self.refused.get(&name).map(|refused| refused.until);
            if let Some(until) = refused.filter(|until| *until > now) {
                self.queue.defer(name, mark, until);
                continue;
            }
            let mut mark = mark;
            if mark.suspects.is_none() && self.picture.clashes.are_due(&name, now) {
                mark.suspects = self.next_suspects();
            }
            if batch.others_than(mark.suspects) {
                self.queue.put_back(name, mark);
                break;
            }
            let plan = self.examine(&name, replica, now);
            let changes = self.admit(&name, mark, plan, now);
            if changes.is_empty() {
                continue;
            }
            // What others forgot is mended whoever manages the database.
            batch.is_guarded |= self.picture.policy.create == CreateSets::Auto
                && self.picture.creation() == Creation::AtOnce
                && changes.iter().any(Change::is_creation);
            batch.add(name, mark, changes);
            if batch.is_full(self.picture.policy.limits) {
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

    /// What is different in each name that may differ, and what would become of it. Nothing is under way then.
    pub fn next_plans(
        &mut self,
        replica: &NorthboundReplica,
        now: Instant,
    ) -> Vec<(DnsName, Plan)> {
        let mut plans = Vec::new();
        if self.wake(replica, now) {
            while let Some((name, _)) = self.queue.pop() {
                let plan = self.examine(&name, replica, now);
                plans.push((name, plan));
            }
        }
        plans
    }

    /// Where nothing is written: a transaction that changes nothing, and is refused if somebody manages the database, for
    /// [`Reconciler::told`]; `None` if that need not be known.
    pub fn probe(&self) -> Option<Vec<Operation>> {
        let is_unknown = self.picture.policy.create == CreateSets::Auto && !self.is_managed();
        is_unknown.then(|| vec![batch::nobody_manages()])
    }

    /// Where nothing is written: a transaction that reads the names of all sets, for [`Reconciler::told`].
    pub fn ask_names() -> Vec<Operation> {
        vec![address_set::select_names()]
    }

    /// What was [asked](Reconciler::probe) was answered, or the [names of all sets](Reconciler::ask_names).
    pub fn told(&mut self, outcome: &Outcome) {
        match outcome {
            // So ends a wait for what is not so (RFC 7047 section 5.2.6).
            Outcome::Refused(refusal) if refusal.reason.error == TIMED_OUT => {
                self.picture.set_managed();
            }
            Outcome::Done(results) if results.iter().any(|result| result.rows.is_some()) => {
                let names = results.iter().flat_map(address_set::names_in);
                self.picture
                    .clashes
                    .read(names.map(SetName::from).collect());
            }
            Outcome::Done(_) | Outcome::Refused(_) | Outcome::Unknown(_) => {}
        }
    }

    /// Names are to be looked at again.
    pub fn look_again(&mut self, names: impl IntoIterator<Item = DnsName>) {
        for name in names {
            self.queue.mark(name, Mark::reading());
        }
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
                    return Finished::StartOver(StartOver::Ghost(name));
                }
                let mut done = Done::default();
                for planned in &batch.names {
                    self.refused.remove(&planned.name);
                    tracing::debug!(name = %planned.name, changes = %InWords(&planned.changes), "rows changed");
                    self.journal.note(planned, now);
                    done.add(planned, now);
                }
                Finished::Done(done)
            }
            Outcome::Refused(refusal) => {
                let batch = self.ended(place);
                let guard = refusal.operation.filter(|index| batch.is_guard(*index));
                if guard.is_some() {
                    self.picture.set_managed();
                    for planned in batch.names {
                        self.queue.mark(planned.name, planned.mark);
                    }
                    return Finished::Managed;
                }
                self.was_refused(batch, &refusal, now);
                Finished::Refused(refusal)
            }
            Outcome::Unknown(error) => {
                self.database_lost();
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
    fn wake(&mut self, replica: &NorthboundReplica, now: Instant) -> bool {
        if !self.picture.desired.has_been_read() {
            return false;
        }
        for name in self.picture.desired.expire(now) {
            self.queue.mark(name, Mark::store(now));
        }
        for name in self.picture.judge(replica) {
            self.queue.mark(name, Mark::reading());
        }
        self.queue.wake(now);
        true
    }

    fn examine(&mut self, name: &DnsName, replica: &NorthboundReplica, now: Instant) -> Plan {
        let plan = self.picture.examine(name, replica, now);
        if let Some(due) = plan.due {
            self.queue.look_at(name.clone(), due);
        }
        plan
    }

    /// Of the changes of a name, those that are made now.
    fn admit(&mut self, name: &DnsName, mark: Mark, plan: Plan, now: Instant) -> Vec<Change> {
        let findings = plan.findings.into_iter();
        let due = findings.filter(|finding| finding.verdict == Verdict::Now);
        let mut changes: Vec<_> = due.map(|finding| finding.change).collect();
        let is_quiet = |of: &[Repairs; 2]| of.iter().all(|repairs| repairs.is_quiet(now));
        if self.repairs.get(name).is_some_and(is_quiet) {
            self.repairs.remove(name);
        }
        if changes.is_empty() {
            self.refused.remove(name);
        } else if !mark.is_repair() {
            let is_mended = mark.is_mending() && changes.iter().any(Change::is_creation);
            if is_mended && let Some(left_out) = self.repairs_log.pass() {
                tracing::warn!(%name, changes = %InWords(&changes), left_out, "an address set that something needs was missing");
            }
        } else {
            let until = self.admit_repairs(name, &mut changes, now);
            if let Some(until) = until {
                self.queue.defer(name.clone(), mark, until);
            }
            if !changes.is_empty() {
                self.queue.look_at(name.clone(), now + repairs::QUIET);
                if let Some(left_out) = self.repairs_log.pass() {
                    tracing::warn!(%name, changes = %InWords(&changes), left_out, "somebody else changed the address sets of a name");
                }
            }
        }
        changes
    }

    /// Leaves the repairs out that must wait, and returns until when.
    fn admit_repairs(
        &mut self,
        name: &DnsName,
        changes: &mut Vec<Change>,
        now: Instant,
    ) -> Option<Instant> {
        let repairs = self.repairs.entry(name.clone()).or_default();
        let mut until = None::<Instant>;
        for (family, repairs) in Family::ALL.into_iter().zip(repairs) {
            if !changes.iter().any(|change| change.family() == family) {
                continue;
            }
            if let Err(at) = repairs.admit(now) {
                changes.retain(|change| change.family() != family);
                until = Some(until.map_or(at, |until| until.min(at)));
            }
        }
        until
    }
}

#[cfg(test)]
mod tests;
