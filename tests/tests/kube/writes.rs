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
use tests::{kube::ApiServer, wait::PATIENCE};
use tokio::{net::TcpListener, time::timeout};

use crate::cluster::{key, store};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaced_status_owns_no_other_field() {
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
