//! A PUT of a wildcard's status, by the number of its names, in three forms side by side:
//!
//! - as at commit dd7369f: each name has a condition, and the lists of the definition are list-maps,
//! - as the collector writes it now, with OpenShift's definition, whose lists are list-maps,
//! - as the collector writes it now, with the chart's definition, whose lists are atomic.
//!
//! The definition with list-maps has another API group, so that one server has both. In each round every form is written
//! once, so the ratios do not depend on how busy the machine is.

use std::time::{Duration, Instant};

use kube::core::Request;
use names::{Limits, NameState, Observation, Provenance, StatusUpdate, Stored};
use proto::api::{DnsName, Family};
use runtime::clock::Timestamp;
use serde_json::{Value, json};
use tests::kube::{ApiServer, openshift_resolvers};

use super::{Way, address, send, write};

/// Names under the wildcard.
const SIZES: [usize; 4] = [1, 61, 201, 1_000];

const ROUNDS: usize = 41;

/// The group of the definition with list-maps.
const MAPS: &str = "list-maps.example";

/// The chart's definition.
const ATOMIC: &str = "network.openshift.io";

/// The time of a PUT, of the time with the form of dd7369f.
const LIMIT: f64 = 0.4;

/// From this many names on the limit holds.
const LIMITED_FROM: usize = 201;

const WILDCARD: &str = "*.up.example.com.";

struct Form {
    name: &'static str,
    group: &'static str,
    status: fn(usize) -> Value,
}

const FORMS: [Form; 3] = [
    Form {
        name: "dd7369f",
        group: MAPS,
        status: status_of_dd7369f,
    },
    Form {
        name: "now, OpenShift's CRD",
        group: MAPS,
        status: status_now,
    },
    Form {
        name: "now, the chart's CRD",
        group: ATOMIC,
        status: status_now,
    },
];

/// The object of a form, as the server has it.
struct Written {
    requests: Request,
    object: Value,
    took: Vec<Duration>,
    sent: usize,
}

/// Prints the figures. Returns whether the limit holds.
pub(crate) async fn measure(server: &ApiServer) -> bool {
    let mut maps = openshift_resolvers();
    maps.spec.group = MAPS.to_owned();
    maps.metadata.name = Some(format!("{}.{MAPS}", maps.spec.names.plural));
    server.define(&maps).await;
    println!(
        "status_writes: a PUT of a wildcard's names of two addresses each, of which one changed, of {ROUNDS} each"
    );
    println!(
        "{:>6}  {:<22} {:>8} {:>10} {:>8} {:>8} {:>10} {:>14} {:>15}",
        "names",
        "form",
        "min ms",
        "median ms",
        "p99 ms",
        "sent kB",
        "object kB",
        "managedFields",
        "median/dd7369f"
    );
    let mut holds = true;
    for size in SIZES {
        let mut all = Vec::new();
        for form in &FORMS {
            all.push(make(server, form, size).await);
        }
        let client = server.client().await;
        for round in 0..ROUNDS {
            for turn in 0..all.len() {
                // None is always written after the same other one.
                let count = all.len();
                all[(turn + round) % count].change(&client, round).await;
            }
        }
        let before = all[0].median();
        for (form, written) in FORMS.iter().zip(&all) {
            let ratio = written.median().as_secs_f64() / before.as_secs_f64();
            println!(
                "{size:>6}  {:<22} {} {ratio:>15.2}",
                form.name,
                written.figures()
            );
            holds &= form.group != ATOMIC || size < LIMITED_FROM || ratio <= LIMIT;
        }
    }
    println!(
        "from {LIMITED_FROM} names on, at most {LIMIT} of dd7369f with the chart's CRD: {}",
        if holds { "holds" } else { "does not hold" }
    );
    holds
}

async fn make(server: &ApiServer, form: &Form, size: usize) -> Written {
    let namespace = server.namespace().await;
    let group = form.group;
    let path = format!("/apis/{group}/v1alpha1/namespaces/{namespace}/dnsnameresolvers");
    let requests = Request::new(path);
    let object = json!({
        "apiVersion": format!("{group}/v1alpha1"),
        "kind": "DNSNameResolver",
        "metadata": { "name": "a" },
        "spec": { "name": WILDCARD },
    });
    let client = server.client().await;
    let made = requests.create(&Default::default(), object.to_string().into_bytes());
    let (_, mut object) = send(&client, made).await;
    object["status"] = (form.status)(size);
    let (sent, object) = write(&client, &requests, Way::Put, &object, 0).await;
    assert_eq!(object["status"], (form.status)(size));
    Written {
        requests,
        object,
        took: Vec::new(),
        sent,
    }
}

impl Written {
    /// Replaces the last address of a name.
    async fn change(&mut self, client: &kube::Client, round: usize) {
        let names = &mut self.object["status"]["resolvedNames"];
        let at = round % names.as_array().map_or(1, Vec::len);
        names[at]["resolvedAddresses"][1] = address(at, round + 1);
        let status = self.object["status"].clone();
        let started = Instant::now();
        let (sent, object) = write(client, &self.requests, Way::Put, &self.object, 0).await;
        self.took.push(started.elapsed());
        assert_eq!(object["status"], status);
        (self.sent, self.object) = (sent, object);
    }

    fn at(&self, part: usize) -> Duration {
        let mut took = self.took.clone();
        took.sort();
        took[(took.len() - 1) * part / 100]
    }

    fn median(&self) -> Duration {
        self.at(50)
    }

    fn figures(&self) -> String {
        let ms = |part| self.at(part).as_secs_f64() * 1e3;
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

fn name(i: usize) -> String {
    format!("host{i}.up.example.com.")
}

/// The two addresses of a name.
fn ips(i: usize) -> [String; 2] {
    let [high, low] = u16::try_from(i).expect("a small number").to_be_bytes();
    [1, 2].map(|last| format!("198.{last}.{high}.{low}"))
}

/// The status that the collector wrote at commit dd7369f.
fn status_of_dd7369f(size: usize) -> Value {
    let entry = |i| {
        let addresses = ips(i).map(
            |ip| json!({ "ip": ip, "ttlSeconds": 300, "lastLookupTime": "2026-01-31T12:00:00Z" }),
        );
        json!({
            "dnsName": name(i),
            "resolvedAddresses": addresses,
            "conditions": [{
                "type": "Degraded", "status": "False", "reason": "NOERROR",
                "message": "the last look-up succeeded",
                "lastTransitionTime": "2026-01-31T12:00:00Z",
            }],
        })
    };
    json!({ "resolvedNames": (0..size).map(entry).collect::<Vec<_>>() })
}

/// The status that the collector writes.
fn status_now(size: usize) -> Value {
    let name_of = |text: &str| DnsName::parse(text).expect("a name");
    let now = Timestamp::from_millis(1_769_860_800_000);
    let mut state = NameState::new(name_of(WILDCARD));
    for i in 0..size {
        let addresses = ips(i).map(|ip| (ip.parse().expect("an address"), 300));
        let observation = Observation {
            name: name_of(&name(i)),
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
    let update = StatusUpdate::new(&mut state, &Stored::default(), &Limits::default(), now)
        .expect("a status");
    serde_json::to_value(update.status()).expect("JSON")
}
