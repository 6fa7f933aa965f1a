//! Writes to the store: one attempt each, and what the store then has.

use std::time::Duration;

use proto::api::DnsNameResolver;
use runtime::{
    log_rate_limiter::LogRateLimiter,
    store::{ObjectKey, Precondition, Store, StoreError},
};
use tracing::{debug, warn};

/// What to write.
#[derive(Clone, Debug)]
pub enum Write {
    /// Replace the status, if the version still is that of this object.
    Status(Box<DnsNameResolver>),
    /// Make an object.
    Create(Box<DnsNameResolver>),
    /// Delete an object, if it still is the one that was meant.
    Delete(ObjectKey, Precondition),
}

/// What the store has after an attempt.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It was written; the object is as the store has it now.
    Stored(Box<DnsNameResolver>),
    /// Somebody else was faster; this is what the store has now. Compute again.
    Stale(Box<DnsNameResolver>),
    /// There is no such object now.
    Gone,
    /// The store refuses this object: try again later, or when it has changed.
    Refused,
    /// The status is larger than the store takes: write less of it.
    TooLarge,
    /// The store cannot be reached, or takes no writes: try again later, and not before what it asks for, if it does.
    Failed(Option<Duration>),
}

impl Write {
    /// Which object it is about.
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

    /// Tries it once. After a conflict the object is read, so that the next attempt stands on what is there. `outage` decides
    /// whether the log tells of a store that takes no writes.
    pub async fn attempt<S: Store>(self, store: &S, outage: &LogRateLimiter) -> Outcome {
        let (key, label) = (self.key(), self.label());
        let result = match &self {
            Self::Status(object) => store.replace_status(object.as_ref()).await.map(Some),
            Self::Create(object) => store.create(object.as_ref()).await.map(Some),
            Self::Delete(key, precondition) => store
                .delete::<DnsNameResolver>(key, precondition)
                .await
                .map(|()| None),
        };
        let result = match result {
            Err(StoreError::Conflict(_) | StoreError::AlreadyExists(_)) => {
                debug!(object = %key, write = label, "somebody else was faster");
                return match store.get(&key).await {
                    Ok(object) => Outcome::Stale(Box::new(object)),
                    Err(StoreError::NotFound(_)) => Outcome::Gone,
                    Err(error) => failed(&key, label, &error, outage),
                };
            }
            other => other,
        };
        match result {
            Ok(Some(object)) => Outcome::Stored(Box::new(object)),
            Ok(None) | Err(StoreError::NotFound(_)) => Outcome::Gone,
            Err(error) => failed(&key, label, &error, outage),
        }
    }
}

fn failed(
    key: &ObjectKey,
    label: &'static str,
    error: &StoreError,
    outage: &LogRateLimiter,
) -> Outcome {
    if let StoreError::Unavailable { retry_after, .. } = error {
        // An outage concerns all objects.
        if let Some(left_out) = outage.allow() {
            warn!(object = %key, write = label, %error, left_out, "the store takes no writes for now");
        }
        return Outcome::Failed(*retry_after);
    }
    warn!(object = %key, write = label, %error, "cannot write");
    match error {
        StoreError::TooLarge { .. } => Outcome::TooLarge,
        _ => Outcome::Refused,
    }
}
