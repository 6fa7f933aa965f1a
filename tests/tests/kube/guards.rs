//! The networks and Nodes of the cluster itself: no answer may bring in their addresses.

use k8s_openapi::api::{
    core::v1::Node, discovery::v1::EndpointSlice, events::v1::Event, networking::v1::ServiceCIDR,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tests::{
    kube::{ADVERTISED, ApiServer},
    wait::eventually,
};

use crate::collectors::{Collector, Objects, allow};

const NAME: &str = "www.example.com.";

/// Longer than any test.
const TTL: u32 = 3600;

const REFUSED: &str = "egress_collector_addresses_refused_total";

/// Adds an address of the API server.
async fn add_endpoint(server: &ApiServer, address: &str) {
    let slices: Api<EndpointSlice> = Api::namespaced(server.client().await, "default");
    let slice = serde_json::from_value(json!({
        "metadata": {
            "name": "kubernetes-more",
            "labels": { "kubernetes.io/service-name": "kubernetes" },
        },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": [address] }],
        "ports": [{ "name": "https", "port": 6443, "protocol": "TCP" }],
    }));
    let made = slices.create(&PostParams::default(), &slice.unwrap()).await;
    made.unwrap();
}

async fn add_services(server: &ApiServer, name: &str, cidr: &str) {
    let cidrs: Api<ServiceCIDR> = Api::all(server.client().await);
    let object = serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": { "cidrs": [cidr] },
    }));
    let made = cidrs.create(&PostParams::default(), &object.unwrap()).await;
    made.unwrap();
}

async fn add_node(server: &ApiServer, name: &str, cidr: &str) {
    let nodes: Api<Node> = Api::all(server.client().await);
    let node = serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": { "podCIDR": cidr, "podCIDRs": [cidr] },
    }));
    let made = nodes.create(&PostParams::default(), &node.unwrap()).await;
    made.unwrap();
}

/// Sets a Node's own addresses, like its kubelet.
async fn set_status(server: &ApiServer, name: &str, addresses: &[(&str, &str)]) {
    let nodes: Api<Node> = Api::all(server.client().await);
    let address = |(kind, address): &(&str, &str)| json!({ "type": kind, "address": address });
    let status = json!({
        "status": {
            "addresses": addresses.iter().map(address).collect::<Vec<_>>(),
        },
    });
    let params = PatchParams::default();
    let patch = Patch::Merge(&status);
    nodes.patch_status(name, &params, &patch).await.unwrap();
}

async fn counts(collector: &Collector, metric: &str, reason: &str, wanted: f64) {
    eventually(&format!("{metric} of {reason} is {wanted}"), async || {
        let label = format!("reason=\"{reason}\"");
        match collector.metric(metric, &[&label]).await {
            found if found == wanted => Ok(()),
            found => Err(found.to_string()),
        }
    })
    .await;
}

/// The number of log lines with all of these parts.
fn lines(collector: &Collector, parts: &[&str]) -> usize {
    let messages = collector.program.messages();
    let lines = messages.iter().map(ToString::to_string);
    lines
        .filter(|line| parts.iter().all(|part| line.contains(part)))
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_brings_in_an_address_of_the_clusters_own() {
    // The networks apply to the whole server.
    let server = ApiServer::start().await;
    let namespace = server.namespace().await;
    add_node(&server, "a", "10.244.1.0/24").await;
    let mut collector = Collector::start(&server.kubeconfig(), &namespace, &[]).await;
    let objects = Objects::of(&server, &namespace).await;
    objects.make("www", NAME).await;
    allow(&server, &namespace, &[NAME]).await;
    let hear = async |collector: &mut Collector, ips: &[&str]| {
        let ips: Vec<_> = ips.iter().map(|ip| ip.parse().unwrap()).collect();
        collector.hears(NAME, &ips, TTL).await;
    };
    // The server's own ServiceCIDR is 10.96.0.0/16. 10.97 and 10.245 are still unused.
    let now = ["203.0.113.1", "10.97.0.7", "10.245.0.9", "198.51.100.9"];
    eventually("the answers are heard", async || {
        hear(&mut collector, &now).await;
        (objects.addresses(NAME).await?.len() == 4)
            .then_some(())
            .ok_or_else(|| "not yet".to_owned())
    })
    .await;
    for (ip, reason) in [
        (ADVERTISED, "api-server"),
        ("10.96.0.1", "service-cidr"),
        ("10.244.1.200", "pod-cidr"),
    ] {
        hear(&mut collector, &[ip, "203.0.113.1"]).await;
        counts(&collector, REFUSED, reason, 1.0).await;
    }
    add_endpoint(&server, "198.51.100.9").await;
    counts(&collector, REFUSED, "api-server", 2.0).await;
    objects.expect(NAME, &now[..3]).await;

    add_services(&server, "more", "10.97.0.0/16").await;
    objects.expect(NAME, &["203.0.113.1", "10.245.0.9"]).await;
    counts(&collector, REFUSED, "service-cidr", 2.0).await;
    add_node(&server, "b", "10.245.0.0/24").await;
    objects.expect(NAME, &["203.0.113.1"]).await;
    counts(&collector, REFUSED, "pod-cidr", 2.0).await;
    let said = lines(&collector, &["10.97.0.7", NAME, "service-cidr"]);
    assert_eq!(said, 1);

    // Once the network belongs to another Node, so do its addresses.
    let nodes: Api<Node> = Api::all(server.client().await);
    nodes.delete("b", &DeleteParams::default()).await.unwrap();
    eventually("the address is let in again", async || {
        hear(&mut collector, &["10.245.0.9"]).await;
        let found = objects.addresses(NAME).await?;
        (found.len() == 2)
            .then_some(())
            .ok_or_else(|| format!("{found:?}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_of_a_node_is_refused() {
    let server = ApiServer::start().await;
    let client = server.client().await;
    let namespace = server.namespace().await;
    add_node(&server, "a", "10.244.1.0/24").await;
    let addresses = [
        ("InternalIP", "198.51.100.1"),
        ("ExternalIP", "203.0.113.9"),
    ];
    set_status(&server, "a", &addresses).await;
    add_node(&server, "b", "10.244.2.0/24").await;
    let mut collector = Collector::start(&server.kubeconfig(), &namespace, &[]).await;
    let objects = Objects::of(&server, &namespace).await;
    objects.make("www", NAME).await;
    allow(&server, &namespace, &[NAME]).await;
    let ips = |texts: &[&str]| {
        texts
            .iter()
            .map(|ip| ip.parse().unwrap())
            .collect::<Vec<_>>()
    };
    let first = ips(&["203.0.113.1", "198.51.100.2"]);
    eventually("the answers are heard", async || {
        collector.hears(NAME, &first, TTL).await;
        (objects.addresses(NAME).await?.len() == 2)
            .then_some(())
            .ok_or_else(|| "not yet".to_owned())
    })
    .await;
    for (i, ip) in ["198.51.100.1", "203.0.113.9"].into_iter().enumerate() {
        collector.hears(NAME, &ips(&[ip, "203.0.113.1"]), TTL).await;
        counts(&collector, REFUSED, "node", (i + 1) as f64).await;
    }
    let events: Api<Event> = Api::namespaced(client, &namespace);
    eventually("an Event names the flag", async || {
        let all = events.list(&ListParams::default()).await;
        let all = all.map_err(|error| error.to_string())?.items;
        let mut notes = all.iter().filter_map(|event| {
            let is_it = event.reason.as_deref() == Some("AddressRefused");
            event.note.as_deref().filter(|_| is_it)
        });
        let named = notes.any(|it| it.contains("(node)") && it.contains("--allow-node-addresses"));
        named.then_some(()).ok_or_else(|| format!("{all:?}"))
    })
    .await;

    // A Node's new address is removed from the status.
    let of_b = [("InternalIP", "198.51.100.2")];
    set_status(&server, "b", &of_b).await;
    objects.expect(NAME, &["203.0.113.1"]).await;
    counts(&collector, REFUSED, "node", 3.0).await;
    assert_eq!(guarded(&collector).await, 3.0);
}

async fn guarded(collector: &Collector) -> f64 {
    let labels = ["purpose=\"node\""];
    collector
        .metric("egress_collector_guarded_networks", &labels)
        .await
}
