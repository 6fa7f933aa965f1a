//! A store in a Kubernetes cluster.
//!
//! - A watch continues from the last version that it saw, across broken connections. After five failures in a row it
//!   sends [`Event::OutOfSync`] and lists again. That takes about two seconds if the API server is down.
//! - A watch also lists again when the server no longer knows that version. The same holds when the server does not
//!   know it yet, because its etcd was restored from a backup. The check runs after every unexpected end of a watch.
//! - Every request is tried once and takes at most 10 s after its turn. `managedFields` are dropped from read objects.
//! - A pending request has a connection of its own, so their number is limited. Status writes have a limit of their
//!   own, so creations and deletions do not delay them.
//! - While the server asks for a pause (`Retry-After`), waiting writes are not sent.
//! - A status is written to the subresource `status`, as a whole.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::Stream;
use kube::{
    api::{DeleteParams, GetParams, ListParams, PostParams, Preconditions},
    core::{ObjectList, PartialObjectMeta, Request},
};
use tokio::sync::Semaphore;

use super::{ApiError, Cluster, Prepared, Watching, decoded, watch};
use crate::store::{
    Event, Kind, ObjectKey, Precondition, Replace, Scope, Store, StoreError, metrics, names,
    to_be_made,
};

/// The limit for parallel status writes and reads, and the one for parallel creations and deletions.
const AT_ONCE: usize = 32;

/// The number of keys in a page of a list.
const PAGE: u32 = 500;

/// The longest pause that the server may ask for.
const MAX_QUIET: Duration = Duration::from_secs(60);

/// A store in a Kubernetes cluster. Clones share its connections.
#[derive(Clone)]
pub struct KubeStore {
    cluster: Cluster,
    /// Permits to write a status, or to read.
    statuses: Arc<Semaphore>,
    /// Permits to create or to delete.
    objects: Arc<Semaphore>,
    /// The end of the pause that the server asked for.
    quiet_until: Arc<Mutex<Option<Instant>>>,
}

impl KubeStore {
    /// The store of a cluster. Makes no connection yet.
    pub fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            statuses: Arc::new(Semaphore::new(AT_ONCE)),
            objects: Arc::new(Semaphore::new(AT_ONCE)),
            quiet_until: Arc::default(),
        }
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Sends a write once it has a permit, unless the server has asked for a pause meanwhile.
    async fn send(&self, turns: &Semaphore, request: Prepared) -> Result<Bytes, ApiError> {
        let _turn = turns.acquire().await;
        let now = Instant::now();
        let left = self
            .quiet_until()
            .and_then(|until| until.checked_duration_since(now));
        if let Some(left) = left.filter(|left| !left.is_zero()) {
            return Err(ApiError::Unavailable {
                reason: "the API server has just asked to be left alone".to_owned(),
                retry_after: Some(left),
            });
        }
        let answer = self.cluster.send_for_bytes(request).await;
        if let Err(ApiError::Unavailable {
            retry_after: Some(asked),
            ..
        }) = &answer
        {
            let mut quiet_until = self.quiet_until();
            *quiet_until = (*quiet_until).max(Some(Instant::now() + (*asked).min(MAX_QUIET)));
        }
        answer
    }

    fn quiet_until(&self) -> MutexGuard<'_, Option<Instant>> {
        // The value is set in one step, so a poisoned lock has no half-done change.
        self.quiet_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn written_by_us(&self) -> PostParams {
        PostParams {
            dry_run: false,
            field_manager: Some(self.cluster.manager().to_owned()),
        }
    }

    /// Reads the metadata alone, page by page, of one version of the store.
    async fn try_list_keys<K: Kind>(&self, scope: &Scope) -> Result<BTreeSet<ObjectKey>, ApiError> {
        let requests = match scope {
            Scope::All => Request::new(K::url_path(&(), None)),
            Scope::Namespace(namespace) => Cluster::requests::<K>(namespace),
        };
        let mut page = ListParams::default().limit(PAGE);
        let mut keys = BTreeSet::new();
        loop {
            let _turn = self.statuses.acquire().await;
            let request = requests.list_metadata(&page);
            let list: ObjectList<PartialObjectMeta<K>> = self.cluster.send(request).await?;
            keys.extend(list.items.iter().map(ObjectKey::of));
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page.continue_token = Some(token),
                None => return Ok(keys),
            }
        }
    }

    async fn try_create<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        let key = checked::<K>(ObjectKey::of(object))?;
        let body = encoded(&to_be_made(object, &key), &key)?;
        let requests = requests::<K>(&key);
        let request = requests.create(&self.written_by_us(), body);
        let stored = self.send(&self.objects, request).await.and_then(decoded);
        stored.map(stripped).map_err(|refusal| error(refusal, &key))
    }

    async fn try_delete<K: Kind>(
        &self,
        key: &ObjectKey,
        precondition: &Precondition,
    ) -> Result<(), StoreError> {
        let key = checked::<K>(key.clone())?;
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: precondition.uid.clone(),
                resource_version: precondition.resource_version.clone(),
            }),
            ..DeleteParams::default()
        };
        let request = requests::<K>(&key).delete(&key.name, &params);
        let deleted = self.send(&self.objects, request).await;
        deleted.map(drop).map_err(|refusal| error(refusal, &key))
    }

    async fn try_replace<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        let key = versioned(object)?;
        let body = encoded(object, &key)?;
        let request = requests::<K>(&key).replace(&key.name, &self.written_by_us(), body);
        let stored = self.send(&self.objects, request).await.and_then(decoded);
        stored.map(stripped).map_err(|refusal| error(refusal, &key))
    }

    async fn try_replace_status<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        let key = versioned(object)?;
        // The server takes only the status from it.
        let body = encoded(object, &key)?;
        let request = requests::<K>(&key).replace_subresource(
            "status",
            &key.name,
            &self.written_by_us(),
            body,
        );
        let stored = self.send(&self.statuses, request).await.and_then(decoded);
        stored.map(stripped).map_err(|refusal| error(refusal, &key))
    }
}

impl Store for KubeStore {
    fn watch<K: Kind>(&self, scope: Scope) -> impl Stream<Item = Event<K>> + Send + 'static {
        let watching = Watching::of(scope);
        watch(self.cluster.client(), watching, self.cluster.bad_objects())
    }

    async fn list_keys<K: Kind>(&self, scope: &Scope) -> Result<BTreeSet<ObjectKey>, StoreError> {
        self.try_list_keys::<K>(scope).await.map_err(unavailable)
    }

    async fn get<K: Kind>(&self, key: &ObjectKey) -> Result<K, StoreError> {
        let key = checked::<K>(key.clone())?;
        let request = requests::<K>(&key).get(&key.name, &GetParams::default());
        let _turn = self.statuses.acquire().await;
        let object = self.cluster.send(request).await;
        object.map(stripped).map_err(|refusal| error(refusal, &key))
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
}

impl Replace for KubeStore {
    async fn replace<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        metrics::timed::<K, _>("replace", self.try_replace(object)).await
    }
}

/// The key of an object whose version the server can compare.
fn versioned<K: Kind>(object: &K) -> Result<ObjectKey, StoreError> {
    let key = checked::<K>(ObjectKey::of(object))?;
    match object.meta().resource_version {
        Some(_) => Ok(key),
        None => Err(StoreError::Invalid {
            key,
            reason: "it has no resourceVersion to compare".to_owned(),
        }),
    }
}

/// Requests for objects beside this one.
fn requests<K: Kind>(key: &ObjectKey) -> Request {
    if K::IS_NAMESPACED {
        Cluster::requests::<K>(&key.namespace)
    } else {
        Request::new(K::url_path(&(), None))
    }
}

/// Checks that the key can be part of a request's path.
fn checked<K: Kind>(key: ObjectKey) -> Result<ObjectKey, StoreError> {
    match names::check_of::<K>(&key) {
        Ok(()) => Ok(key),
        Err(reason) => Err(StoreError::Invalid {
            key,
            reason: reason.to_owned(),
        }),
    }
}

fn encoded<K: Kind>(object: &K, key: &ObjectKey) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(object).map_err(|error| StoreError::Invalid {
        key: key.clone(),
        reason: error.to_string(),
    })
}

/// Removes `managedFields`: nothing here reads them, and they are half of a large object.
fn stripped<K: Kind>(mut object: K) -> K {
    object.meta_mut().managed_fields = None;
    object
}

fn error(refusal: ApiError, key: &ObjectKey) -> StoreError {
    let key = key.clone();
    match refusal {
        ApiError::NotFound(_) => StoreError::NotFound(key),
        ApiError::AlreadyExists(_) => StoreError::AlreadyExists(key),
        ApiError::Conflict(_) => StoreError::Conflict(key),
        ApiError::TooLarge(reason) => StoreError::TooLarge { key, reason },
        ApiError::Invalid(reason) => StoreError::Invalid { key, reason },
        ApiError::Undecodable(_) => StoreError::Invalid {
            key,
            reason: refusal.to_string(),
        },
        ApiError::Unavailable { .. } => unavailable(refusal),
    }
}

/// A failed read means that the store is unavailable, whatever the reason.
fn unavailable(refusal: ApiError) -> StoreError {
    match refusal {
        ApiError::Unavailable {
            reason,
            retry_after,
        } => StoreError::Unavailable {
            reason,
            retry_after,
        },
        refusal => StoreError::unavailable(refusal.to_string()),
    }
}
