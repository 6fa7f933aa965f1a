//! The results of jobs.

use std::time::Duration;

use runtime::{
    kube_events::Severity,
    store::{ObjectKey, StoreError},
};

use super::{Done, Now, OperationResult, Planner};
use crate::{
    output::{Observed, Output},
    resolver::Meanwhile,
};

/// The longest pause that the store may ask for.
const LONGEST_ASKED: Duration = Duration::from_secs(60);

/// The pause before objects without a `DNSResolver` are deleted, after a deletion failed.
const ORPHANS_AGAIN: Duration = Duration::from_secs(30);

impl Planner {
    /// Takes the results of a job in.
    pub fn finished(&mut self, done: Done, now: Now) {
        self.flights.end(&done.key, now.instant);
        self.growth.remove(&done.key);
        let is_success = done.is_success();
        // A status alone is no reason for a plan.
        let needs_plan = !done.results.is_empty() || !done.is_complete;
        let Done {
            key,
            results,
            status,
            ..
        } = done;
        let allowed_dns = self.policies.allows_dns(&key.namespace);
        for (output, result) in results {
            self.take_result(&key, output, result, now);
        }
        self.compare_dns(&key.namespace, allowed_dns);
        let Some(resolver) = self.resolvers.get_mut(&key) else {
            if !is_success && !self.options.collects_garbage {
                let again = now.instant + ORPHANS_AGAIN;
                self.orphans_not_before = Some(again);
                self.has_orphans = true;
            }
            return;
        };
        resolver.end_job();
        match status {
            Some(Ok(stored)) => resolver.wrote_status(stored),
            // The watch tells of the new version, or that there is none. Until then each attempt is followed by a pause.
            Some(Err(StoreError::Conflict(_) | StoreError::NotFound(_))) | None => {}
            Some(Err(error)) => {
                let until = now.instant + asked_pause(&error);
                if let Some(pause) = &mut resolver.status_pause {
                    pause.extend(until);
                }
            }
        }
        if needs_plan {
            // Events that came meanwhile, and objects that others changed.
            resolver.touch(now.instant);
        }
        self.status_due.insert(key);
    }

    fn take_result(&mut self, key: &ObjectKey, output: Output, result: OperationResult, now: Now) {
        let meanwhile = self.resolvers.get_mut(key);
        let meanwhile = meanwhile.and_then(|it| it.meanwhile.remove(&output));
        let mut failure = None;
        match result {
            OperationResult::Written(observed) => {
                if let Some(resolver) = self.resolvers.get_mut(key) {
                    resolver.written.insert(output, observed.fingerprint);
                }
                self.stored(output, key, observed, meanwhile);
            }
            OperationResult::Changed(observed) => self.stored(output, key, observed, meanwhile),
            OperationResult::Deleted => {
                self.gone(output, key, meanwhile);
                self.report_deletion(key, output);
            }
            OperationResult::Gone => self.gone(output, key, meanwhile),
            OperationResult::Failed(error) => failure = Some(error),
        }
        let Some(resolver) = self.resolvers.get_mut(key) else {
            return;
        };
        match failure {
            None => drop(resolver.failures.remove(&output)),
            Some(error) => {
                let asked = asked_pause(&error);
                resolver.failed(output, error.to_string(), asked, now.instant);
                resolver.is_urgent = true;
            }
        }
    }

    /// Takes in an object that a job has stored or read, unless it may be gone or changed since. Then it is read again, since its
    /// creation fails if it exists.
    fn stored(
        &mut self,
        output: Output,
        key: &ObjectKey,
        observed: Observed,
        meanwhile: Option<Meanwhile>,
    ) {
        let outputs = self.outputs_mut(output);
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
    fn gone(&mut self, output: Output, key: &ObjectKey, meanwhile: Option<Meanwhile>) {
        if !matches!(meanwhile, Some(Meanwhile::Changed | Meanwhile::Listed)) {
            self.outputs_mut(output).remove(key);
        }
    }

    fn report_deletion(&mut self, key: &ObjectKey, output: Output) {
        if output == Output::Policy {
            let note = "the NetworkPolicy is deleted, since spec.generateType no longer asks for it. Without a policy the pods of the namespace may reach everything";
            self.report(key, Severity::Warning, "PolicyRemoved", note.to_owned());
        }
    }
}

/// The pause that the store asked for.
fn asked_pause(error: &StoreError) -> Duration {
    match error {
        StoreError::Unavailable {
            retry_after: Some(asked),
            ..
        } => (*asked).min(LONGEST_ASKED),
        _ => Duration::ZERO,
    }
}
