//! Reads objects again that were left out, when their namespace has room for them.

use std::{future::pending, marker::PhantomData, pin::Pin, time::Duration};

use runtime::store::{ObjectKey, Store, StoreError};
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use super::RuleSource;

/// The wait after a failed read.
const RETRY: Duration = Duration::from_secs(30);

/// An object to read, and the number of the request.
type Request = (ObjectKey, u64);

/// A read in progress.
type Reading<K> = Pin<Box<dyn Future<Output = (Request, Result<K, StoreError>)> + Send>>;

/// Makes the reads, one at a time.
pub(super) struct Reads<S, K> {
    store: S,
    under_way: Option<Reading<K>>,
    not_before: Instant,
    kind: PhantomData<fn() -> K>,
}

impl<S: Store, K: RuleSource> Reads<S, K> {
    pub(super) fn new(store: S) -> Self {
        Self {
            store,
            under_way: None,
            not_before: Instant::now(),
            kind: PhantomData,
        }
    }

    /// The next object as it is now; `None` if there is none that decodes. If this call is
    /// cancelled, the read continues in the next one.
    pub(super) async fn next(&mut self, request: Option<Request>) -> (ObjectKey, u64, Option<K>) {
        loop {
            if let Some(reading) = &mut self.under_way {
                let ((key, request), read) = reading.await;
                self.under_way = None;
                match read {
                    Ok(object) => return (key, request, Some(object)),
                    // The event of its deletion follows.
                    Err(StoreError::NotFound(_)) => return (key, request, None),
                    Err(error @ StoreError::Invalid { .. }) => {
                        warn!(kind = %K::SOURCE, %error, "there is room for the names of an object that cannot be read: it stays left out until it changes");
                        return (key, request, None);
                    }
                    Err(error) => {
                        warn!(kind = %K::SOURCE, %key, %error, "there is room for the names of this object, and reading it failed: it stays left out");
                        self.not_before = Instant::now() + RETRY;
                    }
                }
            }
            let Some((key, number)) = request.clone() else {
                return pending().await;
            };
            sleep_until(self.not_before).await;
            let store = self.store.clone();
            self.under_way = Some(Box::pin(async move {
                let read = store.get::<K>(&key).await;
                ((key, number), read)
            }));
        }
    }
}
