//! The results of jobs.

use std::time::Duration;

use runtime::{kube_events::Severity, store::ObjectKey};

use super::{Done, Now, OperationResult, schedule::Schedule, state::State};
use crate::{
    output::{Observed, Output, Outputs},
    resolver::Meanwhile,
};

/// The pause before objects without a `DNSResolver` are deleted, after a deletion failed.
const ORPHANS_AGAIN: Duration = Duration::from_secs(30);

/// Takes the results of a job in.
pub(super) fn finished(state: &mut State, schedule: &mut Schedule, done: Done, now: Now) {
    schedule.flights.end(&done.key);
    let is_success = done.is_success();
    // A status alone is no reason for a plan.
    let needs_plan = !done.results.is_empty() || !done.is_complete;
    let Done {
        key,
        results,
        status,
        ..
    } = done;
    let allowed_dns = state.stored.policies.allows_dns(&key.namespace);
    for (output, result) in results {
        take_result(state, &key, output, result, now);
    }
    schedule.compare_dns(state, &key.namespace, allowed_dns);
    let Some(resolver) = state.resolvers.get_mut(&key) else {
        if !is_success && !state.options.collects_garbage {
            let again = now.instant + ORPHANS_AGAIN;
            schedule.orphans_not_before = Some(again);
            schedule.has_orphans = true;
        }
        return;
    };
    resolver.flight.end();
    // After a failure the watch brings the new version, or the next attempt comes after a pause.
    if let Some(Ok(stored)) = status {
        resolver.wrote_status(stored);
    }
    if needs_plan {
        // Events that came meanwhile, and objects that others changed.
        resolver.due.touch(now.instant);
    }
    schedule.status_due.insert(key);
}

fn take_result(
    state: &mut State,
    key: &ObjectKey,
    output: Output,
    result: OperationResult,
    now: Now,
) {
    let meanwhile = state.resolvers.get_mut(key);
    let meanwhile = meanwhile.and_then(|it| it.flight.meanwhile.remove(&output));
    let mut failure = None;
    match result {
        OperationResult::Written(observed) => {
            if let Some(resolver) = state.resolvers.get_mut(key) {
                resolver.written.insert(output, observed.fingerprint);
            }
            take_stored(state.stored.of_mut(output), key, observed, meanwhile);
        }
        OperationResult::Changed(observed) => {
            take_stored(state.stored.of_mut(output), key, observed, meanwhile)
        }
        OperationResult::Deleted => {
            take_absence(state.stored.of_mut(output), key, meanwhile);
            report_deletion(state, key, output);
        }
        OperationResult::Gone => take_absence(state.stored.of_mut(output), key, meanwhile),
        OperationResult::Failed(error) => failure = Some(error),
    }
    let Some(resolver) = state.resolvers.get_mut(key) else {
        return;
    };
    match failure {
        None => drop(resolver.failures.remove(&output)),
        Some(error) => {
            resolver.failed(output, error.to_string(), now.instant);
            resolver.due.is_urgent = true;
        }
    }
}

/// Takes in an object that a job has stored or read, unless it may be gone or changed since. Then it is read again, since its
/// creation fails if it exists.
fn take_stored(
    outputs: &mut Outputs,
    key: &ObjectKey,
    observed: Observed,
    meanwhile: Option<Meanwhile>,
) {
    let is_sure = match (meanwhile, outputs.get(key)) {
        (None, _) => true,
        // The event is about this version, or about one after it.
        (Some(_), Some(known)) if known.is_version_of(&observed) => return,
        (Some(Meanwhile::Changed), Some(known)) if known.is_newer_than(&observed) => return,
        (Some(Meanwhile::Changed), Some(known)) => observed.is_newer_than(known),
        (Some(_), _) => false,
    };
    if is_sure {
        outputs.replace(key.clone(), observed);
    } else {
        outputs.remove(key);
    }
}

/// There was no object after a job. One of which the watch told meanwhile may be newer; its deletion would follow.
fn take_absence(outputs: &mut Outputs, key: &ObjectKey, meanwhile: Option<Meanwhile>) {
    if !matches!(meanwhile, Some(Meanwhile::Changed | Meanwhile::Listed)) {
        outputs.remove(key);
    }
}

fn report_deletion(state: &mut State, key: &ObjectKey, output: Output) {
    if output == Output::Policy {
        let note = "the NetworkPolicy is deleted, since spec.generateType no longer asks for it. Without a policy the pods of the namespace may reach everything";
        state.report(key, Severity::Warning, "PolicyRemoved", note.to_owned());
    }
}
