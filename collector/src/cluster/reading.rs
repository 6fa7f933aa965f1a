//! Reads the networks and addresses of the cluster itself: those of its API server, Services, pods and Nodes.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use futures_util::{
    Stream, StreamExt,
    stream::{BoxStream, SelectAll},
};
use ipnet::IpNet;
use k8s_openapi::api::{discovery::v1::EndpointSlice, networking::v1::ServiceCIDR};
use runtime::{
    changes::send_if_changed,
    cluster::{Cluster, Object},
    store::{Event, ObjectKey, Scope},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    networks::{Networks, Purpose},
    node::NodeNetworks,
    object_cache::ObjectCache,
    user_defined::ClusterUserDefinedNetwork,
};

/// How long the start waits for the sources.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The kind of object that networks are read from, in an administrator's words.
type NetworkSource = &'static str;

const API_SERVER: NetworkSource = "EndpointSlices of default/kubernetes";
const SERVICE_CIDRS: NetworkSource = "ServiceCIDRs";
const NODES: NetworkSource = "Nodes";
const USER_DEFINED_NETWORKS: NetworkSource = "ClusterUserDefinedNetworks";
const SOURCES: [NetworkSource; 4] = [API_SERVER, SERVICE_CIDRS, NODES, USER_DEFINED_NETWORKS];

/// The networks in an object.
pub(super) type Found = Vec<(Purpose, IpNet)>;

/// Reads the networks of a cluster and follows their changes.
///
/// A source may be forbidden, or unknown to the API server because it is old or lacks the CRD. The log says so once,
/// and the read is retried every few seconds. The last known networks stay while the API server is away.
pub struct Reading {
    changes: SelectAll<BoxStream<'static, (NetworkSource, NetworksEvent)>>,
    known: BTreeMap<NetworkSource, ObjectCache<Found>>,
    found: watch::Sender<Option<Arc<Networks>>>,
}

/// A change of the networks in objects.
type NetworksEvent = Event<(ObjectKey, Found)>;

impl Reading {
    /// Reads from this cluster.
    pub fn new(cluster: &Cluster) -> Self {
        let slices = Some("kubernetes.io/service-name=kubernetes".to_owned());
        let api_server = cluster.watch(Scope::Namespace("default".to_owned()), slices);
        Self::of([
            changes(API_SERVER, api_server, endpoints),
            changes(
                SERVICE_CIDRS,
                cluster.watch(Scope::All, None),
                service_cidrs,
            ),
            changes(
                NODES,
                cluster.watch(Scope::All, None),
                NodeNetworks::networks,
            ),
            changes(
                USER_DEFINED_NETWORKS,
                cluster.watch(Scope::All, None),
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
            tokio::select! {
                () = token.cancelled() => return Ok(()),
                Some((source, change)) = self.changes.next() => {
                    if self.take(source, change) {
                        self.publish();
                    }
                }
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

    fn publish(&self) {
        if !self.known.values().all(|known| known.has_begun) {
            return;
        }
        let objects = self.known.values().flat_map(ObjectCache::values);
        let mut networks = Networks::new(objects.flatten().copied());
        let nodes = self.known.get(NODES);
        if !nodes.is_some_and(|nodes| nodes.was_listed) {
            networks.nodes = None;
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
