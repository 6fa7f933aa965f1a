//! Objects whose `DNSResolver` is gone, in a store that does not delete them.

use std::collections::BTreeMap;

use runtime::store::ObjectKey;

use super::{Job, Now, Operation, plan::precondition, schedule::Schedule, state::State};
use crate::output::{Output, covers};

/// Deletes marked objects whose `DNSResolver` is gone. A namespace without any `DNSResolver` since the start is left
/// alone: perhaps its folder is not mounted, and without a policy all egress is open.
pub(super) fn orphans(
    state: &mut State,
    schedule: &mut Schedule,
    room: usize,
    now: Now,
) -> Vec<Job> {
    let is_later = schedule
        .orphans_not_before
        .is_some_and(|at| at > now.instant);
    if state.options.collects_garbage || is_later {
        return Vec::new();
    }
    schedule.orphans_not_before = None;
    if !std::mem::take(&mut schedule.has_orphans) {
        return Vec::new();
    }
    let mut begun = Vec::new();
    for job in found(state).into_values() {
        if begun.len() >= room || !schedule.flights.begin(&job.key) {
            schedule.has_orphans = true;
            continue;
        }
        if let Some(owner) = state.resolvers.get_mut(&job.key) {
            owner.flight.begin();
        }
        begun.push(job);
    }
    begun
}

fn found(state: &State) -> BTreeMap<ObjectKey, Job> {
    let mut jobs: BTreeMap<ObjectKey, Job> = BTreeMap::new();
    for output in Output::ALL {
        for (key, observed) in state.stored.of(output).all() {
            let owner = state.resolvers.get(key);
            let has_owner =
                owner.is_some_and(|it| it.is_controller_of(observed.controller.as_deref()));
            let is_orphan = observed.controller.is_some() && observed.is_marked && !has_owner;
            if !is_orphan
                || covers(&state.unreadable, key)
                || !state.seen_namespaces.contains(&key.namespace)
                || owner.is_some_and(|it| it.flight.is_under_way)
            {
                continue;
            }
            let job = jobs.entry(key.clone()).or_insert_with(|| Job {
                key: key.clone(),
                operations: Vec::new(),
                status: None,
                since: None,
            });
            job.operations
                .push(Operation::Delete(output, precondition(observed)));
        }
    }
    jobs
}
