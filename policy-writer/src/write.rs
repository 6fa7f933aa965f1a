//! Carries jobs out.

use runtime::store::{ObjectKey, Precondition, Replace, Store, StoreError};

use crate::{
    output::{Object, Observed, Output, Written},
    planner::{Done, Job, Operation, OperationResult},
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use proto::api::{CrdNetworkSet, IpMap, NetworkSet};

/// Carries a job out, one write after the other. After a failure nothing is deleted, since a deletion comes after the
/// object that replaces the deleted one.
pub async fn carry_out<S: Replace>(store: S, job: Job, has_crd_sets: bool) -> Done {
    let mut results = Vec::new();
    let mut has_failed = false;
    for operation in job.operations {
        let (output, result) = match operation {
            Operation::Delete(output, _) if has_failed => {
                tracing::debug!(key = %job.key, kind = output.name(), "the deletion waits");
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
        has_failed |= matches!(result, OperationResult::Failed(_));
        results.push((output, result));
    }
    let status = match &job.status {
        Some(object) => Some(store.replace_status(object).await),
        None => None,
    };
    Done {
        key: job.key,
        results,
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
    let stored = match is_new {
        true => store.create(object).await,
        false => store.replace(object).await,
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
        Ok(()) | Err(StoreError::NotFound(_)) => OperationResult::Gone,
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
