//! The cost of changing one EgressFirewall beside many others. It is measured from the event of the
//! store to the publisher and the readers' index, all in one thread.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout
)]

use std::{
    any::Any,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use collector::{
    publish::{Config, Publisher},
    publish::{ManageObjects, ObjectPolicy},
    rules::{
        self, BySource, Inputs, Outputs, RetentionPolicy, RuleChanges, Source, notices::Notices,
    },
};
use futures_util::{Stream, StreamExt, stream::poll_fn};
use names::Namespaces;
use proto::api::EgressFirewall;
use runtime::{
    admin::Health,
    clock::Timestamp,
    kube_events::Reporter,
    store::{Event, Kind, ObjectKey, Precondition, Scope, Store, StoreError},
};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Of an EgressFirewall. One name is in all of them.
const NAMES: usize = 10;

const FEW: usize = 100;
const MANY: usize = 10_000;

const ROUNDS: usize = 20;
const EDITS: usize = 50;

/// The most that an edit beside many others may cost, relative to one beside few.
const LIMIT: f64 = 3.0;

/// A store whose watch has scripted events.
#[derive(Clone)]
struct Scripted(Arc<Mutex<Option<mpsc::UnboundedReceiver<Event<EgressFirewall>>>>>);

impl Store for Scripted {
    fn watch<K: Kind>(&self, _scope: Scope) -> impl Stream<Item = Event<K>> + Send + 'static {
        let mut events = self.0.lock().unwrap().take().expect("one watch");
        poll_fn(move |context| events.poll_recv(context)).map(|event| {
            let event: Box<dyn Any> = Box::new(event);
            *event.downcast::<Event<K>>().expect("an EgressFirewall")
        })
    }

    async fn get<K: Kind>(&self, _key: &ObjectKey) -> Result<K, StoreError> {
        unreachable!("nothing is read")
    }

    async fn create<K: Kind>(&self, _object: &K) -> Result<K, StoreError> {
        unreachable!("nothing is written")
    }

    async fn delete<K: Kind>(
        &self,
        _key: &ObjectKey,
        _precondition: &Precondition,
    ) -> Result<(), StoreError> {
        unreachable!("nothing is deleted")
    }

    async fn replace_status<K: Kind>(&self, _object: &K) -> Result<K, StoreError> {
        unreachable!("nothing is written")
    }

    async fn replace<K: Kind>(&self, _object: &K) -> Result<K, StoreError> {
        unreachable!("nothing is written")
    }
}

/// The EgressFirewall of a namespace, after so many edits that each replace a name.
fn firewall(namespace: usize, edits: usize) -> EgressFirewall {
    let own = (edits..edits + NAMES - 1).map(|i| format!("host{i}.team{namespace}.example.com"));
    let names = own.chain(["*.shared.example.com".to_owned()]);
    let rules = names.map(|name| json!({"type": "Allow", "to": {"dnsName": name}}));
    serde_json::from_value(json!({
        "metadata": {"name": "default", "namespace": format!("team{namespace}")},
        "spec": {"egress": rules.collect::<Vec<_>>()},
    }))
    .unwrap()
}

/// A cluster with so many namespaces, each with an EgressFirewall.
struct Cluster {
    namespaces: usize,
    edits: Vec<usize>,
    store: mpsc::UnboundedSender<Event<EgressFirewall>>,
    changes: mpsc::Receiver<RuleChanges>,
    publisher: Publisher,
    _others: Box<dyn Any>,
}

impl Cluster {
    async fn start(namespaces: usize) -> Self {
        let (store, events) = mpsc::unbounded_channel();
        let (changes, changed) = mpsc::channel(1);
        let (overview, shown) = watch::channel(BySource::default());
        let (asking, questions) = mpsc::channel(1);
        let health = Health::new();
        let task = rules::run::<_, EgressFirewall>(
            Scripted(Arc::new(Mutex::new(Some(events)))),
            RetentionPolicy::default(),
            Namespaces::default(),
            Outputs {
                changes,
                overview,
                reporter: Reporter::default(),
                is_needed: true,
            },
            Inputs {
                notices: Notices::default().subscribe(),
                questions,
            },
            health.gate("EgressFirewalls", "they were not listed yet"),
            CancellationToken::new(),
        );
        tokio::spawn(task);
        let mut publisher = Publisher::new(Config {
            objects: ObjectPolicy::of_egress_firewalls("ovn-kubernetes", ManageObjects::Never),
            ..Config::default()
        });
        publisher.apply_event(Source::EgressFirewall, Event::Synced(Vec::new()), at());
        let all = (0..namespaces).map(|i| firewall(i, 0)).collect();
        store.send(Event::Synced(all)).unwrap();
        let mut cluster = Self {
            namespaces,
            edits: vec![0; namespaces],
            store,
            changes: changed,
            publisher,
            _others: Box::new((shown, asking, health)),
        };
        cluster.take_in().await;
        cluster
    }

    /// The publisher and the readers apply the changes.
    async fn take_in(&mut self) {
        let changes = self.changes.recv().await.unwrap();
        self.publisher.apply_rules(changes, at());
        // Without a store, no write for its names is carried out.
        self.publisher.writes(at());
        assert!(self.publisher.take_index().is_some());
    }

    /// So many edits, one after the other, of EgressFirewalls all over the cluster.
    async fn edit(&mut self, round: usize) -> Duration {
        let each = self.namespaces / EDITS;
        let edited: Vec<EgressFirewall> = (0..EDITS)
            .map(|i| {
                let namespace = (i * each + round) % self.namespaces;
                self.edits[namespace] += 1;
                firewall(namespace, self.edits[namespace])
            })
            .collect();
        let start = Instant::now();
        for firewall in edited {
            self.store.send(Event::Applied(firewall)).unwrap();
            self.take_in().await;
        }
        start.elapsed() / u32::try_from(EDITS).unwrap()
    }
}

fn at() -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000)
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut few = Cluster::start(FEW).await;
    let mut many = Cluster::start(MANY).await;
    let (mut beside_few, mut beside_many) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        beside_few.push(few.edit(round).await);
        beside_many.push(many.edit(round).await);
    }
    let (beside_few, beside_many) = (median(beside_few), median(beside_many));
    let ratio = beside_many / beside_few;
    println!("an edit beside {FEW} EgressFirewalls of {NAMES} names      {beside_few:>10.0} µs");
    println!("an edit beside {MANY} EgressFirewalls of {NAMES} names    {beside_many:>10.0} µs");
    println!(
        "                                                   {ratio:>10.2} times   (at most {LIMIT})"
    );
    assert!(ratio <= LIMIT);
}
