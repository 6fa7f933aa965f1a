//! The API server's own limits (API Priority and Fairness): it answers 429 to clients over their share.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use k8s_openapi::{
    api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration},
    jiff::Timestamp,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;
use tests::{chart::COLLECTOR, kube::ApiServer, soak::is_long, wait::eventually};

use crate::{
    collectors::{Collector, NEVER, Objects},
    history::{Addresses, History, addresses},
};

const NAMESPACE: &str = "ovn-kubernetes";

const USER: &str = "system:serviceaccount:ovn-kubernetes:egress-by-name-collector";

/// More than the collector writes in parallel, and far more than the server admits in parallel.
const NAMES: usize = 60;

/// The minimum Retry-After of the server.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The limit for status writes of the collector's ServiceAccount.
struct Limit<'a> {
    server: &'a ApiServer,
    schemas: Api<FlowSchema>,
}

impl<'a> Limit<'a> {
    /// One share of about 250 of the server's 600 parallel requests. Further ones are refused.
    async fn set(server: &'a ApiServer) -> Self {
        let levels: Api<PriorityLevelConfiguration> = Api::all(server.client().await);
        let schemas: Api<FlowSchema> = Api::all(server.client().await);
        let level = json!({
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
            "kind": "PriorityLevelConfiguration",
            "metadata": { "name": "collector" },
            "spec": { "type": "Limited", "limited": {
                "nominalConcurrencyShares": 1,
                "lendablePercent": 0,
                "borrowingLimitPercent": 0,
                "limitResponse": { "type": "Reject" },
            } },
        });
        let schema = json!({
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
            "kind": "FlowSchema",
            "metadata": { "name": "collector" },
            "spec": {
                "matchingPrecedence": 50,
                "priorityLevelConfiguration": { "name": "collector" },
                "rules": [{
                    "subjects": [{ "kind": "ServiceAccount", "serviceAccount": { "namespace": NAMESPACE, "name": COLLECTOR } }],
                    "resourceRules": [{
                        "verbs": ["update"],
                        "apiGroups": ["network.openshift.io"],
                        "resources": ["dnsnameresolvers/status"],
                        "namespaces": ["*"],
                    }],
                }],
            },
        });
        let post = PostParams::default();
        let level = serde_json::from_value(level).unwrap();
        levels.create(&post, &level).await.unwrap();
        let schema = serde_json::from_value(schema).unwrap();
        schemas.create(&post, &schema).await.unwrap();
        Self { server, schemas }
    }

    async fn lift(&self) {
        let params = DeleteParams::default();
        self.schemas.delete("collector", &params).await.unwrap();
    }

    /// The number of refused writes; and the shortest time from a refusal to the next try at the same object.
    fn refused(&self) -> (usize, Option<Duration>) {
        let answers = self
            .server
            .answers(USER, ("update", "dnsnameresolvers/status"));
        let refused: Vec<_> = answers.iter().filter(|(.., code)| *code == 429).collect();
        let again = refused.iter().filter_map(|(at, name, _)| {
            let later = |(next, other, _): &&(Timestamp, String, u64)| next > at && other == name;
            let (next, ..) = answers.iter().find(later)?;
            Some(next.duration_since(*at).unsigned_abs())
        });
        (refused.len(), again.min())
    }
}

fn name(i: usize) -> String {
    format!("n{i}.example.com.")
}

/// Sends an answer to a pod with an address of the name.
async fn tell(collector: &mut Collector, told: &mut Addresses, i: usize, last: u8) {
    let ip = IpAddr::from([10, 0, u8::try_from(i).unwrap(), last]);
    collector.hears(&name(i), &[ip], 600).await;
    told.insert((name(i), ip.to_string()));
}

/// Waits until every sent address is in its object, and returns how long that took.
async fn arrives(objects: &Objects, told: &Addresses) -> Duration {
    let started = Instant::now();
    eventually("all that was told is there", async || {
        let listed = objects.api.list(&ListParams::default()).await;
        let listed = listed.map_err(|error| error.to_string())?.items;
        let found: Addresses = listed.iter().flat_map(addresses).collect();
        (found == *told)
            .then_some(())
            .ok_or_else(|| format!("{} of {}", found.len(), told.len()))
    })
    .await;
    started.elapsed()
}

mod soak {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_share_of_the_server_that_is_too_small_delays_writes_and_loses_none() {
        let server = ApiServer::start().await;
        server.make_namespace(NAMESPACE).await;
        server.grant(NAMESPACE, &[]).await;
        let objects = Objects::of(&server, NAMESPACE).await;
        for i in 0..NAMES {
            objects.make(&format!("n{i}"), &name(i)).await;
        }
        server.config_of(NAMESPACE, COLLECTOR).await;
        let kubeconfig = server.folder().join(format!("{COLLECTOR}.kubeconfig"));
        let mut collector = Collector::start(&kubeconfig, NAMESPACE, &NEVER).await;
        collector.expect_leading(true).await;
        let history = History::of(&server, NAMESPACE).await;
        let mut told = Addresses::new();

        // A few of many parallel writes pass. The others are retried, each only after the server's Retry-After.
        let limit = Limit::set(&server).await;
        let mut last = 0;
        eventually("writes are refused", async || {
            last = u8::min(last + 1, 254);
            for i in 0..NAMES {
                tell(&mut collector, &mut told, i, last).await;
            }
            let (refused, _) = limit.refused();
            (refused >= NAMES / 3)
                .then_some(())
                .ok_or_else(|| format!("{refused}"))
        })
        .await;
        let took = arrives(&objects, &told).await;
        let (refused, again) = limit.refused();
        // The server counts from its answer, its log from the request.
        let patience = RETRY_AFTER - Duration::from_millis(50);
        let again = again.expect("a refused write is tried again");
        assert!(!is_long() || again >= patience, "{again:?}");

        limit.lift().await;
        for i in 0..NAMES {
            tell(&mut collector, &mut told, i, 255).await;
        }
        let freely = arrives(&objects, &told).await;
        let left = history.departures().await;
        assert!(left.is_empty(), "{left:?}");
        collector.expect_leading(true).await;
        collector.program.ready().await;
        println!(
            "429 of the server itself: {refused} refusals, tried again after {again:?} at the earliest, all of {NAMES} names \
             written {took:?} after the last news; without a limit after {freely:?}"
        );
    }
}
