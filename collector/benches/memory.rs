//! The memory for a hundred thousand names: the watches of the store, the rules, the publisher,
//! the readers' index. Every allocated byte counts.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout
)]

mod counting;

use std::{
    collections::HashMap, fs, net::IpAddr, path::Path, process::ExitCode, sync::Arc, time::Duration,
};

use collector::{
    publish::{Config, Publisher},
    publish::{
        ManageObjects, ObjectPolicy,
        write::{Write, WriteOutcome},
    },
    rules::{self, BySource, Outputs, Overview, RetentionPolicy, Source, notices::Notices},
};
use futures_util::StreamExt;
use names::{Addresses, Limits};
use names::{FamilyOutcome, LookupResult};
use proto::{
    api::{DnsName, DnsNameResolver, EgressFirewall},
    facts::Query,
};
use runtime::{
    admin::Health,
    clock::Timestamp,
    kube_events::Reporter,
    store::{Event, Kind, Scope, Store, dir::DirStore},
};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

const NAMES: usize = 100_000;

/// Of so many names each.
const FIREWALLS: usize = 100;

const TTL: u32 = 30;

const NAMESPACE: &str = "ovn-kubernetes";

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000 + millis)
}

fn name(i: usize) -> String {
    format!("host{i}.team{}.example.com.", i % FIREWALLS)
}

fn addresses(name: usize, count: usize) -> impl Iterator<Item = IpAddr> {
    (0..count).map(move |i| {
        let number = 0x0b00_0000 + u32::try_from(name * count + i).unwrap();
        IpAddr::from(number.to_be_bytes())
    })
}

/// The objects of all names, as a collector leaves them, and the EgressFirewalls that use these
/// names.
fn fill(store: &Path, count: usize) {
    let folder = store.join(NAMESPACE).join("dnsnameresolvers");
    fs::create_dir_all(&folder).unwrap();
    for i in 0..NAMES {
        let address = |ip: IpAddr| {
            json!({
                "ip": ip.to_string(), "ttlSeconds": TTL, "lastLookupTime": "2027-01-15T08:00:00Z",
            })
        };
        let object = json!({
            "apiVersion": "network.openshift.io/v1alpha1",
            "kind": "DNSNameResolver",
            "metadata": {
                "uid": format!("{i:036}"),
                "labels": { "app.kubernetes.io/managed-by": "collector" },
            },
            "spec": { "name": name(i) },
            "status": { "resolvedNames": [{
                "dnsName": name(i),
                "resolutionFailures": 0,
                "conditions": [{
                    "type": "Degraded", "status": "False", "reason": "NOERROR",
                    "message": "the last look-up succeeded",
                    "lastTransitionTime": "2027-01-15T08:00:00Z",
                }],
                "resolvedAddresses": Vec::from_iter(addresses(i, count).map(address)),
            }] },
        });
        let file = folder.join(format!("dns-{:010}.yaml", i * 40_000));
        fs::write(file, object.to_string()).unwrap();
    }
    for team in 0..FIREWALLS {
        let names = (team..NAMES).step_by(FIREWALLS).map(name);
        let rule = |name: String| json!({ "type": "Allow", "to": { "dnsName": name } });
        let firewall = json!({
            "apiVersion": "k8s.ovn.org/v1",
            "kind": "EgressFirewall",
            "spec": { "egress": Vec::from_iter(names.map(rule)) },
        });
        let folder = store.join(format!("team-{team}/egressfirewalls"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("default.yaml"), firewall.to_string()).unwrap();
    }
}

fn publisher() -> Publisher {
    Publisher::new(Config {
        objects: ObjectPolicy::of_egress_firewalls(NAMESPACE, ManageObjects::Always),
        limits: Limits {
            lookups: true,
            ..Limits::default()
        },
        ..Config::default()
    })
}

/// Looks every name up once, with the addresses of its object as the result. Returns the time of the
/// last look-up.
fn look_up(publisher: &mut Publisher, count: usize) -> Timestamp {
    let mut numbers: HashMap<DnsName, usize> = (0..NAMES)
        .map(|i| (DnsName::parse(&name(i)).unwrap(), i))
        .collect();
    let mut millis = 0;
    while !numbers.is_empty() {
        let Some(request) = publisher.next_due(at(millis)) else {
            millis += 1;
            continue;
        };
        let found = |i| Addresses::from_iter(addresses(i, count).map(|ip| (ip, TTL)));
        let v4 = match numbers.remove(&request.name) {
            Some(i) => FamilyOutcome::Addresses {
                addresses: found(i),
                at: at(millis),
                complete: true,
            },
            None => FamilyOutcome::NoData,
        };
        let result = LookupResult {
            name: request.name,
            started: at(millis),
            is_unresponsive: false,
            v4,
            v6: FamilyOutcome::NoData,
        };
        publisher.apply_lookup(result, at(millis));
    }
    at(millis)
}

/// Writes every status that waits, to a store that takes all at once.
fn settle(publisher: &mut Publisher, now: Timestamp) {
    let mut versions = 0;
    loop {
        publisher.advance(now);
        publisher.recall(now);
        let writes = publisher.writes(now);
        if writes.is_empty() {
            return;
        }
        for write in writes {
            let Write::Status(object) = &write else {
                panic!("every name has its object");
            };
            versions += 1;
            let mut stored = object.clone();
            stored.metadata.resource_version = Some(versions.to_string());
            let event = Event::Applied((*stored).clone());
            publisher.apply_written(&write.key(), &write, WriteOutcome::Stored(stored), now);
            publisher.apply_event(Source::EgressFirewall, event, now);
        }
    }
}

/// The list of a kind, and the bytes that its watch of the folder keeps. A watch of a cluster keeps none.
async fn list<K: Kind>(store: &DirStore, scope: Scope) -> (Event<K>, usize) {
    let mut events = Box::pin(store.watch::<K>(scope));
    let Some(list @ Event::Synced(_)) = events.next().await else {
        panic!("a list");
    };
    let whole = counting::allocated();
    drop(events);
    (list, whole - counting::allocated())
}

/// The bytes for each name, once everything is loaded and written, with so many addresses each.
async fn bytes_a_name(count: usize) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path(), count);
    let before = counting::allocated();
    let store = DirStore::open(folder.path()).unwrap();
    let (_, of_rules) = list::<EgressFirewall>(&store, Scope::All).await;
    let scope = Scope::Namespace(NAMESPACE.to_owned());
    let (list, _) = list::<DnsNameResolver>(&store, scope).await;
    let (health, token) = (Health::new(), CancellationToken::new());
    let (changes, mut changed) = mpsc::channel(4);
    let (overview, shown) = watch::channel(BySource::<Arc<Overview>>::default());
    let terms = RetentionPolicy {
        grace: Duration::from_secs(5),
        min_ttl: Duration::from_secs(5),
        ..RetentionPolicy::default()
    };
    let outputs = Outputs {
        changes,
        overview,
        reporter: Reporter::default(),
        is_needed: true,
    };
    let gate = health.gate("egress-firewalls", "starting");
    let following = rules::run::<_, EgressFirewall>(
        store.clone(),
        terms,
        names::Namespaces::default(),
        outputs,
        rules::Inputs {
            notices: Notices::default().subscribe(),
            questions: mpsc::channel(1).1,
        },
        gate,
        token.clone(),
    );
    let following = tokio::spawn(following);

    let mut publisher = publisher();
    publisher.set_leads(true, at(0));
    loop {
        let changes = changed.recv().await.unwrap();
        let in_sync = changes.in_sync;
        publisher.apply_rules(changes, at(0));
        if in_sync {
            break;
        }
    }
    publisher.apply_event(Source::EgressFirewall, list, at(0));
    let index = publisher.take_index();
    let end = look_up(&mut publisher, count);
    settle(&mut publisher, end);
    // The watch of the rules goes on.
    let bytes = counting::allocated() - before - of_rules;
    let known = publisher.status(&Query::all(), end).facts;
    assert_eq!(known.name_count, NAMES);
    let addresses = known
        .names
        .iter()
        .map(|it| it.facts.addresses.len() + it.facts.more_addresses);
    assert!(addresses.eq(std::iter::repeat_n(count, Query::MOST)));
    token.cancel();
    following.await.unwrap().unwrap();
    drop((publisher, index, shown));
    bytes as f64 / NAMES as f64
}

fn main() -> ExitCode {
    println!("memory: all that a hundred thousand names take");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let one = runtime.block_on(bytes_a_name(1));
    let ten = runtime.block_on(bytes_a_name(10));
    let address = (ten - one) / 9.0;
    let figures = [
        ("a name with  1 addresses", one, 1_224.0),
        ("a name with 10 addresses", ten, 3_024.0),
        ("of that an address", address, 200.0),
    ];
    for (what, bytes, limit) in figures {
        println!("{what:<43}{bytes:>10.0} bytes          (at most {limit})");
    }
    let holds = figures.iter().all(|(_, bytes, limit)| bytes <= limit);
    ExitCode::from(u8::from(!holds))
}
