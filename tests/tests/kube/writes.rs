//! Writes, and the server's errors.

use kube::{Api, api::PostParams};
use proto::api::DnsNameResolver;
use runtime::{
    cluster::Cluster,
    cluster::KubeStore,
    store::{
        Store, StoreError,
        contract::{resolver, status},
    },
};
use serde_json::json;
use tests::{kube::ApiServer, wait::PATIENCE};
use tokio::{net::TcpListener, time::timeout};

use crate::cluster::{key, store};

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

/// etcd accepts objects of 1.5 MiB, the connection to it messages of 2 MiB, and the API server requests of 3 MiB. The
/// server drops `managedFields` when they make the object too large.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_large_is_so_whoever_says_it() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace().await;
    let store = store(&server).await;
    let mut object = store.create(&resolver(&namespace, "a")).await.unwrap();
    // The same size with few values: many addresses would take the server ten times as long.
    let with = |kilobytes: usize| {
        let conditions = (0..kilobytes / 30).map(|i| {
            json!({
                "type": format!("T{i}"),
                "status": "True",
                "reason": "Large",
                "message": "x".repeat(30_000),
                "lastTransitionTime": "2026-01-31T12:00:00Z",
            })
        });
        let mut status = status(&["www.example.com."]);
        let conditions = serde_json::from_value(conditions.collect());
        status.resolved_names[0].conditions = conditions.unwrap();
        status
    };
    object.status = Some(with(1_400));
    object = store.replace_status(&object).await.unwrap();
    for (kilobytes, words) in [
        (1_800, "etcdserver: request is too large"),
        (2_600, "message larger than max"),
        (3_300, "Request entity too large"),
        // The server closes the connection before it has read all of these.
        (5_000, "Request entity too large"),
        (5_000, "Request entity too large"),
        (5_000, "Request entity too large"),
        (16_000, "Request entity too large"),
    ] {
        object.status = Some(with(kilobytes));
        let refused = store.replace_status(&object).await;
        let Err(StoreError::TooLarge { reason, .. }) = &refused else {
            panic!("{kilobytes} kB: {refused:?}");
        };
        assert!(reason.contains(words), "{kilobytes} kB: {reason}");
    }
    // A smaller status is accepted, from the same version.
    object.status = Some(status(&["www.example.com."]));
    store.replace_status(&object).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_answer_is_given_up_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let cluster = Cluster::of(kube::Config::new(url.parse().unwrap()), "tests").unwrap();
    let store = KubeStore::new(cluster);
    let object = key("a", "b");
    let got = timeout(PATIENCE, store.get::<DnsNameResolver>(&object)).await;
    let got = got.expect("it is given up");
    let Err(StoreError::Unavailable { reason }) = &got else {
        panic!("{got:?}");
    };
    assert!(reason.contains("no answer"), "{reason}");

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
