//! Carries jobs out.

use runtime::{
    leader::Leader,
    store::{ObjectKey, Precondition, Replace, Store, StoreError},
};

use crate::{
    output::{Object, Observed, Output, Written},
    planner::{Done, Job, Operation, OperationResult},
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use proto::api::{CrdNetworkSet, IpMap, NetworkSet};

/// Carries a job out, one write after the other. An object is deleted only after all writes before it are done, since
/// they replace it. Without the lead the job stops.
pub async fn carry_out<S: Replace>(store: S, job: Job, has_crd_sets: bool, leader: Leader) -> Done {
    let mut results = Vec::new();
    let (mut is_complete, mut may_delete) = (true, true);
    for operation in job.operations {
        if !leader.is_leading() {
            is_complete = false;
            break;
        }
        let (output, result) = match operation {
            Operation::Delete(output, _) if !may_delete => {
                tracing::debug!(key = %job.key, kind = output.name(), "the deletion waits");
                is_complete = false;
                continue;
            }
            Operation::Delete(output, precondition) => {
                let (store, key) = (&store, &job.key);
                let result = match output {
                    Output::Policy => delete::<NetworkPolicy>(store, key, &precondition).await,
                    Output::Map => delete::<IpMap>(store, key, &precondition).await,
                    Output::Set if has_crd_sets => {
                        delete::<CrdNetworkSet>(store, key, &precondition).await
                    }
                    Output::Set => delete::<NetworkSet>(store, key, &precondition).await,
                };
                (output, result)
            }
            Operation::Create(object) => (object.output(), write(&store, object, true).await),
            Operation::Replace(object) => (object.output(), write(&store, object, false).await),
        };
        may_delete &= matches!(
            result,
            OperationResult::Written(_) | OperationResult::Deleted
        );
        results.push((output, result));
    }
    let status = match &job.status {
        Some(object) if leader.is_leading() => Some(store.replace_status(object).await),
        Some(_) => {
            is_complete = false;
            None
        }
        None => None,
    };
    Done {
        key: job.key,
        results,
        is_complete,
        status,
        since: job.since,
    }
}

async fn write<S: Replace>(store: &S, object: Object, is_new: bool) -> OperationResult {
    match object {
        Object::Policy(object) => put(store, &object, is_new).await,
        Object::Set(object) => put(store, &object, is_new).await,
        Object::CrdSet(object) => put(store, &object, is_new).await,
        Object::Map(object) => put(store, &object, is_new).await,
    }
}

async fn put<K: Written>(store: &impl Replace, object: &K, is_new: bool) -> OperationResult {
    let stored = if is_new {
        store.create(object).await
    } else {
        store.replace(object).await
    };
    match stored {
        Ok(stored) => OperationResult::Written(Observed::of(&stored)),
        Err(
            StoreError::AlreadyExists(key) | StoreError::Conflict(key) | StoreError::NotFound(key),
        ) => current::<K>(store, &key).await,
        Err(error) => OperationResult::Failed(error),
    }
}

async fn delete<K: Written>(
    store: &impl Store,
    key: &ObjectKey,
    precondition: &Precondition,
) -> OperationResult {
    match store.delete::<K>(key, precondition).await {
        Ok(()) => OperationResult::Deleted,
        Err(StoreError::NotFound(_)) => OperationResult::Gone,
        Err(StoreError::Conflict(key)) => current::<K>(store, &key).await,
        Err(error) => OperationResult::Failed(error),
    }
}

/// The object that another program has changed.
async fn current<K: Written>(store: &impl Store, key: &ObjectKey) -> OperationResult {
    match store.get::<K>(key).await {
        Ok(object) => OperationResult::Changed(Observed::of(&object)),
        Err(StoreError::NotFound(_)) => OperationResult::Gone,
        Err(error) => OperationResult::Failed(error),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use runtime::{OpenStore, leader::Leadership, store::dir::DirStore};

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
        let policy = NetworkPolicy {
            metadata: metadata(),
            spec: None,
        };
        Job {
            key: key(),
            operations: vec![
                Operation::Create(Object::Policy(policy)),
                Operation::Delete(Output::Map, Precondition::default()),
            ],
            status: None,
            since: None,
        }
    }

    #[tokio::test]
    async fn an_object_is_deleted_after_another_one_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let store = DirStore::open(folder.path()).unwrap();
        store.create(&map()).await.unwrap();
        let done = carry_out(store.clone(), job(), false, Leader::sole()).await;
        assert!(done.is_success());
        // The second time the policy is there already: perhaps it is another program's.
        store.create(&map()).await.unwrap();
        let done = carry_out(store.clone(), job(), false, Leader::sole()).await;
        assert!(!done.is_complete && !done.is_success());
        assert!(matches!(
            done.results[..],
            [(Output::Policy, OperationResult::Changed(_))]
        ));
        store.get::<IpMap>(&key()).await.unwrap();
    }

    #[tokio::test]
    async fn without_the_lead_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let store = DirStore::open(folder.path()).unwrap();
        let leadership = Leadership::of(&OpenStore::Dir(store.clone()), "names", "policy-writer");
        let done = carry_out(store.clone(), job(), false, leadership.leader()).await;
        assert!(!done.is_complete && !done.is_success() && done.results.is_empty());
        let found = store.get::<NetworkPolicy>(&key()).await;
        assert!(matches!(found, Err(StoreError::NotFound(_))), "{found:?}");
    }
}
