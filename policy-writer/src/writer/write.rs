//! Carries jobs out.

use k8s_openapi::api::networking::v1::NetworkPolicy;
use proto::api::{CrdNetworkSet, CrdNetworkSetSpec, IpMap, NetworkSet, NetworkSetSpec};
use runtime::{
    leader::Leader,
    store::{Kind, ObjectKey, Precondition, Store, StoreError},
};

use crate::plan::{Body, Done, Job, Object, Observed, Operation, OperationResult, Output, Written};

/// Where Calico's NetworkSet is served.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum SetApi {
    /// `projectcalico.org/v3`.
    #[default]
    V3,
    /// `crd.projectcalico.org/v1`.
    Crd,
}

/// Carries a job out, one write after the other. An object is deleted only after all writes before it are done, since
/// they replace it. Without the lead the job stops.
pub(super) async fn carry_out<S: Store>(store: S, job: Job, api: SetApi, leader: Leader) -> Done {
    let mut results = Vec::new();
    let (mut is_complete, mut may_delete) = (true, true);
    for operation in job.operations {
        if !leader.is_leading() {
            is_complete = false;
            break;
        }
        let output = operation.output();
        let result = match operation {
            Operation::Delete(..) if !may_delete => {
                tracing::debug!(key = %job.key, kind = output.name(), "the deletion waits");
                is_complete = false;
                continue;
            }
            Operation::Delete(_, precondition) => {
                delete(&store, &job.key, output, &precondition, api).await
            }
            Operation::Put(object) => put(&store, *object, api).await,
        };
        use OperationResult::{Deleted, Written};
        may_delete &= matches!(result, Written(_) | Deleted);
        results.push((output, result));
    }
    let status = match &job.status {
        Some(object) if leader.is_leading() => Some(store.replace_status(object).await),
        _ => None,
    };
    Done {
        key: job.key,
        results,
        is_complete: is_complete && status.is_some() == job.status.is_some(),
        status,
        since: job.since,
    }
}

async fn put(
    store: &impl Store,
    Object { metadata, body }: Object,
    api: SetApi,
) -> OperationResult {
    match body {
        Body::Policy(spec) => {
            let spec = Some(spec);
            put_object(store, &NetworkPolicy { metadata, spec }, |it| it).await
        }
        Body::Map(data) => {
            let data = Some(data);
            put_object(store, &IpMap { metadata, data }, |it| it).await
        }
        Body::Set(nets) if api == SetApi::Crd => {
            let spec = CrdNetworkSetSpec { nets };
            put_object(store, &CrdNetworkSet { metadata, spec }, of_crd).await
        }
        Body::Set(nets) => {
            let spec = NetworkSetSpec { nets };
            put_object(store, &NetworkSet { metadata, spec }, |it| it).await
        }
    }
}

/// The set as an object of `projectcalico.org/v3`.
pub(super) fn of_crd(CrdNetworkSet { metadata, spec }: CrdNetworkSet) -> NetworkSet {
    let spec = NetworkSetSpec { nets: spec.nets };
    NetworkSet { metadata, spec }
}

/// Replaces the version in the object's metadata, or creates the object.
async fn put_object<K: Kind, W: Written>(
    store: &impl Store,
    object: &K,
    written: fn(K) -> W,
) -> OperationResult {
    let stored = if object.meta().resource_version.is_some() {
        store.replace(object).await
    } else {
        store.create(object).await
    };
    match stored {
        Ok(stored) => OperationResult::Written(Observed::of(&written(stored))),
        Err(
            StoreError::AlreadyExists(key) | StoreError::Conflict(key) | StoreError::NotFound(key),
        ) => match store.get(&key).await {
            Ok(object) => OperationResult::Changed(Observed::of(&written(object))),
            Err(StoreError::NotFound(_)) => OperationResult::Gone,
            Err(error) => OperationResult::Failed(error),
        },
        Err(error) => OperationResult::Failed(error),
    }
}

async fn delete(
    store: &impl Store,
    key: &ObjectKey,
    output: Output,
    precondition: &Precondition,
    api: SetApi,
) -> OperationResult {
    let deleted = match output {
        Output::Policy => store.delete::<NetworkPolicy>(key, precondition).await,
        Output::Map => store.delete::<IpMap>(key, precondition).await,
        Output::Set if api == SetApi::Crd => store.delete::<CrdNetworkSet>(key, precondition).await,
        Output::Set => store.delete::<NetworkSet>(key, precondition).await,
    };
    match deleted {
        Ok(()) => OperationResult::Deleted,
        Err(StoreError::NotFound(_)) => OperationResult::Gone,
        Err(StoreError::Conflict(_)) => OperationResult::Stale,
        Err(error) => OperationResult::Failed(error),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{
        api::networking::v1::NetworkPolicySpec, apimachinery::pkg::apis::meta::v1::ObjectMeta,
    };
    use runtime::store::dir::DirStore;

    use super::*;

    fn key() -> ObjectKey {
        "team-a/a".parse().unwrap()
    }

    fn metadata() -> ObjectMeta {
        ObjectMeta {
            namespace: Some(key().namespace),
            name: Some(key().name),
            ..ObjectMeta::default()
        }
    }

    fn map() -> IpMap {
        IpMap {
            metadata: metadata(),
            data: None,
        }
    }

    /// Creates a policy, then deletes the IPMap.
    fn job() -> Job {
        let policy = Object {
            metadata: metadata(),
            body: Body::Policy(NetworkPolicySpec::default()),
        };
        Job {
            key: key(),
            operations: vec![
                Operation::Put(Box::new(policy)),
                Operation::Delete(Output::Map, Precondition::default()),
            ],
            status: None,
            since: None,
        }
    }

    #[tokio::test]
    async fn object_is_deleted_only_after_another_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let store = DirStore::open(folder.path()).unwrap();
        store.create(&map()).await.unwrap();
        let done = carry_out(store.clone(), job(), SetApi::V3, Leader::sole()).await;
        assert!(done.is_success());
        // The second time the policy is there already: perhaps it is another program's.
        store.create(&map()).await.unwrap();
        let done = carry_out(store.clone(), job(), SetApi::V3, Leader::sole()).await;
        assert!(!done.is_complete && !done.is_success());
        assert!(matches!(
            done.results[..],
            [(Output::Policy, OperationResult::Changed(_))]
        ));
        store.get::<IpMap>(&key()).await.unwrap();
    }
}
