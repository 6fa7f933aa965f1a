//! The begin of jobs, and what is remembered of a plan.

use runtime::{kube_events::Severity, store::ObjectKey};

use super::{
    Job, Now,
    plan::{Plan, plan},
    schedule::Schedule,
    state::State,
};
use crate::resolver::TOGETHER;

/// Plans the `DNSResolver` objects whose turn it is, and begins at most so many jobs.
pub(super) fn begin_jobs(
    state: &mut State,
    schedule: &mut Schedule,
    room: usize,
    now: Now,
) -> Vec<Job> {
    let mut jobs = Vec::new();
    for key in schedule.turns(state, room, now) {
        if jobs.len() >= room || schedule.budget.wait(now).is_some() {
            break;
        }
        let Some(resolver) = state.resolvers.get(&key) else {
            continue;
        };
        let plan = plan(state, &key, resolver, now);
        if plan.operations.is_empty() {
            settle(state, schedule, &key, plan, now);
        } else if schedule.flights.begin(&key) {
            jobs.extend(begin(state, schedule, &key, plan, now));
        }
    }
    jobs
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
    let bytes = plan.bytes;
    let job = Job {
        key: key.clone(),
        operations: plan.operations.clone(),
        status: None,
        since,
    };
    for (reason, note) in plan.events.clone() {
        state.report(key, Severity::Warning, reason, note);
    }
    settle(state, schedule, key, plan, now);
    let resolver = state.resolvers.get_mut(key)?;
    let (budget, namespace) = (&mut schedule.budget, &key.namespace);
    budget.charge(namespace, &mut resolver.budget, bytes, now);
    resolver.flight.begin();
    resolver.due.not_before = Some(now.instant + TOGETHER);
    Some(job)
}

/// Remembers a plan whose writes begin, or that has none.
fn settle(state: &mut State, schedule: &mut Schedule, key: &ObjectKey, plan: Plan, now: Now) {
    let Some(resolver) = state.resolvers.get_mut(key) else {
        return;
    };
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
    let planned = &mut resolver.planned;
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
