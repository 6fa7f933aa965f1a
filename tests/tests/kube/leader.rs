//! Leader election by a Lease.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use runtime::{
    OpenStore,
    leader::{Leader, Leadership, RENEW_DEADLINE},
};
use serde_json::json;
use tests::{
    kube::ApiServer,
    soak::{is_long, judge},
    wait::eventually,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::cluster::open_store;

struct Replica {
    leader: Leader,
    token: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Replica {
    fn start(store: &OpenStore, namespace: &str) -> Self {
        let leadership = Leadership::of(store, namespace, "collector");
        let (leader, token) = (leadership.leader(), CancellationToken::new());
        Self {
            leader,
            task: tokio::spawn(leadership.run(token.clone())),
            token,
        }
    }

    async fn leads(&self, what: &str) {
        eventually(what, async || match self.leader.is_leading() {
            true => Ok(()),
            false => Err("it does not".to_owned()),
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_and_when_it_ends_in_order_the_other_does_soon() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace().await;
    let store = open_store(&server).await;
    let first = Replica::start(&store, &namespace);
    first.leads("the first leads").await;
    let second = Replica::start(&store, &namespace);
    let leases: Api<Lease> = Api::namespaced(server.client().await, &namespace);
    let lease = async || leases.get("collector").await.unwrap().spec.unwrap();
    let holder = lease().await.holder_identity;
    // The second reads the Lease as often as the first renews it.
    for _ in 0..3 {
        let renewed = lease().await.renew_time;
        eventually("it is renewed", async || {
            let changed = lease().await.renew_time != renewed;
            changed.then_some(()).ok_or_else(|| format!("{renewed:?}"))
        })
        .await;
        assert!(first.leader.is_leading() && !second.leader.is_leading());
    }

    first.token.cancel();
    first.task.await.unwrap().unwrap();
    assert!(!first.leader.is_leading());
    assert_ne!(lease().await.holder_identity, holder, "it was released");
    second.leads("the second leads").await;
}

mod soak {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_cannot_renew_for_7_seconds_does_not_lead() {
        let mut server = ApiServer::start().await;
        let namespace = server.namespace().await;
        let mut replica = Replica::start(&open_store(&server).await, &namespace);
        replica.leads("it leads").await;
        replica.leader.changed().await;
        server.stop();
        let stopped = Instant::now();
        replica.leader.changed().await;
        let took = stopped.elapsed();
        assert!(!replica.leader.is_leading());
        let second = Duration::from_secs(1);
        judge("it leads on alone", took, RENEW_DEADLINE + second);
        assert!(
            !is_long() || took > RENEW_DEADLINE - 4 * second,
            "a renewal is tried again: {took:?}"
        );
        server.start_again().await;
        replica.leads("it leads again").await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_finds_another_in_its_place_stops() {
        let server = ApiServer::shared().await;
        let namespace = server.namespace().await;
        let mut replica = Replica::start(&open_store(&server).await, &namespace);
        replica.leads("it leads").await;
        replica.leader.changed().await;
        let leases: Api<Lease> = Api::namespaced(server.client().await, &namespace);
        let usurped = Patch::Merge(json!({ "spec": { "holderIdentity": "usurper" } }));
        leases
            .patch("collector", &PatchParams::default(), &usurped)
            .await
            .unwrap();
        let usurped = Instant::now();
        replica.leader.changed().await;
        assert!(!replica.leader.is_leading());
        judge("it is found", usurped.elapsed(), RENEW_DEADLINE);

        let lease = leases.get("collector").await.unwrap().spec.unwrap();
        assert_eq!(lease.holder_identity.as_deref(), Some("usurper"));
        leases
            .delete("collector", &kube::api::DeleteParams::default())
            .await
            .unwrap();
        replica.leads("it leads again").await;
    }
}
