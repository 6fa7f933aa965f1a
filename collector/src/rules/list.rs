//! Complete lists of the EgressFirewalls, made when some went.

use std::{collections::BTreeSet, future::pending, pin::Pin};

use proto::api::EgressFirewall;
use runtime::store::{ObjectKey, Scope, Store, StoreError};
use tokio::time::{Duration, Instant, sleep_until};
use tracing::warn;

/// A list that failed is made again after this.
const RETRY: Duration = Duration::from_secs(5);

/// A list under way: when it was begun, and what came of it.
type Listing =
    Pin<Box<dyn Future<Output = (Instant, Result<BTreeSet<ObjectKey>, StoreError>)> + Send>>;

/// Makes them, one at a time.
pub(super) struct Lists<S> {
    store: S,
    under_way: Option<Listing>,
    not_before: Instant,
}

impl<S: Store> Lists<S> {
    pub(super) fn new(store: S) -> Self {
        Self {
            store,
            under_way: None,
            not_before: Instant::now(),
        }
    }

    /// The next list, which is begun when it is `due`, with when that was. Cancelled, it goes on with the next call.
    pub(super) async fn next(&mut self, due: Option<Instant>) -> (BTreeSet<ObjectKey>, Instant) {
        loop {
            if let Some(listing) = &mut self.under_way {
                let (began, listed) = listing.await;
                self.under_way = None;
                match listed {
                    Ok(keys) => return (keys, began),
                    Err(error) => {
                        warn!(%error, "EgressFirewalls went, and a list does not tell whether they are there");
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
                (began, store.list_keys::<EgressFirewall>(&Scope::All).await)
            }));
        }
    }
}
