//! The requirements for every store, as tests that run against any store.
//!
//! A store's test module names a function that makes a [`Subject`], and gets one test per requirement:
//!
//! ```text
//! runtime::store_contract!(subject);
//! ```

// Tests may panic.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used
)]

mod watches;
mod writes;

use std::{any::Any, pin::Pin, time::Duration};

use futures_util::{Stream, StreamExt};
use proto::api::{DnsNameResolver, DnsNameResolverSpec, DnsNameResolverStatus, ResolvedName};
use serde_json::json;
use tokio::time::timeout;

pub use self::{watches::*, writes::*};
use super::{Event, Kind, ObjectKey, Scope, Store, StoreError};

/// The time limit of each wait.
const DEADLINE: Duration = Duration::from_secs(20);

/// A store under test.
pub struct Subject<S> {
    /// The store.
    pub store: S,
    /// An unused namespace that exists or need not be created.
    pub namespace: String,
    /// Kept until the end of the test.
    pub guard: Box<dyn Any + Send>,
}

/// Makes a `#[tokio::test]` of each requirement. `$subject` is an `async fn() -> Subject<impl Store>`.
#[macro_export]
macro_rules! store_contract {
    ($subject:path) => {
        $crate::store_contract!(
            $subject,
            an_object_is_stored_as_it_was_made,
            what_does_not_exist_is_not_found,
            a_status_is_replaced_and_nothing_else,
            all_but_the_status_is_replaced_if_the_version_is_the_stored_one,
            a_status_of_an_old_version_or_another_uid_is_a_conflict,
            concurrent_writers_lose_no_update,
            a_deletion_holds_to_its_precondition,
            an_object_that_was_made_again_has_another_uid,
            a_name_that_cannot_be_stored_is_refused,
            what_is_too_large_is_told_apart,
            a_watch_begins_with_the_whole_content,
            a_watch_delivers_every_change,
            a_watch_of_a_namespace_sees_no_other,
        );
    };
    ($subject:path, $($name:ident,)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let subject: $crate::store::contract::Subject<_> = $subject().await;
                $crate::store::contract::$name(&subject.store, &subject.namespace).await;
            }
        )+
    };
}

/// A resolver of a name, to be created.
pub fn resolver(namespace: &str, name: &str) -> DnsNameResolver {
    let spec = DnsNameResolverSpec {
        name: "www.example.com.".to_owned(),
    };
    let mut object = DnsNameResolver::new(name, spec);
    object.metadata.namespace = Some(namespace.to_owned());
    object
}

/// A status in which these names have one address each.
pub fn status(names: &[&str]) -> DnsNameResolverStatus {
    let entry = |(i, name): (usize, &&str)| json!({ "dnsName": name, "resolvedAddresses": addresses(i..i + 1) });
    let entries: Vec<_> = names.iter().enumerate().map(entry).collect();
    serde_json::from_value(json!({ "resolvedNames": entries })).unwrap()
}

fn addresses(range: std::ops::Range<usize>) -> serde_json::Value {
    range
        .map(|i| {
            json!({
                "ip": format!("2001:db8::{:x}", i + 1),
                "ttlSeconds": 30,
                "lastLookupTime": "2026-01-31T12:00:00Z",
            })
        })
        .collect()
}

/// The next event of a watch; panics after the deadline.
pub async fn next<K: Kind>(watch: &mut (impl Stream<Item = Event<K>> + Unpin)) -> Event<K> {
    timeout(DEADLINE, watch.next())
        .await
        .expect("no event came in time")
        .expect("a watch has no end")
}

/// A watch that can be polled.
pub fn watch<K: Kind, S: Store>(
    store: &S,
    scope: Scope,
) -> Pin<Box<dyn Stream<Item = Event<K>> + Send>> {
    Box::pin(store.watch::<K>(scope))
}

fn key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

/// Adds a name to a status by compare-and-swap, until it holds.
async fn add_name(store: &impl Store, key: &ObjectKey, name: &str) {
    loop {
        let mut object: DnsNameResolver = store.get(key).await.unwrap();
        let names = &mut object.status.get_or_insert_default().resolved_names;
        names.push(ResolvedName {
            conditions: Vec::new(),
            dns_name: name.to_owned(),
            resolved_addresses: Vec::new(),
            resolution_failures: 0,
        });
        match store.replace_status(&object).await {
            Ok(_) => return,
            Err(StoreError::Conflict(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
