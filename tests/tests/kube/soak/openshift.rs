//! OpenShift's plugin and operator beside the collector: all three write the same objects, and the two may be removed
//! at any time.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::ResourceExt;
use proto::api::{DnsNameResolver, ResolvedAddress, ResolvedName};
use runtime::{
    cluster::KubeStore,
    store::{ObjectKey, Store, StoreError},
};
use tests::{kube::ApiServer, soak::or_long, wait::eventually};
use tokio::{task::JoinSet, time::sleep};

use crate::{
    cluster::key,
    collectors::{Collector, Objects, allow},
    foreign::somebody_else,
    history::History,
};

/// The operator's grace.
const GRACE: Duration = Duration::from_secs(5);

const TTL: u32 = 2;

/// The operator's changes to statuses, by its source code: it removes every address whose stored time, TTL and grace
/// are over.
pub(super) struct Operator {
    removed: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

impl Operator {
    pub(super) fn start(store: KubeStore, object: ObjectKey) -> Self {
        let removed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&removed);
        let mut task = JoinSet::new();
        task.spawn(async move {
            loop {
                count.fetch_add(reap(&store, &object).await, Ordering::SeqCst);
                sleep(Duration::from_millis(100)).await;
            }
        });
        Self {
            removed,
            _task: task,
        }
    }
}

/// One pass of the operator; returns how many addresses it has removed.
pub(crate) async fn reap(store: &KubeStore, key: &ObjectKey) -> usize {
    // A slow server is retried.
    let Ok(mut object) = store.get::<DnsNameResolver>(key).await else {
        return 0;
    };
    let now = Timestamp::now();
    let is_over = |address: &ResolvedAddress| {
        let ttl = Duration::from_secs(u64::try_from(address.ttl_seconds).unwrap());
        address.last_lookup_time.0 + ttl + GRACE < now
    };
    let mut removed = 0;
    for entry in &mut object.status.get_or_insert_default().resolved_names {
        let before = entry.resolved_addresses.len();
        entry.resolved_addresses.retain(|address| !is_over(address));
        removed += before - entry.resolved_addresses.len();
    }
    if removed == 0 {
        return 0;
    }
    match store.replace_status(&object).await {
        Ok(_) => removed,
        Err(StoreError::Conflict(_) | StoreError::Unavailable { .. }) => 0,
        Err(error) => panic!("{error}"),
    }
}

/// The plugin's handling of an answer: an address in the status gets new times, another one is added.
pub(super) async fn plugin(store: &KubeStore, key: &ObjectKey, ip: IpAddr) {
    // It retries a few times and then gives up.
    for _ in 0..5 {
        let mut object: DnsNameResolver = store.get(key).await.unwrap();
        let dns_name = object.spec.name.clone();
        let names = &mut object.status.get_or_insert_default().resolved_names;
        let mut known = names
            .iter_mut()
            .flat_map(|name| &mut name.resolved_addresses);
        let address = ResolvedAddress {
            ip: ip.to_string().into(),
            ttl_seconds: i32::try_from(TTL).unwrap(),
            last_lookup_time: Time(Timestamp::now()),
        };
        if let Some(known) = known.find(|known| known.ip == address.ip) {
            *known = address;
        } else if let Some(name) = names.first_mut() {
            name.resolved_addresses.push(address);
        } else {
            names.push(ResolvedName {
                conditions: Vec::new(),
                dns_name,
                resolved_addresses: vec![address],
                resolution_failures: 0,
            });
        }
        match store.replace_status(&object).await {
            Ok(_) => return,
            Err(StoreError::Conflict(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_plugin_and_the_operator_may_go_and_nothing_that_is_current_does() {
    let rounds = or_long(4, 120);
    let server = ApiServer::shared().await;
    let namespace = server.namespace().await;
    let name = &format!("www.{namespace}.example.com.");
    let objects = Objects::of(&server, &namespace).await;
    let made = objects.make("of-the-operator", name).await;
    allow(&server, &namespace, &[name]).await;
    // With the default flags: times are written with low priority.
    let mut collector = Collector::start(&server.kubeconfig(), &namespace, &[]).await;
    let current = ["192.0.2.1", "192.0.2.2", "2001:db8::1"];
    collector.nameserver.set(name, &current, TTL);
    objects.expect(name, &current).await;
    let history = History::of(&server, &namespace).await;
    let store = somebody_else(&server).await;
    let object = key(&namespace, "of-the-operator");
    let operator = Operator::start(store.clone(), object.clone());

    // All three: each answer reaches the plugin and the collector.
    for _ in 0..rounds {
        for ip in current.map(|ip| ip.parse().unwrap()) {
            plugin(&store, &object, ip).await;
            collector.hears(name, &[ip], TTL).await;
        }
        sleep(Duration::from_secs(1)).await;
    }
    let left = history.departures_of(name).await;
    let removed = operator.removed.load(Ordering::SeqCst);
    assert!(left.len() <= removed, "lost among them: {left:?}");

    // The plugin is removed, which wrote the times for the operator. The operator then removes current addresses once;
    // later it finds none.
    eventually("the operator takes the first ones out", async || {
        let removed = operator.removed.load(Ordering::SeqCst);
        (removed > 0).then_some(()).ok_or_else(String::new)
    })
    .await;
    objects.expect(name, &current).await;
    // For longer than a TTL and its grace. The collector has written times that are 15 minutes longer. A slow server may
    // give the operator another chance.
    let lasts = (GRACE + Duration::from_secs(TTL.into())) * rounds / 3;
    for window in 1.. {
        let removed = operator.removed.load(Ordering::SeqCst);
        sleep(lasts).await;
        if operator.removed.load(Ordering::SeqCst) == removed {
            println!("it took out {removed} current addresses; then none in {lasts:?}");
            break;
        }
        assert!(window < 4, "it goes on");
    }
    objects.expect(name, &current).await;

    // The operator is removed, too, and its object stays.
    drop(operator);
    collector.nameserver.set(name, &current[1..], TTL);
    objects.expect(name, &current[1..]).await;
    let kept = objects.named(name).await.unwrap();
    let kept: Vec<_> = kept.iter().map(ResourceExt::uid).collect();
    assert_eq!(kept, [made.uid()], "its object is used as it is");
}
