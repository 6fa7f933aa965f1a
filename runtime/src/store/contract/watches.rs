//! The requirements for watches and lists.

use std::time::Duration;

use futures_util::StreamExt;
use kube::ResourceExt;
use proto::api::{DnsNameResolver, EgressFirewall};
use tokio::time::timeout;

use super::{
    super::{Event, Precondition, Scope, Store},
    key, next, resolver, status, watch,
};

/// `Synced`, also if the store is empty.
pub async fn a_watch_begins_with_the_whole_content(store: &impl Store, namespace: &str) {
    let scope = Scope::Namespace(namespace.to_owned());
    let mut empty = watch::<DnsNameResolver, _>(store, scope.clone());
    assert_eq!(next(&mut empty).await, Event::Synced(Vec::new()));

    let mut made = Vec::new();
    for name in ["a", "b", "c"] {
        made.push(store.create(&resolver(namespace, name)).await.unwrap());
    }
    let mut full = watch::<DnsNameResolver, _>(store, scope);
    let Event::Synced(mut objects) = next(&mut full).await else {
        panic!("a watch begins with Synced");
    };
    objects.sort_by_key(ResourceExt::name_any);
    assert_eq!(objects, made);
    let mut other_kind = watch::<EgressFirewall, _>(store, Scope::Namespace(namespace.to_owned()));
    assert_eq!(next(&mut other_kind).await, Event::Synced(Vec::new()));
}

/// Also the writer's own changes.
pub async fn a_watch_delivers_every_change(store: &impl Store, namespace: &str) {
    let mut watch = watch(store, Scope::Namespace(namespace.to_owned()));
    assert_eq!(next(&mut watch).await, Event::Synced(Vec::new()));

    let made = store.create(&resolver(namespace, "a")).await.unwrap();
    assert_eq!(next(&mut watch).await, Event::Applied(made.clone()));
    let mut changed = made;
    changed.status = Some(status(&["www.example.com."]));
    let replaced = store.replace_status(&changed).await.unwrap();
    assert_eq!(next(&mut watch).await, Event::Applied(replaced));
    let key = key(namespace, "a");
    store
        .delete::<DnsNameResolver>(&key, &Precondition::default())
        .await
        .unwrap();
    assert_eq!(next(&mut watch).await, Event::Deleted(key));
    let again = store.create(&resolver(namespace, "a")).await.unwrap();
    assert_eq!(next(&mut watch).await, Event::Applied(again));
}

/// A watch of all namespaces sees its changes.
pub async fn a_watch_of_a_namespace_sees_no_other(store: &impl Store, namespace: &str) {
    let elsewhere = Scope::Namespace(format!("{namespace}-x"));
    let mut elsewhere = watch::<DnsNameResolver, _>(store, elsewhere);
    assert_eq!(next(&mut elsewhere).await, Event::Synced(Vec::new()));
    let mut all = watch::<DnsNameResolver, _>(store, Scope::All);
    assert!(matches!(next(&mut all).await, Event::Synced(_)));
    let made = store.create(&resolver(namespace, "a")).await.unwrap();
    loop {
        if next(&mut all).await == Event::Applied(made.clone()) {
            break;
        }
    }
    let pending = timeout(Duration::ZERO, elsewhere.next()).await;
    assert!(pending.is_err(), "{pending:?}");
}
