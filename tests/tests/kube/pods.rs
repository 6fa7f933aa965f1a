//! Pods that bypass the cluster's DNS: noticed, reported, and looked up only as far as they are trusted.

use std::fs;

use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    core::v1::{Namespace, Pod, Service, ServiceAccount},
    events::v1::Event,
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use proto::api::EgressFirewall;
use serde_json::{Value, json};
use tests::{
    admin::get_over_unix, coredns::CoreDns, kube::ApiServer, network::Network, or_skip,
    wait::eventually, workdir::Workdir,
};

use crate::{
    collectors::{Collector, NEVER, Objects, allow, egress_firewall},
    history::addresses,
};

const NAME: &str = "www.example.com.";

/// A name server for pods, on port 53. It has a network of its own, because the machine may have a server on that port.
const COREFILE: &str = ".:{$DNS_PORT} .:53 {
    template IN A {
        answer \"{{ .Name }} 1 IN A 198.51.100.99\"
    }
}
";

async fn make_pod(pods: &Api<Pod>, name: &str, dns: Value) {
    let mut spec = json!({
        "automountServiceAccountToken": false,
        "containers": [{ "name": "c", "image": "c" }],
    });
    for (key, value) in dns.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let pod = json!({ "metadata": { "name": name }, "spec": spec });
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    // No kubelet runs it here.
    let running = json!({ "status": { "phase": "Running" } });
    let params = PatchParams::default();
    let running = Patch::Merge(running);
    pods.patch_status(name, &params, &running).await.unwrap();
}

async fn make_namespace(client: &Client, name: &str) {
    let post = PostParams::default();
    let namespace = json!({ "metadata": { "name": name } });
    let namespace = serde_json::from_value(namespace).unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&post, &namespace).await.unwrap();
    let account = serde_json::from_value(json!({ "metadata": { "name": "default" } })).unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), name);
    accounts.create(&post, &account).await.unwrap();
}

fn asking(server: &str) -> Value {
    json!({ "dnsPolicy": "None", "dnsConfig": { "nameservers": [server] } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_that_bypass_cluster_dns_are_reported_and_queried_if_trusted() {
    let workdir = Workdir::new();
    let network = or_skip!(Network::new(workdir.path()).await);
    fs::write(workdir.join("Corefile"), COREFILE).unwrap();
    let _trusted = CoreDns::start_in(workdir.path(), &network).await;
    let trusted = network.inside().to_string();
    let server = ApiServer::shared().await;
    let namespace = server.namespace().await;
    let client = server.client().await;
    let team = format!("{namespace}-team");
    make_namespace(&client, &team).await;
    let post = PostParams::default();
    let services: Api<Service> = Api::namespaced(client.clone(), &namespace);
    let dns = json!({
        "metadata": { "name": "dns" },
        "spec": { "ports": [{ "name": "dns", "port": 53, "protocol": "UDP" }] },
    });
    let dns = serde_json::from_value(dns).unwrap();
    let dns = services.create(&post, &dns).await.unwrap();
    let cluster_ip = dns.spec.unwrap().cluster_ip.unwrap();

    let inspect = workdir.join("inspect.sock");
    let flags = [
        "--manage-objects",
        "always",
        "--resolver-service",
        &format!("{namespace}/dns"),
        "--trusted-nameserver",
        &format!("{trusted}/32"),
        "--inspect",
        &format!("unix://{}", inspect.display()),
    ];
    let collector = Collector::start(&server.kubeconfig(), &namespace, &flags).await;
    collector.expect_leading(true).await;
    collector.nameserver.set(NAME, &["198.51.100.1"], 1);
    let counts = async |wanted: [f64; 3]| {
        eventually(&format!("{wanted:?} pods"), async || {
            let mut found = [0.0; 3];
            for (count, whose) in found.iter_mut().zip(["trusted", "node", "foreign"]) {
                let labels = [&*format!("name_servers=\"{whose}\"")];
                *count = collector
                    .metric("egress_collector_bypassing_pods", &labels)
                    .await;
            }
            (found == wanted).then_some(()).ok_or(format!("{found:?}"))
        })
        .await;
    };

    let pods: Api<Pod> = Api::namespaced(client.clone(), &team);
    make_pod(&pods, "foreign", asking("203.0.113.9")).await;
    // Without a rule by name no pods are watched.
    counts([0.0; 3]).await;
    allow(&server, &team, &[NAME]).await;
    counts([0.0, 0.0, 1.0]).await;
    make_pod(&pods, "plain", json!({})).await;
    make_pod(&pods, "same", asking(&cluster_ip)).await;
    make_pod(
        &pods,
        "host",
        json!({ "hostNetwork": true, "dnsPolicy": "Default" }),
    )
    .await;
    make_pod(&pods, "node", json!({ "dnsPolicy": "Default" })).await;
    make_pod(&pods, "trusted", asking(&trusted)).await;
    counts([1.0, 1.0, 1.0]).await;

    let (_, text) = get_over_unix(&inspect, "/status.json").await.unwrap();
    let status: Value = serde_json::from_str(&text).unwrap();
    let shown = status["pods"]["pods"].as_array().unwrap();
    let of = |name: &str| {
        let pod = format!("{team}/{name}");
        shown.iter().find(|shown| shown["pod"] == *pod).cloned()
    };
    assert_eq!(of("foreign").unwrap()["nameServers"][0], "203.0.113.9");
    assert!(of("plain").is_none() && of("same").is_none() && of("host").is_none());

    let events: Api<Event> = Api::namespaced(client.clone(), &team);
    let firewalls: Api<EgressFirewall> = Api::namespaced(client, &team);
    let about = firewalls.get("default").await.unwrap().metadata.uid;
    eventually("the author of the rule is told", async || {
        let found = events.list(&ListParams::default()).await.unwrap().items;
        let told = |reason: &str, words: &str| {
            found.iter().any(|event| {
                event.reason.as_deref() == Some(reason)
                    && event.regarding.as_ref().and_then(|it| it.uid.as_ref()) == about.as_ref()
                    && event.note.as_ref().is_some_and(|note| note.contains(words))
            })
        };
        let is_told = told("ForeignNameServers", "the node's, 203.0.113.9");
        is_told.then_some(()).ok_or_else(|| format!("{found:?}"))
    })
    .await;

    let has = async |wanted: bool| {
        let objects = Objects::of(&server, &namespace).await;
        eventually(
            &format!("what the trusted server says: {wanted}"),
            async || {
                let all = objects
                    .api
                    .list(&ListParams::default())
                    .await
                    .unwrap()
                    .items;
                let known: Vec<_> = all.iter().flat_map(addresses).collect();
                let has = |ip: &str| known.iter().any(|(_, it)| it == ip);
                (has("198.51.100.1") && has("198.51.100.99") == wanted)
                    .then_some(())
                    .ok_or_else(|| format!("{known:?}"))
            },
        )
        .await;
    };
    has(true).await;
    let now = DeleteParams::default().grace_period(0);
    for name in ["trusted", "node", "foreign"] {
        pods.delete(name, &now).await.unwrap();
    }
    counts([0.0; 3]).await;
    has(false).await;
}

/// Each namespace with rules has a watch of its pods, as long as there are few.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_are_known_however_many_namespaces_have_rules() {
    const NAMESPACES: usize = 520;
    let server = ApiServer::start().await;
    let namespace = server.namespace().await;
    let client = server.client().await;
    let team = |i: usize| format!("team-{i:03}");
    for i in [0, NAMESPACES - 1, NAMESPACES] {
        make_namespace(&client, &team(i)).await;
        let pods: Api<Pod> = Api::namespaced(client.clone(), &team(i));
        make_pod(&pods, "node", json!({ "dnsPolicy": "Default" })).await;
    }
    let collector = Collector::start(&server.kubeconfig(), &namespace, &NEVER).await;
    collector.expect_leading(true).await;
    let count = async |wanted: f64| {
        eventually(&format!("{wanted} pods"), async || {
            let labels = ["name_servers=\"node\""];
            let found = collector
                .metric("egress_collector_bypassing_pods", &labels)
                .await;
            (found == wanted).then_some(()).ok_or(format!("{found}"))
        })
        .await;
    };
    allow(&server, &team(0), &[NAME]).await;
    count(1.0).await;
    stream::iter(1..NAMESPACES)
        .map(async |i| {
            if i < NAMESPACES - 1 {
                make_namespace(&client, &team(i)).await;
            }
            let firewalls: Api<EgressFirewall> = Api::namespaced(client.clone(), &team(i));
            let post = PostParams::default();
            firewalls.create(&post, &egress_firewall(&[NAME])).await
        })
        .buffer_unordered(8)
        .try_collect::<Vec<_>>()
        .await
        .unwrap();
    count(2.0).await;
    // Its pods were read before it had rules.
    allow(&server, &team(NAMESPACES), &[NAME]).await;
    count(3.0).await;
    let pods: Api<Pod> = Api::namespaced(client, &team(NAMESPACES - 1));
    let now = DeleteParams::default().grace_period(0);
    pods.delete("node", &now).await.unwrap();
    count(2.0).await;
}
