//! A PUT of a wildcard's status, by the number of its names: with the chart's definition, whose lists are atomic, and with OpenShift's,
//! whose lists are list-maps. That one has another API group here, so that one server has both. In each round both are written once, so the
//! ratio does not depend on how busy the machine is.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench fails loudly and prints its figures"
)]

use std::time::{Duration, Instant};

use kube::{Client, api::PostParams, client::Body, core::Request};
use names::{Limits, NameState, Observation, Provenance, StatusUpdate, Stored};
use proto::api::{DnsName, Family};
use runtime::clock::Timestamp;
use serde_json::{Value, json};
use tests::kube::{ApiServer, is_built, openshift_resolvers};

/// Names under the wildcard.
const SIZES: [usize; 4] = [1, 61, 201, 1_000];

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
        "status_writes: a PUT of a wildcard's names of two addresses each, of which one changed, of {ROUNDS} each"
    );
    println!(
        "{:>6}  {:<16} {:>8} {:>10} {:>8} {:>8} {:>10} {:>14}",
        "names",
        "definition",
        "min ms",
        "median ms",
        "p99 ms",
        "sent kB",
        "object kB",
        "managedFields"
    );
    for size in SIZES {
        let mut all = Vec::new();
        for (_, group) in FORMS {
            let namespace = server.namespace().await;
            all.push(Written::new(&client, group, &namespace, size).await);
        }
        for round in 0..ROUNDS {
            for turn in 0..all.len() {
                all[(turn + round) % FORMS.len()]
                    .change(&client, round)
                    .await;
            }
        }
        for ((name, _), written) in FORMS.iter().zip(&all) {
            println!("{size:>6}  {name:<16} {}", written.figures());
        }
    }
}

/// An object, as the server has it.
struct Written {
    requests: Request,
    object: Value,
    took: Vec<Duration>,
    sent: usize,
}

impl Written {
    async fn new(client: &Client, group: &str, namespace: &str, size: usize) -> Self {
        let path = format!("/apis/{group}/v1alpha1/namespaces/{namespace}/dnsnameresolvers");
        let requests = Request::new(path);
        let object = json!({
            "apiVersion": format!("{group}/v1alpha1"),
            "kind": "DNSNameResolver",
            "metadata": { "name": "a" },
            "spec": { "name": WILDCARD },
        });
        let made = requests.create(&PostParams::default(), object.to_string().into_bytes());
        let (_, object) = send(client, made.unwrap()).await;
        let mut written = Self {
            requests,
            object,
            took: Vec::new(),
            sent: 0,
        };
        written.object["status"] = status(size);
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
        let (sent, object) = send(client, request.unwrap()).await;
        assert_eq!(object["status"], self.object["status"]);
        (self.sent, self.object) = (sent, object);
    }

    fn figures(&self) -> String {
        let mut took = self.took.clone();
        took.sort();
        let ms = |part: usize| took[(took.len() - 1) * part / 100].as_secs_f64() * 1e3;
        let kb = |value: &Value| value.to_string().len() as f64 / 1e3;
        format!(
            "{:>8.1} {:>10.1} {:>8.1} {:>8.1} {:>10.1} {:>14.1}",
            ms(0),
            ms(50),
            ms(99),
            self.sent as f64 / 1e3,
            kb(&self.object),
            kb(&self.object["metadata"]["managedFields"]),
        )
    }
}

/// Returns the sent bytes, and the object.
async fn send(client: &Client, request: http::Request<Vec<u8>>) -> (usize, Value) {
    let sent = request.body().len();
    let answer = client.send(request.map(Body::from)).await.unwrap();
    let status = answer.status();
    let body = answer.into_body().collect_bytes().await.unwrap();
    assert!(status.is_success(), "{}", String::from_utf8_lossy(&body));
    (sent, serde_json::from_slice(&body).unwrap())
}

/// The status that the collector writes for so many names.
fn status(size: usize) -> Value {
    let name_of = |text: &str| DnsName::parse(text).unwrap();
    let now = Timestamp::from_millis(1_769_860_800_000);
    let mut state = NameState::new(name_of(WILDCARD));
    for i in 0..size {
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
