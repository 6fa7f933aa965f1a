//! The roles of the chart allow exactly the programs' requests to a cluster.

use std::collections::BTreeSet;

use collector::cluster::endpoints::Discovery;
use collector::cluster::reading::Reading;
use futures_util::StreamExt;
use kube::{Resource, ResourceExt, api::DynamicObject};
use proto::api::{DnsNameResolver, EgressFirewall};
use runtime::{
    OpenStore,
    cluster::{Cluster, KubeStore},
    kube_events::{Reporter, Severity},
    leader::Leadership,
    store::{
        Event, ObjectKey, Precondition, Scope, Store, StoreError,
        contract::{next, resolver, status, watch},
    },
};
use serde_json::Value;
use tests::{
    chart::{self, CENTRAL, COLLECTOR, OVN_WRITER, kind_of},
    kube::ApiServer,
    wait::eventually,
};
use tokio_util::sync::CancellationToken;

use crate::cluster::key;

const NAMESPACE: &str = "ovn-kubernetes";

/// (verb, resource) of every rule for an account: its roles begin with its name.
pub(crate) fn allowed(objects: &[DynamicObject], account: &str) -> BTreeSet<(String, String)> {
    let mut allowed = BTreeSet::new();
    for object in objects {
        let is_role = ["Role", "ClusterRole"].contains(&kind_of(object));
        if !is_role || !object.name_any().starts_with(account) {
            continue;
        }
        // Such as aggregate-to-edit, which would give every editor the right to write statuses.
        let mut labels = object.labels().keys();
        let aggregates = labels.any(|label| label.starts_with("rbac.authorization.k8s.io/"));
        assert!(!aggregates && object.data.get("aggregationRule").is_none());
        for rule in object.data["rules"].as_array().unwrap() {
            for resource in rule["resources"].as_array().unwrap() {
                for verb in rule["verbs"].as_array().unwrap() {
                    let text = |value: &Value| value.as_str().unwrap().to_owned();
                    allowed.insert((text(verb), text(resource)));
                }
            }
        }
    }
    allowed
}

async fn store_of(server: &ApiServer, account: &str) -> KubeStore {
    let config = server.config_of(NAMESPACE, account).await;
    KubeStore::new(Cluster::of(config, "collector").unwrap())
}

async fn is_forbidden<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    let Err(StoreError::Invalid { reason, .. }) = &result else {
        panic!("{result:?}");
    };
    assert!(reason.contains("is forbidden"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_roles_are_those_that_are_used() {
    let server = ApiServer::start().await;
    // Without the CRD there is nothing to watch.
    server.install_user_defined_networks().await;
    server.make_namespace(NAMESPACE).await;
    server.make_namespace("openshift-dns").await;
    // The largest roles that any values produce.
    let services = r#"dns.services=[{"namespace":"kube-system","name":"kube-dns"},{"namespace":"openshift-dns","name":"dns-default"}]"#;
    let flags = [&["--set-json", services], &CENTRAL[..]].concat();
    server.grant(NAMESPACE, &flags).await;
    let chart = chart::render(NAMESPACE, &flags);
    let store = store_of(&server, COLLECTOR).await;

    // The collector's requests.
    let mut firewalls = watch::<EgressFirewall, _>(&store, Scope::All);
    assert_eq!(next(&mut firewalls).await, Event::Synced(Vec::new()));
    let mut resolvers = watch::<DnsNameResolver, _>(&store, Scope::Namespace(NAMESPACE.to_owned()));
    assert_eq!(next(&mut resolvers).await, Event::Synced(Vec::new()));
    let mut made = store.create(&resolver(NAMESPACE, "a")).await.unwrap();
    assert_eq!(next(&mut resolvers).await, Event::Applied(made.clone()));
    made.status = Some(status(&["www.example.com."]));
    store.replace_status(&made).await.unwrap();
    let key = key(NAMESPACE, "a");
    store.get::<DnsNameResolver>(&key).await.unwrap();

    let token = CancellationToken::new();
    let open = OpenStore::Kube(store.clone());
    let leadership = Leadership::of(&open, NAMESPACE, "collector");
    let leader = leadership.leader();
    let dns_services: [ObjectKey; 2] =
        ["kube-system/kube-dns", "openshift-dns/dns-default"].map(|it| it.parse().unwrap());
    let discovery = Discovery::new(store.cluster(), &dns_services);
    let mut found = discovery.found();
    let ours = format!("{NAMESPACE}/{COLLECTOR}").parse().unwrap();
    let peers = Discovery::of_hosts(store.cluster(), &[ours]);
    let mut alive = peers.found();
    let reading = Reading::new(store.cluster());
    let mut networks = reading.found();
    let tasks = [
        tokio::spawn(leadership.run(token.clone())),
        tokio::spawn(discovery.run(token.clone())),
        tokio::spawn(reading.run(token.clone())),
        tokio::spawn(peers.run(token.clone())),
    ];
    let (reporter, reporting) = Reporter::new(&open);
    let reporting = tokio::spawn(reporting.run(token.clone()));
    reporter.report(made.object_ref(&()), Severity::Normal, "Test", "a test");
    eventually("it leads", async || {
        leader.is_leading().then_some(()).ok_or_else(String::new)
    })
    .await;
    found.wait_for(Option::is_some).await.unwrap();
    networks.wait_for(Option::is_some).await.unwrap();
    alive.wait_for(Option::is_some).await.unwrap();
    store
        .delete::<DnsNameResolver>(&key, &Precondition::default())
        .await
        .unwrap();

    let user = format!("system:serviceaccount:{NAMESPACE}:{COLLECTOR}");
    let expected = allowed(&chart, COLLECTOR);
    eventually("all of it is used", async || {
        // A watch sends its request when it is polled.
        let _event = futures_util::poll!(firewalls.next());
        let mut asked = server.asked_by(&user);
        // A patch that makes an Event needs this verb, too.
        asked.insert(("create".to_owned(), "events".to_owned()));
        match asked == expected {
            true => Ok(()),
            false => Err(format!("asked {asked:?}, allowed {expected:?}")),
        }
    })
    .await;

    // Requests that must fail.
    is_forbidden(store.create(&resolver("default", "a")).await).await;
    token.cancel();
    for task in tasks.into_iter().chain([reporting]) {
        task.await.unwrap().unwrap();
    }

    // The ovn-writer's requests, and those that must fail.
    let store = store_of(&server, OVN_WRITER).await;
    let mut resolvers = watch::<DnsNameResolver, _>(&store, Scope::Namespace(NAMESPACE.to_owned()));
    assert!(matches!(next(&mut resolvers).await, Event::Synced(_)));
    let user = format!("system:serviceaccount:{NAMESPACE}:{OVN_WRITER}");
    let expected = allowed(&chart, OVN_WRITER);
    let token = CancellationToken::new();
    let leadership = Leadership::of(&OpenStore::Kube(store.clone()), NAMESPACE, "ovn-writer");
    let contest = tokio::spawn(leadership.run(token.clone()));
    eventually("all of it is used", async || {
        let _event = futures_util::poll!(resolvers.next());
        let asked = server.asked_by(&user);
        match asked == expected {
            true => Ok(()),
            false => Err(format!("asked {asked:?}, allowed {expected:?}")),
        }
    })
    .await;
    is_forbidden(store.create(&resolver(NAMESPACE, "a")).await).await;
    is_forbidden(store.replace_status(&made).await).await;
    token.cancel();
    contest.await.unwrap().unwrap();
}
