//! When `DNSResolver` objects have their turns.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use runtime::store::ObjectKey;

use super::{Now, flights::Flights, state::State, turns::Turns};
use crate::{budget::Budget, output::Output};

/// How many `DNSResolver` objects are planned for each place of a job.
const PLANNED: usize = 4;

/// How many of them are of one namespace: a plan takes time.
const PLANNED_OF_A_NAMESPACE: usize = 8;

/// The work that waits, and the limits of what is under way at once.
#[derive(Debug)]
pub(super) struct Schedule {
    pub(super) budget: Budget,
    /// The resolvers whose status may have to be written.
    pub(super) status_due: Turns,
    /// Those that have to wait after the last write, with the end of the pause.
    pub(super) statuses_later: BTreeSet<(Instant, ObjectKey)>,
    pub(super) flights: Flights,
    /// The bytes by which stored objects grow with the writes that begin or are under way.
    pub(super) growth: BTreeMap<ObjectKey, usize>,
    /// The namespaces where the limit of bytes leaves addresses out, with the earliest time of the next plan for them.
    pub(super) full: BTreeMap<String, Instant>,
    /// Whether objects without their `DNSResolver` may be left, in a store that does not delete them.
    pub(super) has_orphans: bool,
    /// The earliest time of their deletion, after one failed.
    pub(super) orphans_not_before: Option<Instant>,
}

impl Schedule {
    /// `write_bytes`: `--policy-write-bytes`.
    pub(super) fn new(write_bytes: usize, now: Instant) -> Self {
        Self {
            budget: Budget::new(write_bytes, now),
            status_due: Turns::default(),
            statuses_later: BTreeSet::new(),
            flights: Flights::default(),
            growth: BTreeMap::new(),
            full: BTreeMap::new(),
            has_orphans: true,
            orphans_not_before: None,
        }
    }

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

    /// The `DNSResolver` objects that are planned next, with the time since when each is due.
    pub(super) fn turns(
        &mut self,
        state: &State,
        room: usize,
        now: Now,
    ) -> Vec<(Instant, ObjectKey)> {
        let due = state.resolvers.iter();
        let due = due.filter_map(|(key, it)| Some((state.due(key, it)?, key, it)));
        let due: Vec<_> = due.filter(|(since, ..)| *since <= now.instant).collect();
        let namespaces = due.iter().map(|(_, key, _)| key.namespace.as_str());
        self.budget.fill(&namespaces.collect(), now.instant);
        let budget = &self.budget;
        let due = due
            .into_iter()
            .filter(|(_, key, _)| self.flights.may_begin(key))
            .filter(|(since, key, resolver)| {
                let next = |bytes| budget.next(&key.namespace, bytes, *since, now.instant);
                let is_later = |bytes| next(bytes) > now.instant;
                !resolver.due.waiting_bytes.is_some_and(is_later)
            })
            .map(|(since, key, _)| (since, key.clone()));
        // A plan takes time, so only those are planned that may begin soon.
        budget.in_turns(due.collect(), PLANNED * room, PLANNED_OF_A_NAMESPACE)
    }

    /// When the next job can begin without another event.
    pub(super) fn next(&self, state: &State, now: Now) -> Option<Instant> {
        let due = state.resolvers.iter().filter_map(|(key, resolver)| {
            let due = state.due(key, resolver)?;
            if !self.flights.may_begin(key) {
                // The end of a job is an event.
                return None;
            }
            let bytes = resolver.due.waiting_bytes;
            Some(bytes.map_or(due, |bytes| {
                let next = |since| {
                    let namespace = &key.namespace;
                    self.budget.next(namespace, bytes, since, now.instant)
                };
                due.max(next(due))
            }))
        });
        let mut namespaces = self.status_due.namespaces();
        let may_write = namespaces.any(|namespace| self.flights.has_room(namespace));
        let statuses = may_write.then_some(now.instant);
        let later = self.statuses_later.first().map(|(at, _)| *at);
        let once = [statuses, later, self.orphans_not_before];
        due.chain(once.into_iter().flatten()).min()
    }
}
