//! Retries after the server refused a transaction: finds the culprit, and waits.

use std::time::{Duration, Instant};

use proto::api::DnsName;

use super::{
    Reconciler,
    batch::{Batch, Planned},
    change::Change,
    index::sets,
    queue::QueueReason,
    set_of::SetOf,
};
use ovsdb_replica::Refusal;

use crate::{
    address_set::AddressSet,
    references::{NorthboundReplica, SetName},
};

/// The first wait after the server refused the changes of a name; each further refusal doubles it.
pub(super) const FIRST_WAIT: Duration = Duration::from_millis(100);

pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The error for a row that cannot be created (RFC 7047 section 3.1).
const CONSTRAINT_VIOLATION: &str = "constraint violation";

/// A name whose changes were refused.
#[derive(Clone, Copy, Debug)]
pub(super) struct RejectedName {
    times: u32,
    pub(super) until: Instant,
}

/// Whether the database has this set of the name.
fn has_set(replica: &NorthboundReplica, name: &DnsName, set: &SetOf) -> bool {
    let is_it = |row: &AddressSet| {
        let of_name = sets(&set.controller, name).into_iter();
        let mut wanted = of_name.filter(|(family, _)| *family == set.family);
        wanted.any(|(_, wanted)| wanted == SetName::from(row.name()))
    };
    replica.0.with_key(name).any(|(_, row)| is_it(row))
}

/// How long to wait after this many refusals and one more.
pub(super) fn back_off(times: u32) -> Duration {
    let wait = FIRST_WAIT.saturating_mul(1 << times.min(10));
    wait.min(LONGEST_WAIT)
}

impl Reconciler {
    /// Schedules the retry of a refused transaction's names.
    pub(super) fn was_refused(
        &mut self,
        batch: Batch,
        refusal: &Refusal,
        replica: &NorthboundReplica,
        now: Instant,
    ) {
        for planned in &batch.names {
            self.state.desired.compared(&planned.name, false);
        }
        let Some(index) = refusal.operation else {
            self.divide(batch.names, refusal, now);
            return;
        };
        for planned in batch.names {
            if !planned.has(index) {
                self.queue.mark(planned.name, planned.mark);
                continue;
            }
            match planned.conflict(index).cloned() {
                Some(set) if has_set(replica, &planned.name, &set) => {
                    // Another client was faster, and created the same set.
                    self.queue.mark(planned.name, planned.mark);
                }
                Some(set) => self.name_conflict(&planned, set, refusal, now),
                None => self.wait(planned, refusal, now),
            }
        }
    }

    /// The culprit is unknown, so it is searched by bisection: half of the names go together next, then the other half,
    /// until one is left.
    fn divide(&mut self, mut names: Vec<Planned>, refusal: &Refusal, now: Instant) {
        if names.len() > 1 {
            let rest = names.split_off(names.len().div_ceil(2));
            for half in [names, rest] {
                let suspects = self.next_suspects();
                for planned in half {
                    let mark = QueueReason {
                        suspects,
                        ..planned.mark
                    };
                    self.queue.mark(planned.name, mark);
                }
            }
            return;
        }
        for planned in names {
            let is_new = planned.mark.suspects.is_none();
            let may_conflict = refusal.reason.error == CONSTRAINT_VIOLATION
                && planned.changes().any(Change::is_creation);
            if is_new && may_conflict {
                // As a suspect it is retried alone, which shows the faulty set.
                let suspects = self.next_suspects();
                let mark = QueueReason {
                    suspects,
                    ..planned.mark
                };
                self.queue.mark(planned.name, mark);
            } else {
                self.wait(planned, refusal, now);
            }
        }
    }

    /// A new group of a bisected transaction.
    pub(super) fn next_suspects(&mut self) -> Option<u64> {
        self.parts = self.parts.wrapping_add(1);
        Some(self.parts)
    }

    /// Another client has the name of one of our sets. The other changes of the name are made without it.
    fn name_conflict(&mut self, planned: &Planned, set: SetOf, refusal: &Refusal, now: Instant) {
        let (name, family) = (&planned.name, set.family);
        let controller = set.controller.clone();
        if self.state.name_conflicts.refused(name, set, now) {
            tracing::warn!(%name, %family, controller, %refusal, "an address set cannot be created: another client has one of its name. `egress verify` names the row; remove the row if nothing needs it");
        }
        self.queue.mark(name.clone(), planned.mark);
    }

    fn wait(&mut self, planned: Planned, refusal: &Refusal, now: Instant) {
        if planned.changes().any(Change::is_deletion) {
            tracing::debug!(name = %planned.name, %refusal, "an address set without a rule stays: a NAT row refers to it");
            let until = now + self.state.policy.delays.delete;
            self.queue.defer(planned.name, planned.mark, until);
            return;
        }
        let name: DnsName = planned.name;
        let times = self.refused.get(&name).map_or(0, |refused| refused.times);
        if times == 0 {
            tracing::warn!(%name, %refusal, "the database server refuses to change the address sets of a name; the ovn-writer tries again");
        }
        let until = now + back_off(times);
        let times = times.saturating_add(1);
        self.refused
            .insert(name.clone(), RejectedName { times, until });
        self.queue.defer(name, planned.mark, until);
    }
}
