//! Objects whose `DNSResolver` is gone, in a store that does not delete them.

use std::collections::BTreeMap;

use runtime::store::ObjectKey;

use super::{InFlight, Job, Now, Operation, Output, Planner, resolver::TOGETHER};

impl Planner {
    /// Deletes marked objects whose `DNSResolver` is gone. A namespace without any `DNSResolver` since the start is left
    /// alone: perhaps its folder is not mounted, and without a policy all egress is open.
    pub(super) fn delete_orphans(&mut self, room: usize, now: Now) -> Vec<Job> {
        if self.options.collects_garbage {
            self.orphans_at = None;
        }
        if self.orphans_at.is_none_or(|at| at > now.instant) {
            return Vec::new();
        }
        let jobs: Vec<_> = self.orphans().into_values().take(room).collect();
        // Some may be left, and a deletion may fail.
        self.orphans_at = (!jobs.is_empty()).then_some(now.instant + TOGETHER);
        for job in &jobs {
            self.begin(&job.key, 0, InFlight::default(), now);
        }
        jobs
    }

    fn orphans(&self) -> BTreeMap<ObjectKey, Job> {
        let mut jobs: BTreeMap<ObjectKey, Job> = BTreeMap::new();
        for output in Output::ALL {
            for (key, stored) in &self.stored.of(output).objects {
                let owner = self.resolvers.get(key);
                let owner = owner.filter(|it| stored.controller.as_ref() == Some(&it.request.uid));
                let is_orphan = stored.controller.is_some() && stored.is_marked && owner.is_none();
                if !is_orphan
                    || self.unreadable.contains(key)
                    || !self.seen_namespaces.contains(&key.namespace)
                    || self.in_flight.contains_key(key)
                {
                    continue;
                }
                let job = jobs.entry(key.clone()).or_insert_with(|| Job {
                    key: key.clone(),
                    operations: Vec::new(),
                    status: None,
                    since: None,
                });
                let operation = Operation::Delete(output, stored.precondition());
                job.operations.push(operation);
            }
        }
        jobs
    }
}
