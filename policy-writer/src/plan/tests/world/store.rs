//! The store carries jobs out at once.

use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Resource;
use proto::api::{DnsResolver, IpMap, NetworkSet, NetworkSetSpec};
use runtime::store::{Event, Precondition, StoreError};

use super::{Stored, World};
use crate::plan::{Body, Done, Job, Object, Observed, Operation, OperationResult, Output, Written};
use runtime::store::ObjectKey;

/// All objects but names, and the last version.
pub(crate) type Backup = (
    Stored<DnsResolver>,
    Stored<NetworkPolicy>,
    Stored<IpMap>,
    Stored<NetworkSet>,
    u64,
);

impl World {
    pub(crate) fn carry_out(&mut self, job: Job) -> Done {
        let mut results = Vec::new();
        for operation in job.operations {
            use OperationResult::{Deleted, Written};
            let is_done = |(_, it): &(Output, _)| matches!(it, Written(_) | Deleted);
            // As in `carry_out`, an object is deleted after all else is done.
            if !matches!(operation, Operation::Delete(..)) || results.iter().all(is_done) {
                results.push(self.operate(&job.key, operation));
            }
        }
        let status = job.status.map(|object| {
            self.status_writes += 1;
            let stored = self
                .resolvers
                .get_mut(&job.key)
                .ok_or(StoreError::NotFound(job.key.clone()))?;
            if stored.metadata.resource_version != object.metadata.resource_version {
                return Err(StoreError::Conflict(job.key.clone()));
            }
            stored.status = object.status;
            self.version += 1;
            stored.metadata.resource_version = Some(self.version.to_string());
            Ok(stored.clone())
        });
        Done {
            key: job.key,
            results,
            is_complete: true,
            status,
            since: job.since,
        }
    }

    fn operate(&mut self, key: &ObjectKey, operation: Operation) -> (Output, OperationResult) {
        self.version += 1;
        let version = self.version;
        let refusal = StoreError::Invalid {
            key: key.clone(),
            reason: "no".to_owned(),
        };
        let refuses = self.refuses.contains(&operation.output());
        let output = operation.output();
        match operation {
            Operation::Put(_) if refuses => (output, OperationResult::Failed(refusal)),
            Operation::Put(object) => {
                let Object { metadata, body } = *object;
                self.writes += 1;
                let result = match body {
                    Body::Policy(spec) => {
                        let spec = Some(spec);
                        let object = NetworkPolicy { metadata, spec };
                        put(&mut self.policies, key, object, version)
                    }
                    Body::Map(data) => {
                        let data = Some(data);
                        put(&mut self.maps, key, IpMap { metadata, data }, version)
                    }
                    Body::Set(nets) => {
                        let spec = NetworkSetSpec { nets };
                        put(&mut self.sets, key, NetworkSet { metadata, spec }, version)
                    }
                };
                (output, result)
            }
            Operation::Delete(output, _) if refuses => (output, OperationResult::Failed(refusal)),
            Operation::Delete(output, precondition) => {
                self.writes += 1;
                match output {
                    Output::Policy => remove(&mut self.policies, key, &precondition),
                    Output::Map => remove(&mut self.maps, key, &precondition),
                    Output::Set => remove(&mut self.sets, key, &precondition),
                }
                (output, OperationResult::Deleted)
            }
        }
    }

    pub(crate) fn back_up(&self) -> Backup {
        let (policies, maps) = (self.policies.clone(), self.maps.clone());
        let (resolvers, sets) = (self.resolvers.clone(), self.sets.clone());
        (resolvers, policies, maps, sets, self.version)
    }

    /// The versions go back, and the watches list everything.
    pub(crate) fn restore(&mut self, backup: Backup) {
        (
            self.resolvers,
            self.policies,
            self.maps,
            self.sets,
            self.version,
        ) = backup;
        for output in Output::ALL {
            self.list(output);
        }
        let resolvers = Event::Synced(self.resolvers.values().cloned().collect());
        self.planner.apply_resolvers(&resolvers, self.now());
    }
}

pub(super) fn listed<K: Written>(stored: &Stored<K>, is_unread: bool) -> Event<K> {
    if is_unread {
        Event::OutOfSync("not served".to_owned())
    } else {
        Event::Synced(stored.values().cloned().collect())
    }
}

fn put<K: Written>(
    stored: &mut Stored<K>,
    key: &ObjectKey,
    mut object: K,
    version: u64,
) -> OperationResult {
    let old = stored.get(key);
    let version_of = |object: &K| object.meta().resource_version.clone();
    let is_right = old.and_then(version_of) == version_of(&object);
    if !is_right {
        return old.map_or(OperationResult::Gone, |old| {
            OperationResult::Changed(Observed::of(old))
        });
    }
    let metadata = Resource::meta_mut(&mut object);
    metadata.resource_version = Some(version.to_string());
    metadata
        .uid
        .get_or_insert_with(|| format!("made-{version}"));
    stored.insert(key.clone(), object.clone());
    OperationResult::Written(Observed::of(&object))
}

fn remove<K: Written>(stored: &mut Stored<K>, key: &ObjectKey, precondition: &Precondition) {
    let version = stored.get(key).map(|it| it.meta().resource_version.clone());
    assert_eq!(version, Some(precondition.resource_version.clone()));
    stored.remove(key);
}
