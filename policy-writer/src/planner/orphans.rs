//! Objects whose `DNSResolver` is gone, in a store that does not delete them.

use std::collections::BTreeMap;

use runtime::store::ObjectKey;

use super::{Job, Now, Operation, Planner, plan::precondition};
use crate::output::{Output, covers};

impl Planner {
    /// Deletes marked objects whose `DNSResolver` is gone. A namespace without any `DNSResolver` since the start is left
    /// alone: perhaps its folder is not mounted, and without a policy all egress is open.
    pub(super) fn orphans(&mut self, room: usize, now: Now) -> Vec<Job> {
        let is_later = self.orphans_not_before.is_some_and(|at| at > now.instant);
        if self.options.collects_garbage || is_later {
            return Vec::new();
        }
        self.orphans_not_before = None;
        if !std::mem::take(&mut self.has_orphans) {
            return Vec::new();
        }
        let mut jobs: BTreeMap<ObjectKey, Job> = BTreeMap::new();
        for output in Output::ALL {
            for (key, observed) in self.outputs(output).all() {
                let owner = self.resolvers.get(key);
                let has_owner =
                    owner.is_some_and(|it| it.is_controller_of(observed.controller.as_deref()));
                let is_orphan = observed.controller.is_some() && observed.is_marked && !has_owner;
                if !is_orphan
                    || covers(&self.unreadable, key)
                    || !self.seen_namespaces.contains(&key.namespace)
                    || owner.is_some_and(|it| it.in_flight)
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
        let mut begun = Vec::new();
        for job in jobs.into_values() {
            if begun.len() >= room || !self.flights.begin(&job.key, now.instant) {
                self.has_orphans = true;
                continue;
            }
            if let Some(owner) = self.resolvers.get_mut(&job.key) {
                owner.begin_job();
            }
            begun.push(job);
        }
        begun
    }
}
