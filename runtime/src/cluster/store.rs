//! A store in a Kubernetes cluster.
//!
//! - Every request takes at most 10 s. The client waits as long as the API server asks (`Retry-After`), and sends the
//!   request again.
//! - `managedFields` are dropped from read objects.
//! - A status is written to the subresource `status`, as a whole.

use std::future::Future;

use futures_util::Stream;
use kube::{
    Api, Error,
    api::{DeleteParams, Preconditions},
    core::Status,
};
use tokio::time::timeout;

use super::{Cluster, REQUEST_TIMEOUT, in_words, watch::KindScope};
use crate::store::{
    Event, Kind, ObjectKey, Precondition, Scope, Store, StoreError, metrics, names, to_be_made,
};

/// The longest text of an error, such as a proxy's page, in characters.
const MAX_WORDS: usize = 300;

/// A store in a Kubernetes cluster. Clones share its connections.
#[derive(Clone)]
pub struct KubeStore(Cluster);

impl KubeStore {
    /// The store of a cluster. Makes no connection yet.
    pub fn new(cluster: Cluster) -> Self {
        Self(cluster)
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.0
    }

    /// Requests for objects beside this one, whose key can be a part of a request's path.
    fn api<K: Kind>(&self, key: &ObjectKey) -> Result<Api<K>, StoreError> {
        names::check_of::<K>(key).map_err(|reason| StoreError::Invalid {
            key: key.clone(),
            reason: reason.to_owned(),
        })?;
        Ok(K::Scope::api(self.0.client(), &key.namespace))
    }

    async fn try_create<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        let key = ObjectKey::of(object);
        let (api, object) = (self.api::<K>(&key)?, to_be_made(object, &key));
        let created = answer(api.create(&self.0.post_params(), &object)).await;
        created.map(stripped).map_err(|error| refused(error, &key))
    }

    async fn try_delete<K: Kind>(
        &self,
        key: &ObjectKey,
        precondition: &Precondition,
    ) -> Result<(), StoreError> {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: precondition.uid.clone(),
                resource_version: precondition.resource_version.clone(),
            }),
            ..DeleteParams::default()
        };
        let api = self.api::<K>(key)?;
        let deleted = answer(api.delete(&key.name, &params)).await;
        deleted.map(drop).map_err(|error| refused(error, key))
    }

    async fn try_replace<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        let key = versioned(object)?;
        let (api, params) = (self.api::<K>(&key)?, self.0.post_params());
        let replaced = answer(api.replace(&key.name, &params, object)).await;
        replaced.map(stripped).map_err(|error| refused(error, &key))
    }

    async fn try_replace_status<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        let key = versioned(object)?;
        let (api, params) = (self.api::<K>(&key)?, self.0.post_params());
        // The server takes only the status from it.
        let replaced = answer(api.replace_status(&key.name, &params, object)).await;
        replaced.map(stripped).map_err(|error| refused(error, &key))
    }
}

impl Store for KubeStore {
    fn watch<K: Kind>(&self, scope: Scope) -> impl Stream<Item = Event<K>> + Send + 'static {
        self.0.watch(scope, None)
    }

    async fn get<K: Kind>(&self, key: &ObjectKey) -> Result<K, StoreError> {
        let api = self.api::<K>(key)?;
        let object = answer(api.get(&key.name)).await;
        object.map(stripped).map_err(|error| refused(error, key))
    }

    async fn create<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        metrics::timed::<K, _>("create", self.try_create(object)).await
    }

    async fn delete<K: Kind>(
        &self,
        key: &ObjectKey,
        precondition: &Precondition,
    ) -> Result<(), StoreError> {
        let deleted = self.try_delete::<K>(key, precondition);
        metrics::timed::<K, _>("delete", deleted).await
    }

    async fn replace_status<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        metrics::timed::<K, _>("replace_status", self.try_replace_status(object)).await
    }

    async fn replace<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        metrics::timed::<K, _>("replace", self.try_replace(object)).await
    }
}

/// The key of an object whose version the server can compare.
fn versioned<K: Kind>(object: &K) -> Result<ObjectKey, StoreError> {
    let key = ObjectKey::of(object);
    match object.meta().resource_version {
        Some(_) => Ok(key),
        None => Err(StoreError::Invalid {
            key,
            reason: "it has no resourceVersion to compare".to_owned(),
        }),
    }
}

/// Removes `managedFields`: nothing here reads them, and they are half of a large object.
fn stripped<K: Kind>(mut object: K) -> K {
    object.meta_mut().managed_fields = None;
    object
}

/// The answer to a request, in time.
pub(crate) async fn answer<T>(request: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    match timeout(REQUEST_TIMEOUT, request).await {
        Ok(answer) => answer,
        Err(_) => {
            let words = format!("no answer within {REQUEST_TIMEOUT:?}");
            Err(Error::Api(
                Status::failure(&words, "Timeout").with_code(504).boxed(),
            ))
        }
    }
}

/// Why a request for the object failed.
fn refused(error: Error, key: &ObjectKey) -> StoreError {
    let key = key.clone();
    let Error::Api(status) = error else {
        let reason = in_words(&error);
        return match error {
            Error::SerdeError(_) | Error::BuildRequest(_) => StoreError::Invalid { key, reason },
            _ => StoreError::unavailable(reason),
        };
    };
    let words: String = status.message.trim().chars().take(MAX_WORDS).collect();
    let reason = words.replace(['\n', '\r'], " ");
    let details = status.details.as_ref();
    match status.code {
        // An answer without an object's name means that the kind is not served.
        404 if details.is_some_and(|it| !it.name.is_empty() && it.kind != "namespaces") => {
            StoreError::NotFound(key)
        }
        409 if status.reason == "AlreadyExists" => StoreError::AlreadyExists(key),
        409 => StoreError::Conflict(key),
        413 => StoreError::TooLarge { key, reason },
        // The message of etcd, or of the connection to it, about an object that is too large.
        500 if reason.contains("is too large") || reason.contains("message larger than max") => {
            StoreError::TooLarge { key, reason }
        }
        401 | 404 | 408 | 410 | 429 | 500.. => StoreError::unavailable(reason),
        _ => StoreError::Invalid { key, reason },
    }
}

#[cfg(test)]
mod tests;
