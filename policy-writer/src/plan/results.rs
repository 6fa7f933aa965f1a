//! The results of jobs.

use runtime::store::ObjectKey;

use super::{Done, InFlight, Now, OperationResult, Output, Planner, resolver::Failure};

impl Planner {
    /// Takes in the results of a job.
    pub fn finished(&mut self, done: Done, now: Now) {
        let is_success = done.is_success();
        let Done {
            key,
            results,
            status,
            since,
            ..
        } = done;
        let job = self.in_flight.remove(&key).unwrap_or_default();
        for (output, result) in results {
            self.take_result(&key, output, result, &job, now);
        }
        let Some(resolver) = self.resolvers.get_mut(&key) else {
            return;
        };
        if !is_success {
            resolver.changed_at = since;
        }
        // Events may have come meanwhile.
        resolver.next_look = Some(now.instant);
        match status {
            Some(Ok(stored)) => {
                resolver.status_failure = None;
                // After an event the watch has brought this version, or a later one.
                if resolver.version == job.status_version {
                    resolver.version = stored.metadata.resource_version;
                    resolver.status = stored.status.unwrap_or_default();
                }
            }
            Some(Err(error)) => {
                let known = resolver.status_failure.take();
                let failure = Failure::again(known, error.to_string(), now.instant);
                resolver.status_not_before = Some(failure.retry_at);
                resolver.status_failure = Some(failure);
            }
            None => {}
        }
    }

    fn take_result(
        &mut self,
        key: &ObjectKey,
        output: Output,
        result: OperationResult,
        job: &InFlight,
        now: Now,
    ) {
        let resolver = self.resolvers.get_mut(key);
        match &result {
            OperationResult::Failed(error) => {
                if let Some(resolver) = resolver {
                    let known = resolver.failures.remove(&output);
                    let failure = Failure::again(known, error.to_string(), now.instant);
                    resolver.failures.insert(output, failure);
                }
                return;
            }
            OperationResult::Written(observed) => {
                if let Some(resolver) = resolver {
                    resolver.failures.remove(&output);
                    resolver.written.insert(output, observed.fingerprint);
                }
            }
            OperationResult::Deleted if output == Output::Policy => {
                let note = "the NetworkPolicy is deleted, since spec.generateType no longer asks for it. Without a policy the pods of the namespace may reach everything";
                self.report(key, "PolicyRemoved", note.to_owned());
            }
            // The watch brings the version of another account.
            OperationResult::Stale => return,
            _ => {}
        }
        let observed = match result {
            OperationResult::Written(observed) | OperationResult::Changed(observed) => observed,
            _ => return self.stored.set(output, key, None),
        };
        let known = self.stored.get(output, key);
        let is_version = |it| (&observed.uid, &observed.version) == it;
        let is_same = known.is_some_and(|it| is_version((&it.uid, &it.version)));
        // An event that came meanwhile may be older or newer. If it is older, the watch brings this version, too.
        if is_same || !job.touched.contains(&output) {
            self.stored.set(output, key, Some(observed));
        }
    }
}
