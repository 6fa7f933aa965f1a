//! Writes to the store: one attempt each, and the result.

use proto::api::{DnsNameResolver, KubeOvnDnsNameResolver};
use runtime::{
    log_rate_limiter::LogRateLimiter,
    store::{ObjectKey, Precondition, Store, StoreError},
};
use tracing::{debug, warn};

#[derive(Clone, Debug)]
pub enum Write {
    /// Replace the status if the object still has this version.
    Status(Box<DnsNameResolver>),
    /// Create an object.
    Create(Box<DnsNameResolver>),
    /// Delete an object if it is still the same one.
    Delete(ObjectKey, Precondition),
}

/// The state of the store after an attempt.
#[derive(Clone, Debug)]
pub enum WriteOutcome {
    /// Written; the object as the store has it now.
    Stored(Box<DnsNameResolver>),
    /// Another writer came first; the object as the store has it now. Compute the write again.
    Conflict(Box<DnsNameResolver>),
    /// The object does not exist.
    Gone,
    /// The store refuses this object: try again later, or when it has changed.
    Refused,
    /// The status is larger than the store accepts: write less of it.
    TooLarge,
    /// The store is unreachable or refuses all writes: try again later.
    Failed,
}

impl Write {
    pub fn key(&self) -> ObjectKey {
        match self {
            Self::Status(object) | Self::Create(object) => ObjectKey::of(object.as_ref()),
            Self::Delete(key, _) => key.clone(),
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Status(_) => "status",
            Self::Create(_) => "create",
            Self::Delete(..) => "delete",
        }
    }

    /// Tries the write once. After a conflict it reads the object, so that the next attempt uses
    /// the current one. `outage` limits log lines about a store that refuses writes.
    pub async fn attempt<S: Store>(self, store: &S, outage: &LogRateLimiter) -> WriteOutcome {
        let (key, label) = (self.key(), self.label());
        let result = match &self {
            Self::Status(object) => replace_status(store, object.as_ref()).await.map(Some),
            Self::Create(object) => store.create(object.as_ref()).await.map(Some),
            Self::Delete(key, precondition) => store
                .delete::<DnsNameResolver>(key, precondition)
                .await
                .map(|()| None),
        };
        let result = match result {
            Err(StoreError::Conflict(_) | StoreError::AlreadyExists(_)) => {
                debug!(object = %key, write = label, "another writer changed the object first");
                return match get(store, &key).await {
                    Ok(object) => WriteOutcome::Conflict(Box::new(object)),
                    Err(StoreError::NotFound(_)) => WriteOutcome::Gone,
                    Err(error) => failed(&key, label, &error, outage),
                };
            }
            other => other,
        };
        match result {
            Ok(Some(object)) => WriteOutcome::Stored(Box::new(object)),
            Ok(None) | Err(StoreError::NotFound(_)) => WriteOutcome::Gone,
            Err(error) => failed(&key, label, &error, outage),
        }
    }
}

/// Replaces a status, of kube-OVN's kind if the object is in no namespace.
async fn replace_status<S: Store>(
    store: &S,
    object: &DnsNameResolver,
) -> Result<DnsNameResolver, StoreError> {
    if object.metadata.namespace.is_some() {
        return store.replace_status(object).await;
    }
    let object = KubeOvnDnsNameResolver::from(object.clone());
    store.replace_status(&object).await.map(Into::into)
}

async fn get<S: Store>(store: &S, key: &ObjectKey) -> Result<DnsNameResolver, StoreError> {
    if !key.namespace.is_empty() {
        return store.get(key).await;
    }
    store
        .get::<KubeOvnDnsNameResolver>(key)
        .await
        .map(Into::into)
}

fn failed(
    key: &ObjectKey,
    label: &'static str,
    error: &StoreError,
    outage: &LogRateLimiter,
) -> WriteOutcome {
    if let StoreError::Unavailable { .. } = error {
        // Limited, since an outage affects all objects.
        if let Some(suppressed) = outage.allow() {
            warn!(object = %key, write = label, %error, suppressed_lines = suppressed, "the store refuses writes: the collector tries again");
        }
        return WriteOutcome::Failed;
    }
    warn!(object = %key, write = label, %error, "the store refuses a write of this object: the collector tries again");
    match error {
        StoreError::TooLarge { .. } => WriteOutcome::TooLarge,
        _ => WriteOutcome::Refused,
    }
}
