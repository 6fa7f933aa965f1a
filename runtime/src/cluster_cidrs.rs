//! The networks and addresses of the cluster itself, as far as they can be read: those of its API server, Services,
//! pods and Nodes.

mod node;
mod set;
mod user_defined;

use std::{
    collections::{BTreeMap, HashSet},
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
use tracing::warn;

pub use self::set::NetworkSet;
use self::{node::NodeNetworks, user_defined::ClusterUserDefinedNetwork};
use crate::{
    changes::send_if_changed,
    cluster::{self, Cluster, Object, Watching},
    store::{Event, ObjectKey, Scope, object_cache::ObjectCache},
};

/// How long the start waits for the sources.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the address of a deleted Node still counts. Pods on its host network run for a while, and EndpointSlices
/// list them.
const NODE_GONE: Duration = Duration::from_secs(600);

/// The use of a network of the cluster.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Purpose {
    /// An endpoint of the Service `default/kubernetes`.
    ApiServer,
    /// The addresses of Services: a ServiceCIDR object.
    Services,
    /// The addresses of a Node's pods: `spec.podCIDRs`, and what OVN-Kubernetes gives the node in its default network
    /// (annotation `k8s.ovn.org/node-subnets`).
    Pods,
    /// The addresses of the pods in a ClusterUserDefinedNetwork of OVN-Kubernetes that is their primary network.
    UserDefinedNetworks,
    /// A Node's own addresses: `InternalIP` and `ExternalIP` in its `status.addresses`.
    Nodes,
}

impl Purpose {
    /// All of them. An address with several purposes has the first. The order matters: only [`Purpose::Nodes`] may be
    /// allowed, and an API server's address is often a Node's too.
    pub const ALL: [Self; 5] = [
        Self::ApiServer,
        Self::Services,
        Self::Pods,
        Self::UserDefinedNetworks,
        Self::Nodes,
    ];

    /// Every value of [`Purpose::as_str`].
    pub const WORDS: &[&str] = &[
        "api-server",
        "service-cidr",
        "pod-cidr",
        "user-defined-network",
        "node",
    ];

    /// The value for metric labels and log lines.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApiServer => "api-server",
            Self::Services => "service-cidr",
            Self::Pods => "pod-cidr",
            Self::UserDefinedNetworks => "user-defined-network",
            Self::Nodes => "node",
        }
    }
}

/// The cluster's own networks. The default has no networks and no Nodes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Networks {
    /// All networks but those of Nodes.
    ranges: BTreeMap<Purpose, NetworkSet>,
    /// Single addresses, thousands in a large cluster. `None`: the Nodes were never read.
    nodes: Option<HashSet<IpAddr>>,
}

impl Networks {
    /// These networks, each with its purpose. A Node's network counts only as its address.
    pub fn new(networks: impl IntoIterator<Item = (Purpose, IpNet)>) -> Self {
        let mut ranges: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (purpose, net) in networks {
            ranges.entry(purpose).or_default().push(net);
        }
        let nodes = ranges.remove(&Purpose::Nodes).unwrap_or_default();
        let nodes = nodes.into_iter().map(|net| net.addr().to_canonical());
        let ranges = ranges.into_iter();
        Self {
            nodes: Some(nodes.collect()),
            ranges: ranges
                .map(|(purpose, nets)| (purpose, nets.into_iter().collect()))
                .collect(),
        }
    }

    /// How many networks or addresses there are for a purpose.
    pub fn count(&self, purpose: Purpose) -> usize {
        match purpose {
            Purpose::Nodes => self.nodes.as_ref().map_or(0, HashSet::len),
            _ => self.ranges.get(&purpose).map_or(0, NetworkSet::len),
        }
    }

    /// The purpose of a canonical address; `None` if it is not the cluster's.
    pub fn purpose(&self, address: IpAddr) -> Option<Purpose> {
        let mut ranges = self.ranges.iter();
        let range = ranges.find(|(_, networks)| networks.contains(address));
        let is_node = self.is_node(address) == Some(true);
        range
            .map(|(purpose, _)| *purpose)
            .or(is_node.then_some(Purpose::Nodes))
    }

    /// Whether a canonical address is a Node's own; `None` if the Nodes were never read.
    pub fn is_node(&self, address: IpAddr) -> Option<bool> {
        self.nodes.as_ref().map(|nodes| nodes.contains(&address))
    }
}

/// The kind of object that networks are read from, in an administrator's words.
type NetworkSource = &'static str;

const API_SERVER: NetworkSource = "EndpointSlices of default/kubernetes";
const SERVICE_CIDRS: NetworkSource = "ServiceCIDRs";
const NODES: NetworkSource = "Nodes";
const USER_DEFINED_NETWORKS: NetworkSource = "ClusterUserDefinedNetworks";
const SOURCES: [NetworkSource; 4] = [API_SERVER, SERVICE_CIDRS, NODES, USER_DEFINED_NETWORKS];

/// The networks in an object.
type Found = Vec<(Purpose, IpNet)>;

/// Reads the networks of a cluster and follows their changes.
///
/// A source may be forbidden, or unknown to the API server because it is old or lacks the CRD. The log says so once,
/// and the read is retried every few seconds. The last known networks stay while the API server is away.
pub struct Reading {
    changes: SelectAll<BoxStream<'static, (NetworkSource, NetworksEvent)>>,
    known: BTreeMap<NetworkSource, ObjectCache<Found>>,
    /// The addresses of deleted Nodes, and until when the collector still refuses them.
    gone: BTreeMap<IpAddr, Instant>,
    found: watch::Sender<Option<Arc<Networks>>>,
}

/// A change of the networks in objects.
type NetworksEvent = Event<(ObjectKey, Found)>;

impl Reading {
    /// Reads from this cluster.
    pub fn new(cluster: &Cluster) -> Self {
        let api_server = Watching {
            labels: Some("kubernetes.io/service-name=kubernetes".to_owned()),
            ..Watching::of(Scope::Namespace("default".to_owned()))
        };
        let api_server = cluster::watch(cluster.client(), api_server, cluster.bad_objects());
        Self::of([
            changes(API_SERVER, api_server, endpoints),
            changes(SERVICE_CIDRS, cluster.watch_all(), service_cidrs),
            changes(NODES, cluster.watch_all(), NodeNetworks::networks),
            changes(
                USER_DEFINED_NETWORKS,
                cluster.watch_all(),
                ClusterUserDefinedNetwork::networks,
            ),
        ])
    }

    fn of(
        changes: impl IntoIterator<Item = BoxStream<'static, (NetworkSource, NetworksEvent)>>,
    ) -> Self {
        Self {
            changes: changes.into_iter().collect(),
            known: SOURCES
                .map(|source| (source, ObjectCache::default()))
                .into(),
            gone: BTreeMap::new(),
            found: watch::channel(None).0,
        }
    }

    /// The networks. `None` at the start, until every source has reported its networks or an error, or for 5 s.
    pub fn found(&self) -> watch::Receiver<Option<Arc<Networks>>> {
        self.found.subscribe()
    }

    /// Keeps the networks up to date until the token is cancelled.
    ///
    /// # Errors
    /// None: errors are logged and retried.
    pub async fn run(mut self, token: CancellationToken) -> anyhow::Result<()> {
        let latest = Instant::now() + READ_TIMEOUT;
        loop {
            let waiting = self.found.borrow().is_none();
            let forgets = self.gone.values().min().copied();
            tokio::select! {
                () = token.cancelled() => return Ok(()),
                Some((source, change)) = self.changes.next() => {
                    if self.take(source, change) {
                        self.publish();
                    }
                }
                () = sleep_until(forgets.unwrap_or(latest)), if forgets.is_some() => self.publish(),
                () = sleep_until(latest), if waiting => {
                    warn!("not all networks of the cluster have been read yet: continuing with those that have");
                    for known in self.known.values_mut() {
                        known.has_begun = true;
                    }
                    self.publish();
                }
            }
        }
    }

    /// Applies a change. Returns whether the networks changed.
    fn take(&mut self, source: NetworkSource, change: NetworksEvent) -> bool {
        if let Event::OutOfSync(reason) = &change {
            warn!(
                objects = source, %reason,
                "these objects cannot be read: networks that they gain are not refused in answers. Check the right to list them and the API server"
            );
        }
        self.known.entry(source).or_default().take(change)
    }

    fn publish(&mut self) {
        if !self.known.values().all(|known| known.has_begun) {
            return;
        }
        let objects = self.known.values().flat_map(ObjectCache::values);
        let mut networks = Networks::new(objects.flatten().copied());
        let nodes = self.known.get(NODES);
        if !nodes.is_some_and(|nodes| nodes.was_listed) {
            networks.nodes = None;
        }
        if let (Some(nodes), Some(before)) = (&mut networks.nodes, &*self.found.borrow()) {
            let now = Instant::now();
            for ip in before.nodes.iter().flat_map(|it| it.difference(nodes)) {
                self.gone.entry(*ip).or_insert(now + NODE_GONE);
            }
            let is_back = |ip: &IpAddr| nodes.contains(ip);
            self.gone.retain(|ip, until| *until > now && !is_back(ip));
            nodes.extend(self.gone.keys());
        }
        send_if_changed(&self.found, Some(Arc::new(networks)));
    }
}

fn changes<K: Object>(
    source: NetworkSource,
    events: impl Stream<Item = Event<K>> + Send + 'static,
    networks: fn(&K) -> Found,
) -> BoxStream<'static, (NetworkSource, NetworksEvent)> {
    let read = move |object: K| (ObjectKey::of(&object), networks(&object));
    events.map(move |event| (source, event.map(read))).boxed()
}

/// Endpoints count whether ready or not: each is, or will be, the API server.
fn endpoints(slice: &EndpointSlice) -> Found {
    let endpoints = slice.endpoints.iter().flatten();
    let addresses = endpoints.flat_map(|endpoint| &endpoint.addresses);
    let addresses = addresses.filter_map(|text| text.parse::<IpAddr>().ok());
    let networks = addresses.map(IpNet::from);
    networks.map(|net| (Purpose::ApiServer, net)).collect()
}

fn service_cidrs(object: &ServiceCIDR) -> Found {
    let spec = object.spec.as_ref();
    let cidrs = spec
        .into_iter()
        .flat_map(|spec| spec.cidrs.iter().flatten());
    let networks = cidrs.filter_map(|text| text.parse().ok());
    networks.map(|net| (Purpose::Services, net)).collect()
}

#[cfg(test)]
mod tests;
