//! What every store must do, as tests that run against any.
//!
//! A store's test module names a function that makes a [`Subject`], and gets one test a sentence:
//!
//! ```ignore
//! runtime::store_contract!(subject);
//! ```

// Tests may fail loudly.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used
)]

use std::{any::Any, fmt, pin::Pin, time::Duration};

use futures_util::{Stream, StreamExt};
use kube::ResourceExt;
use proto::api::{
    DnsNameResolver, DnsNameResolverSpec, DnsNameResolverStatus, EgressFirewall, ResolvedName,
};
use serde_json::json;
use tokio::time::timeout;

use super::{Event, Kind, ObjectKey, Precondition, Scope, Store, StoreError};

/// How long anything may take.
const DEADLINE: Duration = Duration::from_secs(20);

/// A store to be tested.
pub struct Subject<S> {
    /// The store.
    pub store: S,
    /// A namespace that exists or needs no making, and that nobody else uses.
    pub namespace: String,
    /// Kept until the end of the test.
    pub guard: Box<dyn Any + Send>,
}

/// Makes a `#[tokio::test]` of each sentence of the contract. `$subject` is an `async fn() -> Subject<impl Store>`.
#[macro_export]
macro_rules! store_contract {
    ($subject:path) => {
        $crate::store_contract!(
            $subject,
            an_object_is_stored_as_it_was_made,
            an_object_that_exists_is_not_made_again,
            a_status_on_creation_is_not_stored,
            what_does_not_exist_is_not_found,
            a_status_is_replaced_and_nothing_else,
            a_status_of_an_old_version_is_a_conflict,
            a_status_of_another_uid_is_a_conflict,
            a_status_without_a_version_is_refused,
            concurrent_writers_lose_no_update,
            a_deletion_holds_to_its_precondition,
            an_object_that_was_made_again_has_another_uid,
            a_name_that_cannot_be_stored_is_refused,
            text_of_any_kind_comes_back,
            a_thousand_addresses_come_back,
            a_watch_begins_with_the_whole_content,
            a_watch_delivers_every_change,
            a_watch_of_a_namespace_sees_no_other,
        );
    };
    ($subject:path, $($name:ident,)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::store::contract::$name($subject().await).await;
            }
        )+
    };
}

/// A resolver of a name, to be made.
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

/// The next event of a watch, which must come within the deadline.
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

#[track_caller]
fn refused<T: fmt::Debug>(result: Result<T, StoreError>, expected: fn(&StoreError) -> bool) {
    match result {
        Err(error) if expected(&error) => {}
        other => panic!("{other:?}"),
    }
}

fn is_not_found(error: &StoreError) -> bool {
    matches!(error, StoreError::NotFound(_))
}

fn is_conflict(error: &StoreError) -> bool {
    matches!(error, StoreError::Conflict(_))
}

fn is_invalid(error: &StoreError) -> bool {
    matches!(error, StoreError::Invalid { .. })
}

/// What `create` returned, and what `get` returns, is what was given, with uid and version.
pub async fn an_object_is_stored_as_it_was_made<S: Store>(subject: Subject<S>) {
    let Subject {
        store,
        namespace,
        guard: _guard,
    } = subject;
    let mut object = resolver(&namespace, "a");
    object
        .labels_mut()
        .insert("team".to_owned(), "blue".to_owned());
    object
        .annotations_mut()
        .insert("example.com/note".to_owned(), "yes".to_owned());
    let made = store.create(&object).await.unwrap();
    assert!(made.uid().is_some_and(|uid| !uid.is_empty()));
    assert!(made.resource_version().is_some());
    assert_eq!(ObjectKey::of(&made), key(&namespace, "a"));
    assert_eq!(made.spec, object.spec);
    assert_eq!(made.labels(), object.labels());
    assert_eq!(made.annotations(), object.annotations());
    let got: DnsNameResolver = store.get(&key(&namespace, "a")).await.unwrap();
    assert_eq!(got, made);
}

/// `AlreadyExists`, and the first stays.
pub async fn an_object_that_exists_is_not_made_again<S: Store>(subject: Subject<S>) {
    let Subject {
        store,
        namespace,
        guard: _guard,
    } = subject;
    let made = store.create(&resolver(&namespace, "a")).await.unwrap();
    let again = store.create(&resolver(&namespace, "a")).await;
    refused(again, |error| matches!(error, StoreError::AlreadyExists(_)));
    let got: DnsNameResolver = store.get(&key(&namespace, "a")).await.unwrap();
    assert_eq!(got, made);
}

/// The status has its own way in.
pub async fn a_status_on_creation_is_not_stored<S: Store>(subject: Subject<S>) {
    let Subject {
        store,
        namespace,
        guard: _guard,
    } = subject;
    let mut object = resolver(&namespace, "a");
    object.status = Some(status(&["www.example.com."]));
    let made = store.create(&object).await.unwrap();
    assert_eq!(made.status, None);
}

/// For reading, writing and deleting.
pub async fn what_does_not_exist_is_not_found<S: Store>(subject: Subject<S>) {
    let Subject {
        store,
        namespace,
        guard: _guard,
    } = subject;
    let missing = key(&namespace, "a");
    refused(store.get::<DnsNameResolver>(&missing).await, is_not_found);
    let mut object = resolver(&namespace, "a");
    object.metadata.resource_version = Some("1".to_owned());
    refused(store.replace_status(&object).await, is_not_found);
    let deleted = store
        .delete::<DnsNameResolver>(&missing, &Precondition::default())
        .await;
    refused(deleted, is_not_found);
}

/// Labels, annotations and spec of the given object are not looked at.
pub async fn a_status_is_replaced_and_nothing_else<S: Store>(subject: Subject<S>) {
    let Subject {
        store,
        namespace,
        guard: _guard,
    } = subject;
    let mut object = resolver(&namespace, "a");
    object
        .labels_mut()
        .insert("team".to_owned(), "blue".to_owned());
    let made = store.create(&object).await.unwrap();

    let mut changed = made.clone();
    changed.status = Some(status(&["www.example.com."]));
    changed.labels_mut().clear();
    let replaced = store.replace_status(&changed).await.unwrap();
    assert_eq!(replaced.status, changed.status);
    assert_eq!(replaced.labels(), made.labels());
    assert_eq!(replaced.uid(), made.uid());
    assert_ne!(replaced.resource_version(), made.resource_version());
    let got: DnsNameResolver = store.get(&key(&namespace, "a")).await.unwrap();
    assert_eq!(got, replaced);
}

/// Also if the content is the same again.
pub async fn a_status_of_an_old_version_is_a_conflict<S: Store>(subject: Subject<S>) {
    let Subject {
        store,
        namespace,
        guard: _guard,
    } = subject;
    let old = store.create(&resolver(&namespace, "a")).await.unwrap();
    let mut first = old.clone();
    first.status = Some(status(&["first.example.com."]));
    let first = store.replace_status(&first).await.unwrap();
    let mut second = old;
    second.status = Some(status(&["second.example.com."]));
    refused(store.replace_status(&second).await, is_conflict);
    let got: DnsNameResolver = store.get(&key(&namespace, "a")).await.unwrap();
    assert_eq!(got, first);
}

/// The uid counts where it is given.
pub async fn a_status_of_another_uid_is_a_conflict<S: Store>(subject: Subject<S>) {
    let Subject {
        store,
        namespace,
        guard: _guard,
    } = subject;
    let made = store.create(&resolver(&namespace, "a")).await.unwrap();
    let mut other = made.clone();
    other.metadata.uid = Some("00000000-0000-4000-8000-000000000000".to_owned());
    other.status = Some(status(&["www.example.com."]));
    refused(store.replace_status(&other).await, is_conflict);
    other.metadata.uid = None;
    let replaced = store.replace_status(&other).await.unwrap();
    assert_eq!(replaced.uid(), made.uid());
}

/// There is no write that compares nothing.
pub async fn a_status_without_a_version_is_refused<S: Store>(subject: Subject<S>) {
    let Subject {
        store,
        namespace,
        guard: _guard,
    } = subject;
    let mut made = store.create(&resolver(&namespace, "a")).await.unwrap();
    made.metadata.resource_version = None;
    made.status = Some(status(&["www.example.com."]));
    refused(store.replace_status(&made).await, is_invalid);
}

/// Each reads, adds and writes until it holds.
pub async fn concurrent_writers_lose_no_update<S: Store>(subject: Subject<S>) {
    let Subject {
        store,
        namespace,
        guard: _guard,
    } = subject;
    store.create(&resolver(&namespace, "a")).await.unwrap();
    let writers = ["x", "y", "z"].map(|writer| {
        let (store, key) = (store.clone(), key(&namespace, "a"));
        tokio::spawn(async move {
            for i in 0..10 {
                add_name(&store, &key, &format!("{writer}{i}.example.com.")).await;
            }
        })
    });
    for writer in writers {
        timeout(DEADLINE, writer).await.unwrap().unwrap();
    }
    let got: DnsNameResolver = store.get(&key(&namespace, "a")).await.unwrap();
    assert_eq!(got.status.unwrap().resolved_names.len(), 30);
}

/// Adds a name to a status by compare-and-swap, until it holds.
pub async fn add_name(store: &impl Store, key: &ObjectKey, name: &str) {
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

/// Of uid and version.
pub async fn a_deletion_holds_to_its_precondition<S: Store>(subject: Subject<S>) {
    let Subject {
        store,
        namespace,
        guard: _guard,
    } = subject;
    let old = store.create(&resolver(&namespace, "a")).await.unwrap();
    let mut new = old.clone();
    new.status = Some(status(&["www.example.com."]));
    let new = store.replace_status(&new).await.unwrap();
    let key = key(&namespace, "a");
    let of = |object: &DnsNameResolver| Precondition {
        uid: object.uid(),
        resource_version: object.resource_version(),
    };
    let other_uid = Precondition {
        uid: Some("00000000-0000-4000-8000-000000000000".to_owned()),
        resource_version: None,
    };
    for precondition in [of(&old), other_uid] {
        let deleted = store.delete::<DnsNameResolver>(&key, &precondition).await;
        refused(deleted, is_conflict);
    }
    store
        .delete::<DnsNameResolver>(&key, &of(&new))
        .await
        .unwrap();
    refused(store.get::<DnsNameResolver>(&key).await, is_not_found);
}

/// And what held of the first does not of the second.
pub async fn an_object_that_was_made_again_has_another_uid<S: Store>(subject: Subject<S>) {
    let Subject {
        store,
        namespace,
        guard: _guard,
    } = subject;
    let key = key(&namespace, "a");
    let mut first = store.create(&resolver(&namespace, "a")).await.unwrap();
    store
        .delete::<DnsNameResolver>(&key, &Precondition::default())
        .await
        .unwrap();
    let second = store.create(&resolver(&namespace, "a")).await.unwrap();
    assert_ne!(first.uid(), second.uid());
    assert_ne!(first.resource_version(), second.resource_version());
    first.status = Some(status(&["www.example.com."]));
    refused(store.replace_status(&first).await, is_conflict);
    let precondition = Precondition {
        uid: first.uid(),
        resource_version: None,
    };
    let deleted = store.delete::<DnsNameResolver>(&key, &precondition).await;
    refused(deleted, is_conflict);
}

/// It can never succeed, so it is no matter of trying again.
pub async fn a_name_that_cannot_be_stored_is_refused<S: Store>(subject: Subject<S>) {
    let Subject {
        store,
        namespace,
        guard: _guard,
    } = subject;
    for name in ["Upper", "a_b", "-a", "a..b", &"a".repeat(254)] {
        refused(store.create(&resolver(&namespace, name)).await, is_invalid);
    }
}

/// Text that YAML could take for something else, and what is beyond ASCII.
pub async fn text_of_any_kind_comes_back<S: Store>(subject: Subject<S>) {
    let Subject {
        store,
        namespace,
        guard: _guard,
    } = subject;
    let texts = [
        "",
        " ",
        "yes",
        "null",
        "~",
        "1",
        "0x1f",
        "1e3",
        ".nan",
        "-",
        "- a",
        "a: b",
        "a #b",
        "#",
        "'",
        "\"",
        "\\",
        "{}",
        "[a",
        "*a",
        "&a",
        "!a",
        "|",
        ">",
        "%a",
        "@a",
        "`",
        "---",
        "...",
        "2026-01-31",
        "12:30:45",
        "a\nb\n",
        "\n",
        "a\r\nb",
        "\ttab",
        " lead",
        "trail ",
        "ü",
        "名前",
        "🦀",
        "\u{feff}x",
        "\u{2028}",
        "\u{85}",
        "<<",
        "=",
    ];
    let mut object = resolver(&namespace, "a");
    for (i, text) in texts.iter().enumerate() {
        object
            .annotations_mut()
            .insert(format!("example.com/{i}"), (*text).to_owned());
    }
    let made = store.create(&object).await.unwrap();
    assert_eq!(made.annotations(), object.annotations());
    let mut got: DnsNameResolver = store.get(&key(&namespace, "a")).await.unwrap();
    assert_eq!(got.annotations(), object.annotations());
    got.status = Some(status(&["名前.example.com."]));
    let replaced = store.replace_status(&got).await.unwrap();
    let got: DnsNameResolver = store.get(&key(&namespace, "a")).await.unwrap();
    assert_eq!(got, replaced);
    assert_eq!(got.annotations(), object.annotations());
}

/// In one status.
pub async fn a_thousand_addresses_come_back<S: Store>(subject: Subject<S>) {
    let Subject {
        store,
        namespace,
        guard: _guard,
    } = subject;
    let mut object = store.create(&resolver(&namespace, "a")).await.unwrap();
    let entry = json!({ "dnsName": "www.example.com.", "resolvedAddresses": addresses(0..1000) });
    object.status = Some(serde_json::from_value(json!({ "resolvedNames": [entry] })).unwrap());
    let replaced = store.replace_status(&object).await.unwrap();
    assert_eq!(replaced.status, object.status);
    let got: DnsNameResolver = store.get(&key(&namespace, "a")).await.unwrap();
    assert_eq!(got, replaced);
}

/// `Synced`, empty or not.
pub async fn a_watch_begins_with_the_whole_content<S: Store>(subject: Subject<S>) {
    let Subject {
        store,
        namespace,
        guard: _guard,
    } = subject;
    let scope = Scope::Namespace(namespace.clone());
    let mut empty = watch::<DnsNameResolver, _>(&store, scope.clone());
    assert_eq!(next(&mut empty).await, Event::Synced(Vec::new()));

    let mut made = Vec::new();
    for name in ["a", "b", "c"] {
        made.push(store.create(&resolver(&namespace, name)).await.unwrap());
    }
    let mut full = watch::<DnsNameResolver, _>(&store, scope);
    let Event::Synced(mut objects) = next(&mut full).await else {
        panic!("a watch begins with Synced");
    };
    objects.sort_by_key(ResourceExt::name_any);
    assert_eq!(objects, made);
    let mut other_kind = watch::<EgressFirewall, _>(&store, Scope::Namespace(namespace));
    assert_eq!(next(&mut other_kind).await, Event::Synced(Vec::new()));
}

/// The writer's own among them.
pub async fn a_watch_delivers_every_change<S: Store>(subject: Subject<S>) {
    let Subject {
        store,
        namespace,
        guard: _guard,
    } = subject;
    let mut watch = watch(&store, Scope::Namespace(namespace.clone()));
    assert_eq!(next(&mut watch).await, Event::Synced(Vec::new()));

    let made = store.create(&resolver(&namespace, "a")).await.unwrap();
    assert_eq!(next(&mut watch).await, Event::Applied(made.clone()));
    let mut changed = made;
    changed.status = Some(status(&["www.example.com."]));
    let replaced = store.replace_status(&changed).await.unwrap();
    assert_eq!(next(&mut watch).await, Event::Applied(replaced));
    let key = key(&namespace, "a");
    store
        .delete::<DnsNameResolver>(&key, &Precondition::default())
        .await
        .unwrap();
    assert_eq!(next(&mut watch).await, Event::Deleted(key));
    let again = store.create(&resolver(&namespace, "a")).await.unwrap();
    assert_eq!(next(&mut watch).await, Event::Applied(again));
}

/// And one of all namespaces sees this one.
pub async fn a_watch_of_a_namespace_sees_no_other<S: Store>(subject: Subject<S>) {
    let Subject {
        store,
        namespace,
        guard: _guard,
    } = subject;
    let elsewhere = Scope::Namespace(format!("{namespace}-x"));
    let mut elsewhere = watch::<DnsNameResolver, _>(&store, elsewhere);
    assert_eq!(next(&mut elsewhere).await, Event::Synced(Vec::new()));
    let mut all = watch::<DnsNameResolver, _>(&store, Scope::All);
    assert!(matches!(next(&mut all).await, Event::Synced(_)));
    let made = store.create(&resolver(&namespace, "a")).await.unwrap();
    loop {
        if next(&mut all).await == Event::Applied(made.clone()) {
            break;
        }
    }
    let pending = tokio::time::timeout(Duration::ZERO, elsewhere.next()).await;
    assert!(pending.is_err(), "{pending:?}");
}
