//! The definitions of DNSNameResolver: every writer works with the chart's, and the collector with OpenShift's.

use std::net::IpAddr;

use http::Method;
use kube::{Client, api::DeleteParams};
use serde_json::{Value, json};
use tests::{
    kube::{ApiServer, openshift_resolvers},
    wait::eventually,
};

use crate::collectors::{Collector, NEVER, Objects};

const WILDCARD: &str = "*.example.com.";

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

/// ovn-kubernetes and OpenShift's plugin write the object of a wildcard beside the collector.
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
    // ovn-kubernetes makes a deleted object again, and the collector writes its status again.
    let deleted = objects.api.delete("dns-a", &DeleteParams::default()).await;
    deleted.unwrap();
    raw.create_as_ovn_kubernetes("dns-a").await;
    expect(&objects, 5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_writer_works_with_the_definition_of_openshift() {
    let server = ApiServer::start().await;
    server.redefine_resolvers(openshift_resolvers()).await;
    every_writer_works(&server).await;
}
