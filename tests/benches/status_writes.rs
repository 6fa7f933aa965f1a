//! A PUT of a wildcard's status: with the chart's definition, whose lists are atomic, and with OpenShift's,
//! whose lists are list-maps. That one has another API group here, so that one server has both. In each round both are written once, so the
//! ratio does not depend on how busy the machine is.

use std::time::Instant;

use kube::{Client, api::PostParams, client::Body, core::Request};
use names::{Limits, NameState, Observation, Provenance, StatusUpdate, Stored};
use proto::api::{DnsName, Family};
use runtime::clock::Timestamp;
use serde_json::{Value, json};
use tests::{
    kube::{ApiServer, is_built, openshift_resolvers},
    times::Times,
};

/// Names under the wildcard.
const NAMES: usize = 201;

const ROUNDS: usize = 41;

/// The group of the definition with list-maps.
const MAPS: &str = "list-maps.example";

/// The names of the definitions, and their groups.
const FORMS: [(&str, &str); 2] = [
    ("the chart's CRD", "network.openshift.io"),
    ("OpenShift's CRD", MAPS),
];

const WILDCARD: &str = "*.up.example.com.";

#[tokio::main(flavor = "current_thread")]
async fn main() {
    if !is_built() {
        println!("status_writes: skipped, as there is no kube-apiserver: run scripts/setup");
        return;
    }
    let server = ApiServer::start().await;
    let mut maps = openshift_resolvers();
    maps.spec.group = MAPS.to_owned();
    maps.metadata.name = Some(format!("{}.{MAPS}", maps.spec.names.plural));
    server.define(&maps).await;
    let client = server.client().await;
    println!(
        "status_writes: {ROUNDS} PUTs of a wildcard's {NAMES} names of two addresses each, of which one changed"
    );
    let mut all = Vec::new();
    for (_, group) in FORMS {
        let namespace = server.namespace().await;
        all.push(Written::new(&client, group, &namespace).await);
    }
    for round in 0..ROUNDS {
        for turn in 0..all.len() {
            let written = &mut all[(turn + round) % FORMS.len()];
            written.change(&client, round).await;
        }
    }
    for ((name, _), mut written) in FORMS.into_iter().zip(all) {
        let ms = written.took.median() / 1e3;
        let kb = written.object.to_string().len() as f64 / 1e3;
        println!("{name:<16} {ms:.1} ms, an object of {kb:.0} kB");
    }
}

/// An object, as the server has it.
struct Written {
    requests: Request,
    object: Value,
    took: Times,
}

impl Written {
    async fn new(client: &Client, group: &str, namespace: &str) -> Self {
        let path = format!("/apis/{group}/v1alpha1/namespaces/{namespace}/dnsnameresolvers");
        let requests = Request::new(path);
        let object = json!({
            "apiVersion": format!("{group}/v1alpha1"),
            "kind": "DNSNameResolver",
            "metadata": { "name": "a" },
            "spec": { "name": WILDCARD },
        });
        let made = requests.create(&PostParams::default(), object.to_string().into_bytes());
        let object = send(client, made.unwrap()).await;
        let mut written = Self {
            requests,
            object,
            took: Times::default(),
        };
        written.object["status"] = status();
        written.put(client).await;
        written
    }

    /// Replaces an address of a name.
    async fn change(&mut self, client: &Client, round: usize) {
        let names = &mut self.object["status"]["resolvedNames"];
        let at = round % names.as_array().map_or(1, Vec::len);
        let ip = format!("2001:db8::{round:x}:{at:x}");
        names[at]["resolvedAddresses"][1]["ip"] = ip.into();
        let started = Instant::now();
        self.put(client).await;
        self.took.push(started.elapsed());
    }

    async fn put(&mut self, client: &Client) {
        let version = &self.object["metadata"]["resourceVersion"];
        let body = json!({
            "apiVersion": self.object["apiVersion"],
            "kind": self.object["kind"],
            "metadata": { "name": "a", "resourceVersion": version },
            "status": self.object["status"],
        });
        let put = PostParams {
            field_manager: Some("bench".to_owned()),
            ..PostParams::default()
        };
        let body = body.to_string().into_bytes();
        let request = self.requests.replace_subresource("status", "a", &put, body);
        let object = send(client, request.unwrap()).await;
        assert_eq!(object["status"], self.object["status"]);
        self.object = object;
    }
}

/// Returns the object.
async fn send(client: &Client, request: http::Request<Vec<u8>>) -> Value {
    let answer = client.send(request.map(Body::from)).await.unwrap();
    let status = answer.status();
    let body = answer.into_body().collect_bytes().await.unwrap();
    assert!(status.is_success(), "{}", String::from_utf8_lossy(&body));
    serde_json::from_slice(&body).unwrap()
}

/// The status that the collector writes.
fn status() -> Value {
    let name_of = |text: &str| DnsName::parse(text).unwrap();
    let now = Timestamp::from_millis(1_769_860_800_000);
    let mut state = NameState::new(name_of(WILDCARD));
    for i in 0..NAMES {
        let [high, low] = u16::try_from(i).unwrap().to_be_bytes();
        let addresses = [1, 2].map(|last| ([198, last, high, low].into(), 300));
        let observation = Observation {
            name: name_of(&format!("host{i}.up.example.com.")),
            family: Family::V4,
            addresses: addresses.into_iter().collect(),
            at: now,
            server_time: None,
            answered_at: now,
            client: Some([10, 0, 0, 1].into()),
            truncated: false,
            source: Provenance::STREAM,
        };
        state.observe(&observation, &Limits::default());
    }
    let update = StatusUpdate::new(&mut state, &Stored::default(), &Limits::default(), now);
    serde_json::to_value(update.unwrap().status()).unwrap()
}
