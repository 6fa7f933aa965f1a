//! A watch across a restore of etcd.

use std::time::Duration;

use futures_util::StreamExt;
use proto::api::DnsNameResolver;
use runtime::store::{
    Event, ObjectKey, Precondition, Scope, Store, StoreError,
    contract::{next, resolver, watch},
};
use tests::{kube::ApiServer, wait::eventually};
use tokio::time::timeout;

use crate::cluster::store;

/// The watch would continue from its known version, which the restored server will not have for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_restored_etcd_does_not_have_is_gone() {
    let mut server = ApiServer::start().await;
    let namespace = server.namespace().await;
    let writing = store(&server).await;
    let create = async |name: &str| {
        eventually(&format!("{name} is made"), async || {
            match writing.create(&resolver(&namespace, name)).await {
                Err(StoreError::Unavailable { reason }) => Err(reason),
                made => Ok(made.unwrap()),
            }
        })
        .await
    };
    let (first, second) = (create("a").await, create("b").await);
    server.back_up().await;

    let mut events = watch(&store(&server).await, Scope::Namespace(namespace.clone()));
    let before = Event::Synced(vec![first.clone(), second]);
    assert_eq!(next(&mut events).await, before);
    for i in 0..20 {
        let made = create(&format!("n{i}")).await;
        assert_eq!(next(&mut events).await, Event::Applied(made));
    }
    let any = Precondition::default();
    let gone = ObjectKey::of(&first);
    let deleted = writing.delete::<DnsNameResolver>(&gone, &any).await;
    deleted.unwrap();
    assert_eq!(next(&mut events).await, Event::Deleted(gone));

    server.restore().await;
    // The watch looks for a restore once a minute.
    let restored = timeout(Duration::from_secs(120), async {
        loop {
            match events.next().await.unwrap() {
                Event::OutOfSync(_) => {}
                event => return event,
            }
        }
    });
    assert_eq!(restored.await.unwrap(), before);
    let late = create("late").await;
    assert_eq!(next(&mut events).await, Event::Applied(late));
}
