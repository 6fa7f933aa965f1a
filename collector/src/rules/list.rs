//! Complete lists of the objects with rules, made after some disappeared.

use std::{collections::BTreeSet, future::pending, marker::PhantomData, pin::Pin};

use runtime::store::{ObjectKey, Scope, Store, StoreError};
use tokio::time::{Duration, Instant, sleep_until};
use tracing::warn;

use super::RuleSource;

/// The wait after a failed list.
const RETRY: Duration = Duration::from_secs(5);

/// A list in progress: its start and its result.
type Listing =
    Pin<Box<dyn Future<Output = (Instant, Result<BTreeSet<ObjectKey>, StoreError>)> + Send>>;

/// Makes the lists, one at a time.
pub(super) struct Lists<S, K> {
    store: S,
    under_way: Option<Listing>,
    not_before: Instant,
    kind: PhantomData<fn() -> K>,
}

impl<S: Store, K: RuleSource> Lists<S, K> {
    pub(super) fn new(store: S) -> Self {
        Self {
            store,
            under_way: None,
            not_before: Instant::now(),
            kind: PhantomData,
        }
    }

    /// The result of the next list with the time of its start. The list begins when it is `due`. If
    /// this call is cancelled, the list continues in the next one.
    pub(super) async fn next(&mut self, due: Option<Instant>) -> (BTreeSet<ObjectKey>, Instant) {
        loop {
            if let Some(listing) = &mut self.under_way {
                let (began, listed) = listing.await;
                self.under_way = None;
                match listed {
                    Ok(keys) => return (keys, began),
                    Err(error) => {
                        warn!(kind = %K::SOURCE, %error, "objects disappeared, and listing them failed: their names are held until a list succeeds");
                        self.not_before = Instant::now() + RETRY;
                    }
                }
            }
            let Some(due) = due else {
                return pending().await;
            };
            sleep_until(due.max(self.not_before)).await;
            let store = self.store.clone();
            self.under_way = Some(Box::pin(async move {
                let began = Instant::now();
                (began, store.list_keys::<K>(&Scope::All).await)
            }));
        }
    }
}
