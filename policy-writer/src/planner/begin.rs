//! The begin of jobs, and what is remembered of a plan.

use runtime::store::ObjectKey;

use super::{
    Job, Now,
    plan::{Plan, plan},
    room::free_bytes,
    schedule::Schedule,
    state::State,
};
use crate::{budget::Waiting, resolver::TOGETHER};

/// Plans the `DNSResolver` objects whose turn it is, with places for `room` jobs in all. Begins at most `most` jobs.
pub(super) fn begin_jobs(
    state: &mut State,
    schedule: &mut Schedule,
    room: usize,
    most: usize,
    now: Now,
) -> Vec<Job> {
    let turns = schedule.turns(state, room, now);
    let mut waiting = Vec::new();
    for (since, key) in &turns {
        let free = free_bytes(state, &schedule.growth, key);
        let Some(resolver) = state.resolvers.get(key) else {
            continue;
        };
        let plan = plan(state, key, resolver, free, now);
        if plan.operations.is_empty() {
            settle(state, schedule, key, plan, now);
            continue;
        }
        let bytes = plan.bytes;
        if let Some(resolver) = state.resolvers.get_mut(key) {
            resolver.due.waiting_bytes = Some(bytes);
        }
        // Later plans of the namespace see what this one takes.
        schedule.growth.insert(key.clone(), plan.growth);
        waiting.push(Waiting {
            what: (key, plan),
            namespace: &key.namespace,
            bytes,
            since: *since,
        });
    }
    let (budget, flights) = (&mut schedule.budget, &mut schedule.flights);
    let admitted = budget.admit(waiting, most, now.instant, |(key, _)| {
        flights.begin(key, now.instant)
    });
    schedule.growth.retain(|key, _| flights.has_job(key));
    let jobs = admitted.into_iter();
    jobs.filter_map(|(key, plan)| begin(state, schedule, key, plan, now))
        .collect()
}

/// Begins a planned job.
fn begin(
    state: &mut State,
    schedule: &mut Schedule,
    key: &ObjectKey,
    plan: Plan,
    now: Now,
) -> Option<Job> {
    let since = state.resolvers.get(key).and_then(|it| it.due.dirty_since);
    let job = Job {
        key: key.clone(),
        operations: plan.operations.clone(),
        status: None,
        since,
    };
    for (severity, reason, note) in plan.events.clone() {
        state.report(key, severity, reason, note);
    }
    settle(state, schedule, key, plan, now);
    let resolver = state.resolvers.get_mut(key)?;
    resolver.flight.begin();
    resolver.due.not_before = Some(now.instant + TOGETHER);
    Some(job)
}

/// Remembers a plan whose writes begin, or that has none.
fn settle(state: &mut State, schedule: &mut Schedule, key: &ObjectKey, plan: Plan, now: Now) {
    let Some(resolver) = state.resolvers.get_mut(key) else {
        return;
    };
    if plan.content.is_full {
        let full = schedule.full.entry(key.namespace.clone());
        full.or_insert(now.instant);
    }
    let is_written = |output| plan.operations.iter().any(|it| it.output() == output);
    resolver
        .failures
        .retain(|output, _| plan.retried_later.contains(output) || is_written(*output));
    if plan.operations.is_empty() {
        // They are stored as they should be.
        resolver.written.extend(plan.fingerprints);
    }
    let request = &resolver.request;
    resolver.written.retain(|output, _| request.wants(*output));
    let adopted = plan.floor.keys().map(|output| {
        let adopted = plan.adopted.get(output);
        (*output, adopted.cloned())
    });
    let planned = &mut resolver.planned;
    planned.adopted = adopted.collect();
    planned.floor = plan.floor;
    planned.is_known = true;
    let addresses = plan.content.addresses;
    planned
        .since
        .retain(|address, _| addresses.contains(address));
    for address in &addresses {
        planned.since.entry(*address).or_insert(now.time);
    }
    planned.present = addresses;
    planned.left_out = plan.content.left_out;
    resolver.due.planned(plan.later_at);
    schedule.status_due.insert(key.clone());
}
