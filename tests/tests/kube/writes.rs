//! Writing, and what the server says when it does not.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, api::PostParams, core::ObjectMeta};
use proto::api::DnsNameResolver;
use runtime::{
    cluster::Cluster,
    store::{
        Store, StoreError,
        contract::{add_name, resolver, status},
        kube::KubeStore,
    },
};
use serde_json::json;
use tests::{kube::ApiServer, wait::PATIENCE};
use tokio::{net::TcpListener, time::timeout};

use crate::cluster::{key, store};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_writers_of_100_updates_each_lose_none() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace().await;
    let key = key(&namespace, "a");
    let ours = store(&server).await;
    ours.create(&resolver(&namespace, "a")).await.unwrap();
    let foreign = Cluster::of(server.config().await, "somebody-else").unwrap();
    let writers = [(ours.clone(), "x"), (KubeStore::new(foreign), "y")].map(|(store, writer)| {
        let key = key.clone();
        tokio::spawn(async move {
            for i in 0..100 {
                add_name(&store, &key, &format!("{writer}{i}.example.com.")).await;
            }
        })
    });
    for writer in writers {
        timeout(PATIENCE, writer).await.unwrap().unwrap();
    }
    let got: DnsNameResolver = ours.get(&key).await.unwrap();
    assert_eq!(got.status.unwrap().resolved_names.len(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_but_the_status_is_ours() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace().await;
    let api: Api<DnsNameResolver> = Api::namespaced(server.client().await, &namespace);
    let made = api
        .create(&PostParams::default(), &resolver(&namespace, "a"))
        .await;
    let mut made = made.unwrap();
    made.status = Some(status(&["www.example.com."]));
    made.spec.name = "changed.example.com.".to_owned();
    made.metadata.labels = Some([("team".to_owned(), "blue".to_owned())].into());
    let replaced = store(&server).await.replace_status(&made).await.unwrap();
    assert_eq!(replaced.spec.name, "www.example.com.");
    assert_eq!(
        replaced.metadata.managed_fields, None,
        "nobody here reads them"
    );

    let stored = api.get("a").await.unwrap();
    assert_eq!(stored.metadata.labels, None);
    let fields = stored.metadata.managed_fields.unwrap();
    let ours: Vec<_> = fields
        .iter()
        .filter(|entry| entry.manager.as_deref() == Some("tests"))
        .collect();
    assert_eq!(ours.len(), 1);
    assert_eq!(ours[0].subresource.as_deref(), Some("status"));
    let owned = serde_json::to_value(&ours[0].fields_v1).unwrap();
    let owned: Vec<_> = owned.as_object().unwrap().keys().collect();
    assert_eq!(owned, ["f:status"]);
}

/// The API server takes requests of 3 MiB, and etcd objects of half of that; the server leaves `managedFields` out when they
/// are what makes the object too large.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_etcd_finds_too_large_is_too_large() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace().await;
    let store = store(&server).await;
    let mut object = store.create(&resolver(&namespace, "a")).await.unwrap();
    let addresses: Vec<_> = (0..25_000)
        .map(|i| {
            json!({
                "ip": format!("2001:db8::{i:x}"),
                "ttlSeconds": 30,
                "lastLookupTime": "2026-01-31T12:00:00Z",
            })
        })
        .collect();
    let names = json!({ "resolvedNames": [
        { "dnsName": "www.example.com.", "resolvedAddresses": addresses },
    ] });
    object.status = Some(serde_json::from_value(names).unwrap());
    let refused = store.replace_status(&object).await;
    let Err(StoreError::TooLarge { reason, .. }) = &refused else {
        panic!("{refused:?}");
    };
    assert!(
        reason.contains("too large") || reason.contains("larger than max"),
        "{reason}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_says_so_in_the_servers_words() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace().await;
    let accounts: Api<ServiceAccount> = Api::namespaced(server.client().await, &namespace);
    let account = ServiceAccount {
        metadata: ObjectMeta {
            name: Some("nobody".to_owned()),
            ..ObjectMeta::default()
        },
        ..ServiceAccount::default()
    };
    accounts
        .create(&PostParams::default(), &account)
        .await
        .unwrap();
    let nobody = Cluster::of(server.config_of(&namespace, "nobody").await, "nobody").unwrap();
    let refused = KubeStore::new(nobody)
        .create(&resolver(&namespace, "a"))
        .await;
    let Err(StoreError::Invalid { reason, .. }) = &refused else {
        panic!("{refused:?}");
    };
    assert!(
        reason.contains("nobody") && reason.contains("cannot create"),
        "{reason}"
    );

    let store = store(&server).await;
    let mut single = resolver(&namespace, "a");
    single.spec.name = "localhost.".to_owned();
    let refused = store.create(&single).await;
    let Err(StoreError::Invalid { reason, .. }) = &refused else {
        panic!("{refused:?}");
    };
    assert!(reason.contains("spec.name"), "{reason}");

    // What is missing here may come, and is not the object.
    let refused = store.create(&resolver("no-such-namespace", "a")).await;
    assert!(
        matches!(&refused, Err(StoreError::Unavailable { .. })),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_answer_is_given_up_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let cluster = Cluster::of(kube::Config::new(url.parse().unwrap()), "tests").unwrap();
    let started = Instant::now();
    let got = KubeStore::new(cluster)
        .get::<DnsNameResolver>(&key("a", "b"))
        .await;
    let Err(StoreError::Unavailable {
        reason,
        retry_after,
    }) = &got
    else {
        panic!("{got:?}");
    };
    assert!(reason.contains("no answer"), "{reason}");
    assert_eq!(*retry_after, None);
    assert!(started.elapsed() < Duration::from_secs(20));

    let address = silent.local_addr().unwrap();
    drop(silent);
    let cluster = Cluster::of(
        kube::Config::new(format!("http://{address}").parse().unwrap()),
        "tests",
    );
    let got = KubeStore::new(cluster.unwrap())
        .get::<DnsNameResolver>(&key("a", "b"))
        .await;
    let Err(StoreError::Unavailable { reason, .. }) = &got else {
        panic!("{got:?}");
    };
    assert!(reason.contains("refused"), "{reason}");
}
