//! The definitions of DNSNameResolver: every writer works with the chart's, and the collector with OpenShift's.

use std::net::IpAddr;

use http::Method;
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use names::{Limits, NameState, Observation, Provenance, StatusUpdate, Stored};
use proto::api::{DnsName, DnsNameResolver, Family, custom_resource_definitions};
use runtime::clock::Timestamp;
use serde_json::{Value, json};
use tests::{
    kube::{ApiServer, openshift_resolvers},
    wait::eventually,
};

use crate::{
    cluster::key,
    collectors::{Collector, NEVER, Objects},
    foreign::somebody_else,
    soak::openshift::reap,
};

const WILDCARD: &str = "*.example.com.";

/// The bytes of `managedFields` of an object that the collector writes, at most.
const MANAGED: usize = 800;

/// Requests as other programs send them: without the types of this project.
struct Raw {
    client: Client,
    path: String,
}

impl Raw {
    async fn of(server: &ApiServer, namespace: &str) -> Self {
        Self {
            client: server.client().await,
            path: format!(
                "/apis/network.openshift.io/v1alpha1/namespaces/{namespace}/dnsnameresolvers"
            ),
        }
    }

    async fn send(&self, method: Method, more: &str, body: &Value) -> Result<Value, kube::Error> {
        let request = http::Request::builder()
            .method(method)
            .uri(format!("{}{more}", self.path))
            .header("content-type", "application/json")
            .body(serde_json::to_vec(body).unwrap())
            .unwrap();
        self.client.request(request).await
    }

    /// ovn-kubernetes' `createDNSNameResolver`: the form of client-go, with an empty status.
    async fn create_as_ovn_kubernetes(&self, name: &str) {
        let object = json!({
            "kind": "DNSNameResolver",
            "apiVersion": "network.openshift.io/v1alpha1",
            "metadata": { "name": name, "creationTimestamp": null },
            "spec": { "name": WILDCARD },
            "status": {},
        });
        let made = self.send(Method::POST, "", &object).await;
        made.unwrap();
    }

    async fn get(&self, name: &str) -> Value {
        let request = http::Request::get(format!("{}/{name}", self.path));
        let request = request.body(Vec::new()).unwrap();
        self.client.request(request).await.unwrap()
    }

    /// OpenShift's plugin, `updateResolvedNamesSuccess`: it reads the object, changes its status, and writes all of it
    /// back, `managedFields` included. It appends a name with a condition, or gives one to a name that has none.
    async fn resolve_as_plugin(&self, object: &str, name: &str, ip: &str) {
        eventually("the plugin writes", async || {
            let mut new = self.get(object).await;
            let now = k8s_openapi::jiff::Timestamp::now().as_second();
            let now = k8s_openapi::jiff::Timestamp::from_second(now)
                .unwrap()
                .to_string();
            let condition = json!({
                "type": "Degraded", "status": "False", "reason": "NOERROR", "message": "No Error",
                "lastTransitionTime": now,
            });
            let names = new["status"]["resolvedNames"].as_array_mut().unwrap();
            match names.iter_mut().find(|it| it["dnsName"] == name) {
                Some(known) => known["conditions"] = json!([condition]),
                None => names.push(json!({
                    "conditions": [condition],
                    "dnsName": name,
                    "resolvedAddresses": [{ "ip": ip, "ttlSeconds": 600, "lastLookupTime": now }],
                })),
            }
            let written = self
                .send(Method::PUT, &format!("/{object}/status"), &new)
                .await;
            written.map(drop).map_err(|error| error.to_string())
        })
        .await;
    }

    /// The length of `managedFields`.
    async fn managed(&self, name: &str) -> usize {
        let object = self.get(name).await;
        object["metadata"]["managedFields"].to_string().len()
    }
}

fn ip(i: u8) -> IpAddr {
    [10, 1, 0, i].into()
}

/// Waits until the object has the addresses 1 to `count`.
async fn expect(objects: &Objects, count: u8) {
    let all: Vec<_> = (1..=count).map(|i| ip(i).to_string()).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    eventually("all addresses", async || {
        let found = objects.addresses(WILDCARD).await?;
        let found: Vec<_> = found.into_iter().map(|(_, ip)| ip).collect();
        let missing: Vec<_> = all
            .iter()
            .filter(|ip| !found.iter().any(|it| it == *ip))
            .collect();
        missing
            .is_empty()
            .then_some(())
            .ok_or_else(|| format!("{missing:?}"))
    })
    .await;
}

/// ovn-kubernetes, OpenShift's plugin and its operator write the object of a wildcard beside the collector.
async fn every_writer_works(server: &ApiServer) {
    let namespace = server.namespace().await;
    let objects = Objects::of(server, &namespace).await;
    let raw = Raw::of(server, &namespace).await;
    raw.create_as_ovn_kubernetes("dns-a").await;
    let mut collector = Collector::start(&server.kubeconfig(), &namespace, &NEVER).await;
    for i in 1..=3 {
        let name = format!("n{i}.example.com.");
        collector.hears(&name, &[ip(i)], 600).await;
    }
    expect(&objects, 3).await;
    // The plugin adds a name, and gives a condition to one of the collector's.
    raw.resolve_as_plugin("dns-a", "n4.example.com.", "10.1.0.4")
        .await;
    raw.resolve_as_plugin("dns-a", "n1.example.com.", "10.1.0.1")
        .await;
    collector.hears("n5.example.com.", &[ip(5)], 600).await;
    expect(&objects, 5).await;
    let degraded: Vec<Value> = {
        let object = raw.get("dns-a").await;
        let names = object["status"]["resolvedNames"].as_array().unwrap();
        let has = |name: &&Value| name["conditions"].is_array();
        names
            .iter()
            .filter(has)
            .map(|it| it["dnsName"].clone())
            .collect()
    };
    assert_eq!(
        degraded,
        ["n1.example.com.", "n4.example.com."],
        "the plugin's stay"
    );
    // The operator removes addresses whose stored time is over. The collector knows better.
    let store = somebody_else(server).await;
    let object = key(&namespace, "dns-a");
    eventually("the operator removes an address", async || {
        let mut old = raw.get("dns-a").await;
        old["status"]["resolvedNames"][4]["resolvedAddresses"] = json!([
            { "ip": "10.1.0.5", "ttlSeconds": 600, "lastLookupTime": "2026-01-01T00:00:00Z" },
        ]);
        let written = raw.send(Method::PUT, "/dns-a/status", &old).await;
        written.map_err(|error| error.to_string())?;
        let removed = reap(&store, &object).await;
        (removed == 1)
            .then_some(())
            .ok_or_else(|| removed.to_string())
    })
    .await;
    expect(&objects, 5).await;
    // ovn-kubernetes makes a deleted object again, and the collector writes its status again.
    let deleted = objects.api.delete("dns-a", &DeleteParams::default()).await;
    deleted.unwrap();
    raw.create_as_ovn_kubernetes("dns-a").await;
    expect(&objects, 5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_writer_works_with_the_definition_of_the_chart() {
    every_writer_works(&*ApiServer::shared().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_writer_works_with_the_definition_of_openshift() {
    let server = ApiServer::start().await;
    server.redefine_resolvers(openshift_resolvers()).await;
    every_writer_works(&server).await;
}

/// Names and addresses of a status, 40 of each.
fn many() -> Value {
    let entry = |i: u8| {
        json!({
            "dnsName": format!("n{i}.example.com."),
            "resolvedAddresses": [{
                "ip": ip(i), "ttlSeconds": 600, "lastLookupTime": "2026-01-01T00:00:00Z",
            }],
        })
    };
    json!({ "resolvedNames": (1..=40).map(entry).collect::<Vec<_>>() })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn managed_fields_stay_small_also_of_objects_from_before_the_upgrade() {
    let server = ApiServer::start().await;
    server.redefine_resolvers(openshift_resolvers()).await;
    let namespace = server.namespace().await;
    let raw = Raw::of(&server, &namespace).await;
    raw.create_as_ovn_kubernetes("dns-a").await;
    let write = async || {
        let mut object = raw.get("dns-a").await;
        let few = raw.managed("dns-a").await;
        object["status"] = many();
        let written = raw.send(Method::PUT, "/dns-a/status", &object).await;
        written.unwrap();
        (few, raw.managed("dns-a").await)
    };
    let (few, maps) = write().await;
    assert!(maps > few + 40 * 150, "{maps} with list-maps, {few} before");

    let [chart, _] = custom_resource_definitions();
    server.redefine_resolvers(chart).await;
    let objects: Api<DnsNameResolver> = Api::namespaced(server.client().await, &namespace);
    let mut object = objects.get("dns-a").await.unwrap();
    object.status.as_mut().unwrap().resolved_names.pop();
    let params = PostParams::default();
    let written = objects.replace_status("dns-a", &params, &object).await;
    written.unwrap();
    let (atomic, again) = (raw.managed("dns-a").await, write().await.1);
    assert!(atomic < MANAGED, "{atomic} after the upgrade");
    assert!(again < MANAGED, "{again} with more names");
}

/// The status of a wildcard with names of two addresses, and the bytes that it counts as.
fn wide(names: u8) -> (usize, Value) {
    let now = Timestamp::from_millis(1_800_000_000_000);
    let limits = Limits::default();
    let mut state = NameState::new(DnsName::parse(WILDCARD).unwrap());
    for i in 0..names {
        let observation = Observation {
            name: DnsName::parse(&format!("host-{i:04}.example.com.")).unwrap(),
            family: Family::V4,
            // The longest texts.
            addresses: [1, 2]
                .map(|last| ([203, 100 + i, 113, 100 + last].into(), 86_400))
                .into_iter()
                .collect(),
            at: now,
            server_time: None,
            answered_at: now,
            client: None,
            truncated: false,
            source: Provenance::STREAM,
        };
        state.observe(&observation, &limits);
    }
    let update = StatusUpdate::new(&mut state, &Stored::default(), &limits, now).unwrap();
    (
        update.bytes(),
        serde_json::to_value(update.status()).unwrap(),
    )
}

/// The bytes of an object with this status, as the server has it.
async fn stored(raw: &Raw, name: &str, status: Value) -> usize {
    raw.create_as_ovn_kubernetes(name).await;
    let mut object = raw.get(name).await;
    object["status"] = status;
    let written = raw
        .send(Method::PUT, &format!("/{name}/status"), &object)
        .await;
    written.unwrap().to_string().len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_counts_as_about_as_many_bytes_as_the_object_has_with_list_maps() {
    let server = ApiServer::start().await;
    server.redefine_resolvers(openshift_resolvers()).await;
    let namespace = server.namespace().await;
    let raw = Raw::of(&server, &namespace).await;
    let (estimate, status) = wide(100);
    let bytes = stored(&raw, "wide", status).await;
    assert!(
        bytes <= estimate && bytes * 2 >= estimate,
        "{bytes} bytes, counted as {estimate}"
    );
}
