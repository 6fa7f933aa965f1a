//! Watches during faults.

use std::{collections::BTreeMap, time::Duration};

use futures_util::StreamExt;
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
};
use proto::api::DnsNameResolver;
use runtime::store::{
    Event, ObjectKey, Precondition, Scope, Store, StoreError,
    contract::{next, resolver, status, watch},
};
use serde_json::json;
use tests::{
    kube::ApiServer,
    wait::{PATIENCE, eventually},
};
use tokio::time::{sleep, timeout};

use crate::{
    cluster::{key, store},
    proxy::Proxy,
};

/// The content that a watch has reported so far.
#[derive(Default)]
struct Mirror {
    objects: BTreeMap<ObjectKey, DnsNameResolver>,
    gaps: usize,
}

impl Mirror {
    fn take(&mut self, event: Event<DnsNameResolver>) {
        match event {
            Event::Synced(objects) => {
                let objects = objects.into_iter();
                self.objects = objects
                    .map(|object| (ObjectKey::of(&object), object))
                    .collect();
            }
            Event::Applied(object) => {
                self.objects.insert(ObjectKey::of(&object), object);
            }
            Event::Deleted(key) => {
                let known = self.objects.remove(&key);
                assert!(known.is_some(), "{key} was not known");
            }
            Event::OutOfSync(_) => self.gaps += 1,
            Event::Undecodable(keys) => panic!("{keys:?}"),
        }
    }

    fn versions(&self) -> BTreeMap<ObjectKey, Option<String>> {
        versions(self.objects.values())
    }
}

fn versions<'a>(
    objects: impl IntoIterator<Item = &'a DnsNameResolver>,
) -> BTreeMap<ObjectKey, Option<String>> {
    let objects = objects.into_iter();
    objects
        .map(|object| (ObjectKey::of(object), object.resource_version()))
        .collect()
}

/// The versions of the objects that the server has now.
async fn stored(server: &ApiServer, namespace: &str) -> BTreeMap<ObjectKey, Option<String>> {
    let api: Api<DnsNameResolver> = Api::namespaced(server.client().await, namespace);
    versions(&api.list(&ListParams::default()).await.unwrap().items)
}

/// Retries until the server answers.
macro_rules! insist {
    ($attempt:expr) => {
        loop {
            match $attempt.await {
                Err(StoreError::Unavailable { .. }) => sleep(Duration::from_millis(20)).await,
                done => break done,
            }
        }
    };
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_around_a_stop_of_the_api_server_are_all_seen() {
    let mut server = ApiServer::start().await;
    let namespace = server.namespace().await;
    let writing = store(&server).await;
    let mut events = watch(&store(&server).await, Scope::Namespace(namespace.clone()));
    let mut mirror = Mirror::default();
    mirror.take(next(&mut events).await);

    let writer = tokio::spawn({
        let (store, namespace) = (writing.clone(), namespace.clone());
        async move {
            for i in 0..300 {
                let object = resolver(&namespace, &format!("n{i}"));
                let made = insist!(store.create(&object));
                // A write without an answer may have succeeded.
                assert!(
                    matches!(made, Ok(_) | Err(StoreError::AlreadyExists(_))),
                    "{made:?}"
                );
                if i % 3 == 0 {
                    let key = ObjectKey::of(&object);
                    let any = Precondition::default();
                    let gone = insist!(store.delete::<DnsNameResolver>(&key, &any));
                    assert!(
                        matches!(gone, Ok(()) | Err(StoreError::NotFound(_))),
                        "{gone:?}"
                    );
                }
            }
        }
    });
    while mirror.objects.len() < 20 {
        mirror.take(next(&mut events).await);
    }
    server.stop();
    let out_of_sync = loop {
        let event = next(&mut events).await;
        if matches!(event, Event::OutOfSync(_)) {
            break event;
        }
        mirror.take(event);
    };
    mirror.take(out_of_sync);
    assert!(!writer.is_finished(), "the stop was too late");
    let quiet = timeout(Duration::from_secs(3), events.next()).await;
    assert!(quiet.is_err(), "it is said once: {quiet:?}");
    server.start_again().await;
    timeout(PATIENCE, writer).await.unwrap().unwrap();

    let expected = stored(&server, &namespace).await;
    assert_eq!(expected.len(), 200);
    while expected != mirror.versions() {
        mirror.take(next(&mut events).await);
    }
    assert_eq!(mirror.gaps, 1);
}

/// The changes come while the watch cannot. Then neither etcd nor the API server knows the watch's version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_with_a_version_that_is_gone_begins_anew() {
    let mut server = ApiServer::start().await;
    let namespace = server.namespace().await;
    let writing = store(&server).await;
    let mut made = Vec::new();
    for i in 0..30 {
        let object = resolver(&namespace, &format!("n{i}"));
        made.push(writing.create(&object).await.unwrap());
    }
    let proxy = Proxy::start(&server).await;
    let mut events = watch(&proxy.store(), Scope::Namespace(namespace.clone()));
    let mut mirror = Mirror::default();
    mirror.take(next(&mut events).await);
    assert_eq!(mirror.versions(), versions(&made));

    proxy.hang(true);
    for (i, object) in made.iter_mut().enumerate() {
        if i % 3 == 0 {
            let (key, any) = (ObjectKey::of(object), Precondition::default());
            writing.delete::<DnsNameResolver>(&key, &any).await.unwrap();
        } else if i % 3 == 1 {
            object.status = Some(status(&["www.example.com."]));
            writing.replace_status(object).await.unwrap();
        }
        let late = resolver(&namespace, &format!("late{i}"));
        writing.create(&late).await.unwrap();
    }
    let expected = stored(&server, &namespace).await;
    assert_eq!(expected.len(), 50);
    server.compact().await;
    assert_eq!(proxy.gone(), 0);
    proxy.hang(false);

    let Event::Synced(objects) = next(&mut events).await else {
        panic!("it lists everything again");
    };
    assert_eq!(versions(&objects), expected);
    assert_eq!(proxy.gone(), 1);
    let last = writing.create(&resolver(&namespace, "last")).await.unwrap();
    assert_eq!(next(&mut events).await, Event::Applied(last));
}

/// The outage is so short that the watch would continue from its known version, which the restored server will not have
/// for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn object_that_a_restored_etcd_lacks_is_deleted() {
    let mut server = ApiServer::start().await;
    let namespace = server.namespace().await;
    let writing = store(&server).await;
    let (a, b) = (resolver(&namespace, "a"), resolver(&namespace, "b"));
    let first = writing.create(&a).await.unwrap();
    let second = writing.create(&b).await.unwrap();
    server.back_up().await;

    let proxy = Proxy::start(&server).await;
    let mut events = watch(&proxy.store(), Scope::Namespace(namespace.clone()));
    let before = Event::Synced(vec![first.clone(), second]);
    assert_eq!(next(&mut events).await, before);
    // More than the server itself writes until the watch looks.
    for i in 0..200 {
        let object = resolver(&namespace, &format!("n{i}"));
        let made = insist!(writing.create(&object)).unwrap();
        assert_eq!(next(&mut events).await, Event::Applied(made));
    }
    let any = Precondition::default();
    let gone = ObjectKey::of(&first);
    writing
        .delete::<DnsNameResolver>(&gone, &any)
        .await
        .unwrap();
    assert_eq!(next(&mut events).await, Event::Deleted(gone));

    // Requests through the proxy wait for their answer, so few attempts fail.
    proxy.hang(true);
    server.restore().await;
    proxy.hang(false);
    // The watch looks for a restore once a minute.
    let event = timeout(Duration::from_secs(120), events.next()).await;
    assert_eq!(event.unwrap().unwrap(), before);
    let late = insist!(writing.create(&resolver(&namespace, "late"))).unwrap();
    assert_eq!(next(&mut events).await, Event::Applied(late));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_the_crd_takes_and_we_do_not_costs_itself_alone() {
    let server = ApiServer::start().await;
    let namespace = server.namespace().await;
    let client = server.client().await;
    server.take_any("dnsnameresolvers").await;
    let store = store(&server).await;
    let scope = Scope::Namespace(namespace.clone());
    let mut events = watch::<DnsNameResolver, _>(&store, scope.clone());
    assert_eq!(next(&mut events).await, Event::Synced(Vec::new()));
    let made = store.create(&resolver(&namespace, "a")).await.unwrap();
    assert_eq!(next(&mut events).await, Event::Applied(made.clone()));

    let resource = ApiResource::erase::<DnsNameResolver>(&());
    let raw: Api<DynamicObject> = Api::namespaced_with(client, &namespace, &resource);
    let set_name = async |name: serde_json::Value| {
        let patch = Patch::Merge(json!({ "spec": { "name": name } }));
        raw.patch("a", &PatchParams::default(), &patch).await
    };
    // The new CRD is in force a moment later.
    eventually("the CRD takes everything", async || {
        set_name(json!(7)).await.map_err(|error| error.to_string())
    })
    .await;
    let undecodable = |keys: &[ObjectKey]| Event::Undecodable(keys.iter().cloned().collect());
    let bad = undecodable(&[key(&namespace, "a")]);
    assert_eq!(next(&mut events).await, bad);
    let other = store.create(&resolver(&namespace, "b")).await.unwrap();
    assert_eq!(next(&mut events).await, Event::Applied(other.clone()));
    let got = store.get::<DnsNameResolver>(&key(&namespace, "a")).await;
    assert!(matches!(&got, Err(StoreError::Invalid { .. })), "{got:?}");

    // A new watch only knows that the object exists.
    let mut late = watch::<DnsNameResolver, _>(&store, scope);
    assert_eq!(next(&mut late).await, bad);
    assert_eq!(next(&mut late).await, Event::Synced(vec![other]));
    set_name(json!("www.example.com.")).await.unwrap();
    let Event::Applied(again) = next(&mut events).await else {
        panic!("it decodes again");
    };
    assert_eq!(again.uid(), made.uid());
    assert_eq!(next(&mut events).await, undecodable(&[]));
    assert_eq!(next(&mut late).await, Event::Applied(again));
    assert_eq!(next(&mut late).await, undecodable(&[]));
}
