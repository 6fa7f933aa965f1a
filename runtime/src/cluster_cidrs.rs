//! Which networks and addresses are a cluster's own, as far as they can be read: those of its API server, Services, pods and
//! Nodes.

mod node;
mod set;
mod user_defined;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
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

pub use self::set::NetworkSet;
use self::{node::NodeNetworks, user_defined::ClusterUserDefinedNetwork};
use crate::{
    changes::send_if_changed,
    cluster::{self, AnyObject, Cluster, Watching},
    store::{Event, ObjectKey, Scope},
};

/// How long is waited at the start for what can be read.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the address of a deleted Node counts. Pods on its host network run on for a while, and EndpointSlices list them.
const NODE_GONE: Duration = Duration::from_secs(600);

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
    /// The addresses of the pods in a ClusterUserDefinedNetwork of OVN-Kubernetes that is their primary network.
    UserDefinedNetworks,
    /// A Node's own addresses: `InternalIP` and `ExternalIP` in its `status.addresses`.
    Nodes,
}

impl Purpose {
    /// All of them. An address with several purposes has the first: only that of [`Purpose::Nodes`] may be allowed, and an API
    /// server's address is often a Node's too.
    pub const ALL: [Self; 5] = [
        Self::ApiServer,
        Self::Services,
        Self::Pods,
        Self::UserDefinedNetworks,
        Self::Nodes,
    ];

    /// Every word of [`Purpose::as_str`].
    pub const WORDS: &[&str] = &[
        "api-server",
        "service-cidr",
        "pod-cidr",
        "user-defined-network",
        "node",
    ];

    /// A word for metric labels and log lines.
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

/// The cluster's own networks. The default knows of none, and not of the Nodes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Networks {
    api_server: NetworkSet,
    services: NetworkSet,
    pods: NetworkSet,
    user_defined: NetworkSet,
    /// Single addresses, thousands in a large cluster. `None`: the Nodes were never read.
    nodes: Option<HashSet<IpAddr>>,
}

impl Networks {
    /// These networks, each with its purpose. Of a Node's network only the address counts.
    pub fn new(networks: impl IntoIterator<Item = (Purpose, IpNet)>) -> Self {
        let mut all = Purpose::ALL.map(|_| Vec::new());
        let [api_server, services, pods, user_defined, nodes] = &mut all;
        for (purpose, net) in networks {
            match purpose {
                Purpose::ApiServer => api_server.push(net),
                Purpose::Services => services.push(net),
                Purpose::Pods => pods.push(net),
                Purpose::UserDefinedNetworks => user_defined.push(net),
                Purpose::Nodes => nodes.push(net),
            }
        }
        let [api_server, services, pods, user_defined, nodes] = all;
        let addresses = nodes.into_iter().map(|net| net.addr().to_canonical());
        Self {
            api_server: api_server.into_iter().collect(),
            services: services.into_iter().collect(),
            pods: pods.into_iter().collect(),
            user_defined: user_defined.into_iter().collect(),
            nodes: Some(addresses.collect()),
        }
    }

    /// How many networks or addresses there are for a purpose.
    pub fn count(&self, purpose: Purpose) -> usize {
        match purpose {
            Purpose::ApiServer => self.api_server.len(),
            Purpose::Services => self.services.len(),
            Purpose::Pods => self.pods.len(),
            Purpose::UserDefinedNetworks => self.user_defined.len(),
            Purpose::Nodes => self.nodes.as_ref().map_or(0, HashSet::len),
        }
    }

    /// What an address in canonical form is for, if it is the cluster's.
    pub fn purpose(&self, address: IpAddr) -> Option<Purpose> {
        Purpose::ALL.into_iter().find(|purpose| match purpose {
            Purpose::ApiServer => self.api_server.contains(address),
            Purpose::Services => self.services.contains(address),
            Purpose::Pods => self.pods.contains(address),
            Purpose::UserDefinedNetworks => self.user_defined.contains(address),
            Purpose::Nodes => self.is_node(address) == Some(true),
        })
    }

    /// Whether the Nodes were ever read.
    pub fn knows_nodes(&self) -> bool {
        self.nodes.is_some()
    }

    /// Whether an address in canonical form is a Node's own; `None` if the Nodes were never read.
    pub fn is_node(&self, address: IpAddr) -> Option<bool> {
        self.nodes.as_ref().map(|nodes| nodes.contains(&address))
    }
}

/// What networks are read from.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Source {
    /// EndpointSlices of the Service `default/kubernetes`.
    ApiServer,
    ServiceCidrs,
    Nodes,
    UserDefinedNetworks,
}

impl Source {
    const ALL: [Self; 4] = [
        Self::ApiServer,
        Self::ServiceCidrs,
        Self::Nodes,
        Self::UserDefinedNetworks,
    ];

    /// What an administrator knows them by.
    fn as_str(self) -> &'static str {
        match self {
            Self::ApiServer => "EndpointSlices of default/kubernetes",
            Self::ServiceCidrs => "ServiceCIDRs",
            Self::Nodes => "Nodes",
            Self::UserDefinedNetworks => "ClusterUserDefinedNetworks",
        }
    }
}

/// The networks in an object.
type Found = Vec<(Purpose, IpNet)>;

/// Reads the networks of a cluster, and goes on reading.
///
/// Each of the sources may be forbidden, or not served by an API server that is old or has no CRD of it: that is said once in the log, and tried
/// again every few seconds. What was read holds while the API server is away.
pub struct Reading {
    changes: SelectAll<BoxStream<'static, (Source, Change)>>,
    known: BTreeMap<Source, Known>,
    /// The addresses of deleted Nodes, and until when the collector still refuses them.
    gone: BTreeMap<IpAddr, Instant>,
    found: watch::Sender<Option<Arc<Networks>>>,
}

/// What one source says.
#[derive(Debug, Default)]
struct Known {
    /// Something, if only that it cannot be read.
    has_begun: bool,
    /// It was listed, so that what is not there does not exist.
    was_listed: bool,
    /// That it cannot be read was said.
    said: bool,
    /// Objects that are there and cannot be read: what was known of them holds.
    undecodable: BTreeSet<ObjectKey>,
    networks: BTreeMap<ObjectKey, Found>,
}

/// What became of the networks in objects.
#[derive(Debug)]
enum Change {
    All(BTreeMap<ObjectKey, Found>),
    One(ObjectKey, Found),
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
                Source::ApiServer,
                cluster::watch(client(), api_server, bad()),
                endpoints,
            ),
            changes(
                Source::ServiceCidrs,
                cluster::watch_all(client(), bad()),
                service_cidrs,
            ),
            changes(
                Source::Nodes,
                cluster::watch_all(client(), bad()),
                NodeNetworks::networks,
            ),
            changes(
                Source::UserDefinedNetworks,
                cluster::watch_all(client(), bad()),
                ClusterUserDefinedNetwork::networks,
            ),
        ];
        Self::of(changes.into_iter().collect())
    }

    fn of(changes: SelectAll<BoxStream<'static, (Source, Change)>>) -> Self {
        let known = Source::ALL.map(|source| (source, Known::default()));
        Self {
            changes,
            known: known.into(),
            gone: BTreeMap::new(),
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
                    warn!("what can be read of the cluster's own networks is not all known yet");
                    for known in self.known.values_mut() {
                        known.has_begun = true;
                    }
                    self.publish();
                }
            }
        }
    }

    /// Returns whether there is something new.
    fn take(&mut self, source: Source, change: Change) -> bool {
        let known = self.known.entry(source).or_default();
        if let Change::Undecodable(keys) = change {
            // Nothing is known by that alone: the others are about to be told.
            known.undecodable = keys;
            return false;
        }
        let is_listed = matches!(change, Change::All(_));
        let is_first =
            !std::mem::replace(&mut known.has_begun, true) || (is_listed && !known.was_listed);
        known.was_listed |= is_listed;
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
                        info!(
                            objects = source.as_str(), %reason,
                            "cannot be read: the addresses that they named are refused in answers as before, and no others of theirs"
                        );
                    }
                    false
                }
                Change::Undecodable(_) => false,
            }
    }

    fn publish(&mut self) {
        if !self.known.values().all(|known| known.has_begun) {
            return;
        }
        let objects = self.known.values().flat_map(|it| it.networks.values());
        let mut networks = Networks::new(objects.flatten().copied());
        let nodes = self.known.get(&Source::Nodes);
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

fn changes<K: AnyObject>(
    source: Source,
    events: impl Stream<Item = Event<K>> + Send + 'static,
    networks: fn(&K) -> Found,
) -> BoxStream<'static, (Source, Change)> {
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
    events.map(move |event| (source, change(event))).boxed()
}

/// Ready or not: who answers there is the API server, or will be.
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
