//! When `DNSResolver` objects have their turns.

use std::{collections::BTreeSet, time::Instant};

use runtime::store::ObjectKey;

use super::{
    Now,
    flights::{Flights, OF_A_NAMESPACE},
    state::State,
    turns::Turns,
};
use crate::{budget::Budget, output::Output};

/// How many `DNSResolver` objects are planned for each place of a job.
const PLANNED: usize = 4;

/// The work that waits, and the limits of what is under way at once.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    pub(super) budget: Budget,
    /// The resolvers whose status may have to be written.
    pub(super) status_due: Turns,
    /// Those that have to wait after the last write, with the end of the pause.
    pub(super) statuses_later: BTreeSet<(Instant, ObjectKey)>,
    pub(super) flights: Flights,
    /// Whether objects without their `DNSResolver` may be left, in a store that does not delete them.
    pub(super) has_orphans: bool,
    /// The earliest time of their deletion, after one failed.
    pub(super) orphans_not_before: Option<Instant>,
}

impl Schedule {
    /// The statuses of DNSResolvers that want such an object may change.
    pub(super) fn mark_users_of(&mut self, output: Output, state: &State) {
        let users = state.resolvers.iter();
        let users = users.filter(|(_, resolver)| resolver.request.wants(output));
        for (key, _) in users {
            self.status_due.insert(key.clone());
        }
    }

    /// The policies of a namespace decide whether its pods reach DNS. If that has changed, all statuses there may.
    pub(super) fn compare_dns(&mut self, state: &State, namespace: &str, allowed_dns: bool) {
        if state.stored.policies.allows_dns(namespace) == allowed_dns {
            return;
        }
        for (key, _) in state.of_namespace(namespace) {
            self.status_due.insert(key.clone());
        }
    }

    /// The `DNSResolver` objects that are planned next.
    pub(super) fn turns(&mut self, state: &State, room: usize, now: Now) -> Vec<ObjectKey> {
        let due = state.resolvers.iter().filter_map(|(key, resolver)| {
            let since = state.due(key, resolver)?;
            let is_due = since <= now.instant && resolver.budget.wait(now).is_none();
            (is_due && self.flights.may_begin(key)).then(|| (since, key.clone()))
        });
        // A plan takes time, so only those are planned that may begin soon.
        let (due, most) = (due.collect(), PLANNED * room);
        self.budget.in_turns(due, most, OF_A_NAMESPACE, now)
    }

    /// When the next job can begin without another event.
    pub(super) fn next(&self, state: &State, now: Now) -> Option<Instant> {
        let of_all = self.budget.wait(now);
        let due = state.resolvers.iter().filter_map(|(key, resolver)| {
            let due = state.due(key, resolver)?;
            // The end of a job is an event.
            let waits = [Some(due), of_all, resolver.budget.wait(now)];
            let next = waits.into_iter().flatten().max();
            next.filter(|_| self.flights.may_begin(key))
        });
        let mut namespaces = self.status_due.namespaces();
        let may_write = namespaces.any(|namespace| self.flights.has_room(namespace));
        let statuses = may_write.then_some(now.instant);
        let later = self.statuses_later.first().map(|(at, _)| *at);
        let once = [statuses, later, self.orphans_not_before];
        due.chain(once.into_iter().flatten()).min()
    }
}
