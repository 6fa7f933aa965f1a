//! The addresses that came and went, from a watch. Unlike polling, this misses nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use futures_util::StreamExt;
use kube::{Api, ResourceExt, api::ListParams};
use proto::api::DnsNameResolver;
use runtime::store::{Event, ObjectKey, Scope, Store};
use tests::{kube::ApiServer, wait::eventually};
use tokio::task::JoinSet;

use crate::cluster::store;

/// The content of objects: (name, address) each.
pub(crate) type Addresses = BTreeSet<(String, String)>;

/// Follows the objects of a namespace until it is dropped.
pub(crate) struct History {
    api: Api<DnsNameResolver>,
    seen: Arc<Mutex<Seen>>,
    _task: JoinSet<()>,
}

#[derive(Default)]
struct Seen {
    objects: BTreeMap<ObjectKey, DnsNameResolver>,
    /// The name and the address of each that left an object.
    departures: Vec<(String, String)>,
}

impl History {
    /// Returns when it has read all existing objects.
    pub(crate) async fn of(server: &ApiServer, namespace: &str) -> Self {
        let (store, scope) = (store(server).await, Scope::Namespace(namespace.to_owned()));
        let seen = Arc::<Mutex<Seen>>::default();
        let sink = Arc::clone(&seen);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut events = Box::pin(store.watch::<DnsNameResolver>(scope));
            while let Some(event) = events.next().await {
                sink.lock().unwrap().take(event);
            }
        });
        let history = Self {
            api: Api::namespaced(server.client().await, namespace),
            seen,
            _task: task,
        };
        history.departures().await;
        history
    }

    /// The departures so far. A deleted object does not count as a departure of its addresses. It first waits until it
    /// has the current state.
    pub(crate) async fn departures(&self) -> Vec<(String, String)> {
        eventually("the watch is up to date", async || {
            let listed = self.api.list(&ListParams::default()).await;
            let listed = listed.map_err(|error| error.to_string())?.items;
            let there: BTreeMap<_, _> = listed.iter().map(version).collect();
            let heard = self.seen.lock().unwrap().versions();
            (heard == there)
                .then_some(())
                .ok_or_else(|| format!("{heard:?} of {there:?}"))
        })
        .await;
        self.seen.lock().unwrap().departures.clone()
    }

    pub(crate) async fn departures_of(&self, name: &str) -> Vec<(String, String)> {
        let mut departures = self.departures().await;
        departures.retain(|(of, _)| of == name);
        departures
    }
}

impl Seen {
    fn versions(&self) -> BTreeMap<ObjectKey, Option<String>> {
        self.objects.values().map(version).collect()
    }

    fn take(&mut self, event: Event<DnsNameResolver>) {
        match event {
            Event::Synced(objects) => {
                let keys: BTreeSet<_> = objects.iter().map(ObjectKey::of).collect();
                self.objects.retain(|key, _| keys.contains(key));
                objects.iter().for_each(|object| self.apply(object));
            }
            Event::Applied(object) => self.apply(&object),
            Event::Deleted(key) => drop(self.objects.remove(&key)),
            Event::Undecodable(_) | Event::OutOfSync(_) => {}
        }
    }

    fn apply(&mut self, object: &DnsNameResolver) {
        let before = self.objects.insert(ObjectKey::of(object), object.clone());
        let (before, now) = (
            before.iter().flat_map(addresses).collect(),
            addresses(object),
        );
        self.departures
            .extend(Addresses::difference(&before, &now).cloned());
    }
}

fn version(object: &DnsNameResolver) -> (ObjectKey, Option<String>) {
    (ObjectKey::of(object), object.resource_version())
}

pub(crate) fn addresses(object: &DnsNameResolver) -> Addresses {
    let names = object
        .status
        .iter()
        .flat_map(|status| &status.resolved_names);
    let pairs = names.flat_map(|name| {
        let ips = name.resolved_addresses.iter();
        ips.map(|address| (name.dns_name.clone(), address.ip.to_string()))
    });
    pairs.collect()
}
