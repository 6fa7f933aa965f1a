//! Which networks are a cluster's own, as far as they can be read: where its API server, its Services and its pods are.

mod node;
mod set;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use futures_util::{
    Stream, StreamExt,
    stream::{BoxStream, SelectAll},
};
use ipnet::IpNet;
use k8s_openapi::api::{discovery::v1::EndpointSlice, networking::v1::ServiceCIDR};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::node::NodeNetworks;
pub use self::set::NetworkSet;
use crate::{
    cluster::{self, AnyObject, Cluster, Watching},
    store::{Event, ObjectKey, Scope},
};

/// How long is waited at the start for what can be read.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a network of the cluster is for.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Purpose {
    /// An endpoint of the Service `default/kubernetes`.
    ApiServer,
    /// The addresses of Services: a ServiceCIDR object.
    Services,
    /// The addresses of a Node's pods: `spec.podCIDRs`, and what OVN-Kubernetes gives the node in its default network
    /// (annotation `k8s.ovn.org/node-subnets`).
    Pods,
}

impl Purpose {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::ApiServer, Self::Services, Self::Pods];

    /// Every word of [`Purpose::as_str`].
    pub const WORDS: &[&str] = &["api-server", "service-cidr", "pod-cidr"];

    /// A word for metric labels and log lines.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApiServer => "api-server",
            Self::Services => "service-cidr",
            Self::Pods => "pod-cidr",
        }
    }
}

/// The cluster's own networks.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Networks([NetworkSet; 3]);

impl Networks {
    /// The networks for each purpose.
    pub fn new(
        api_server: impl IntoIterator<Item = IpNet>,
        services: impl IntoIterator<Item = IpNet>,
        pods: impl IntoIterator<Item = IpNet>,
    ) -> Self {
        Self([
            api_server.into_iter().collect(),
            services.into_iter().collect(),
            pods.into_iter().collect(),
        ])
    }

    /// Those for a purpose.
    pub fn of(&self, purpose: Purpose) -> &NetworkSet {
        let [api_server, services, pods] = &self.0;
        match purpose {
            Purpose::ApiServer => api_server,
            Purpose::Services => services,
            Purpose::Pods => pods,
        }
    }

    /// What an address is for, if it is the cluster's.
    pub fn purpose(&self, address: IpAddr) -> Option<Purpose> {
        let mut all = Purpose::ALL.into_iter();
        all.find(|purpose| self.of(*purpose).contains(address))
    }
}

/// Reads the networks of a cluster, and goes on reading.
///
/// Each of the three sources may be forbidden, or not served by an old API server: that is said once in the log, and tried
/// again every few seconds. What was read holds while the API server is away.
pub struct Reading {
    changes: SelectAll<BoxStream<'static, (Purpose, Change)>>,
    known: BTreeMap<Purpose, Known>,
    found: watch::Sender<Option<Arc<Networks>>>,
}

/// What one source says.
#[derive(Debug, Default)]
struct Known {
    /// Something, if only that it cannot be read.
    has_begun: bool,
    /// That it cannot be read was said.
    said: bool,
    /// Objects that are there and cannot be read: what was known of them holds.
    undecodable: BTreeSet<ObjectKey>,
    networks: BTreeMap<ObjectKey, Vec<IpNet>>,
}

/// What became of the networks in objects.
#[derive(Debug)]
enum Change {
    All(BTreeMap<ObjectKey, Vec<IpNet>>),
    One(ObjectKey, Vec<IpNet>),
    Gone(ObjectKey),
    Unreadable(String),
    Undecodable(BTreeSet<ObjectKey>),
}

impl Reading {
    /// Of this cluster.
    pub fn new(cluster: &Cluster) -> Self {
        let api_server = Watching {
            labels: Some("kubernetes.io/service-name=kubernetes".to_owned()),
            ..Watching::of(Scope::Namespace("default".to_owned()))
        };
        let (client, bad) = (|| cluster.client(), || cluster.bad_objects());
        let changes = [
            changes(
                Purpose::ApiServer,
                cluster::watch(client(), api_server, bad()),
                endpoints,
            ),
            changes(
                Purpose::Services,
                cluster::watch_all(client(), bad()),
                service_cidrs,
            ),
            changes(
                Purpose::Pods,
                cluster::watch_all(client(), bad()),
                NodeNetworks::networks,
            ),
        ];
        Self::of(changes.into_iter().collect())
    }

    fn of(changes: SelectAll<BoxStream<'static, (Purpose, Change)>>) -> Self {
        let known = Purpose::ALL.map(|purpose| (purpose, Known::default()));
        Self {
            changes,
            known: known.into(),
            found: watch::channel(None).0,
        }
    }

    /// What is read; `None` at the start, until every source has said what it has or that it cannot be read, or for 5 s.
    pub fn found(&self) -> watch::Receiver<Option<Arc<Networks>>> {
        self.found.subscribe()
    }

    /// Keeps what is found up to date until the token is cancelled.
    ///
    /// # Errors
    /// None: what goes wrong is logged and tried again.
    pub async fn run(mut self, token: CancellationToken) -> anyhow::Result<()> {
        let latest = Instant::now() + PATIENCE;
        loop {
            let waiting = self.found.borrow().is_none();
            tokio::select! {
                () = token.cancelled() => return Ok(()),
                Some((purpose, change)) = self.changes.next() => {
                    if self.take(purpose, change) {
                        self.publish(waiting);
                    }
                }
                () = sleep_until(latest), if waiting => {
                    warn!("what can be read of the cluster's own networks is not all known yet");
                    for known in self.known.values_mut() {
                        known.has_begun = true;
                    }
                    self.publish(true);
                }
            }
        }
    }

    /// Returns whether there is something new.
    fn take(&mut self, purpose: Purpose, change: Change) -> bool {
        let known = self.known.entry(purpose).or_default();
        if let Change::Undecodable(keys) = change {
            // Nothing is known by that alone: the others are about to be told.
            known.undecodable = keys;
            return false;
        }
        let is_first = !std::mem::replace(&mut known.has_begun, true);
        is_first
            | match change {
                Change::All(mut networks) => {
                    known.said = false;
                    let before = known.networks.iter();
                    let held = before.filter(|(key, _)| known.undecodable.contains(key));
                    networks.extend(held.map(|(key, held)| (key.clone(), held.clone())));
                    let before = std::mem::replace(&mut known.networks, networks);
                    before != known.networks
                }
                Change::One(key, networks) => {
                    let before = known.networks.insert(key, networks.clone());
                    before.unwrap_or_default() != networks
                }
                Change::Gone(key) => known.networks.remove(&key).is_some(),
                Change::Unreadable(reason) => {
                    if !std::mem::replace(&mut known.said, true) {
                        info!(networks = purpose.as_str(), %reason, "cannot be read: what is known of them holds, and no more of them are refused in answers");
                    }
                    false
                }
                Change::Undecodable(_) => false,
            }
    }

    fn publish(&self, first: bool) {
        if !self.known.values().all(|known| known.has_begun) {
            return;
        }
        let of = |purpose| {
            let known = self.known.get(&purpose).into_iter();
            known.flat_map(|known| known.networks.values().flatten().copied())
        };
        let networks = Networks::new(
            of(Purpose::ApiServer),
            of(Purpose::Services),
            of(Purpose::Pods),
        );
        self.found.send_if_modified(|found| {
            let is_new = first || found.as_deref() != Some(&networks);
            if is_new {
                *found = Some(Arc::new(networks));
            }
            is_new
        });
    }
}

fn changes<K: AnyObject>(
    purpose: Purpose,
    events: impl Stream<Item = Event<K>> + Send + 'static,
    networks: fn(&K) -> Vec<IpNet>,
) -> BoxStream<'static, (Purpose, Change)> {
    let change = move |event| match event {
        Event::Synced(objects) => Change::All(
            objects
                .iter()
                .map(|object| (ObjectKey::of(object), networks(object)))
                .collect(),
        ),
        Event::Applied(object) => Change::One(ObjectKey::of(&object), networks(&object)),
        Event::Deleted(key) => Change::Gone(key),
        Event::OutOfSync(reason) => Change::Unreadable(reason),
        Event::Undecodable(keys) => Change::Undecodable(keys),
    };
    events.map(move |event| (purpose, change(event))).boxed()
}

/// Ready or not: who answers there is the API server, or will be.
fn endpoints(slice: &EndpointSlice) -> Vec<IpNet> {
    let endpoints = slice.endpoints.iter().flatten();
    let addresses = endpoints.flat_map(|endpoint| &endpoint.addresses);
    let addresses = addresses.filter_map(|text| text.parse::<IpAddr>().ok());
    addresses.map(IpNet::from).collect()
}

fn service_cidrs(object: &ServiceCIDR) -> Vec<IpNet> {
    let spec = object.spec.as_ref();
    let cidrs = spec
        .into_iter()
        .flat_map(|spec| spec.cidrs.iter().flatten());
    cidrs.filter_map(|text| text.parse().ok()).collect()
}

#[cfg(test)]
mod tests;
