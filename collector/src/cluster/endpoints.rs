//! The servers behind a Service, from its EndpointSlices.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use futures_util::{
    StreamExt,
    stream::{BoxStream, SelectAll},
};
use k8s_openapi::api::discovery::v1::{EndpointPort, EndpointSlice};
use runtime::{
    changes::send_if_changed,
    cluster::Cluster,
    store::{Event, ObjectKey, Scope},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::object_cache::ObjectCache;

/// The label with the Service's name.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The port name of a DNS server over UDP, in a Service with several ports.
const PORT: &str = "dns";

/// Parses `NAMESPACE/NAME` of a Service. A clap `value_parser`.
///
/// # Errors
/// A message that completes clap's.
pub fn parse_service(text: &str) -> Result<ObjectKey, &'static str> {
    let key = text.parse::<ObjectKey>().ok();
    key.filter(|key| !key.name.contains('.'))
        .ok_or("a Service is named `NAMESPACE/NAME`, as in `kube-system/kube-dns`")
}

/// The conditions of an endpoint. A missing condition has the API's default.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Conditions {
    /// It serves and does not terminate.
    pub ready: bool,
    /// It answers, terminating or not.
    pub serving: bool,
    /// It is shutting down.
    pub terminating: bool,
}

/// The UDP addresses of the DNS servers behind some Services, or the addresses of all endpoints, with port 0.
pub type Endpoints = Arc<BTreeMap<SocketAddr, Conditions>>;

/// The endpoints of one slice.
type Found = Vec<(SocketAddr, Conditions)>;

/// A change of the endpoints in slices.
type SliceEvent = Event<(ObjectKey, Found)>;

/// Finds the servers behind Services.
pub struct Discovery {
    slices: SelectAll<BoxStream<'static, (usize, SliceEvent)>>,
    /// The endpoints in each Service's slices.
    known: Vec<ObjectCache<Found>>,
    found: watch::Sender<Option<Endpoints>>,
}

impl Discovery {
    /// The DNS servers behind these Services; a Service need not exist.
    pub fn new(cluster: &Cluster, services: &[ObjectKey]) -> Self {
        Self::of(cluster, services, dns_servers)
    }

    /// All endpoints of these Services, whatever their ports; a Service need not exist.
    pub fn of_hosts(cluster: &Cluster, services: &[ObjectKey]) -> Self {
        Self::of(cluster, services, hosts)
    }

    fn of(cluster: &Cluster, services: &[ObjectKey], read: fn(&EndpointSlice) -> Found) -> Self {
        let slices = services.iter().enumerate().map(|(i, service)| {
            let scope = Scope::Namespace(service.namespace.clone());
            let labels = format!("{SERVICE_LABEL}={}", service.name);
            let events = cluster.watch::<EndpointSlice>(scope, Some(labels));
            let read = move |slice: EndpointSlice| (ObjectKey::of(&slice), read(&slice));
            events.map(move |event| (i, event.map(read))).boxed()
        });
        Self {
            slices: slices.collect(),
            known: services.iter().map(|_| ObjectCache::default()).collect(),
            found: watch::channel(None).0,
        }
    }

    /// The endpoints; `None` until every Service was read. The last known endpoints stay while the API server is away.
    pub fn found(&self) -> watch::Receiver<Option<Endpoints>> {
        self.found.subscribe()
    }

    /// Keeps the endpoints up to date until the token is cancelled.
    ///
    /// # Errors
    /// None: errors are logged and retried.
    pub async fn run(mut self, token: CancellationToken) -> anyhow::Result<()> {
        // Without any Service there is nothing to wait for.
        self.publish();
        while let Some(Some((i, event))) = token.run_until_cancelled(self.slices.next()).await {
            if let Some(known) = self.known.get_mut(i) {
                known.take(event);
            }
            self.publish();
        }
        token.cancelled().await;
        Ok(())
    }

    fn publish(&self) {
        if !self.known.iter().all(|known| known.has_begun) {
            return;
        }
        let mut all = BTreeMap::new();
        let endpoints = self.known.iter().flat_map(ObjectCache::values);
        for (address, conditions) in endpoints.flatten() {
            // An endpoint that moves to another slice is in both for a moment.
            let entry = all.entry(*address).or_insert(*conditions);
            if conditions.ready {
                *entry = *conditions;
            }
        }
        send_if_changed(&self.found, Some(Arc::new(all)));
    }
}

/// The endpoints of a slice that have a DNS port and a usable address.
fn dns_servers(slice: &EndpointSlice) -> Found {
    let ports = slice.ports.iter().flatten();
    let udp: Vec<_> = ports
        .filter(|port| port.protocol.as_deref() == Some("UDP"))
        .collect();
    let is_named = |port: &&&EndpointPort| port.name.as_deref() == Some(PORT);
    let ports: Vec<u16> = udp
        .iter()
        // A port of another name, as in CoreDNS's own Helm chart, counts if it is the only one.
        .filter(|port| udp.len() == 1 || is_named(port))
        .filter_map(|port| port.port.and_then(|port| u16::try_from(port).ok()))
        .filter(|port| *port != 0)
        .collect();
    endpoints(slice)
        .flat_map(|(address, conditions)| {
            let at = move |port| (SocketAddr::new(address, port), conditions);
            ports.iter().copied().map(at)
        })
        .collect()
}

/// The endpoints of a slice, whatever their ports.
fn hosts(slice: &EndpointSlice) -> Found {
    endpoints(slice)
        .map(|(address, conditions)| (SocketAddr::new(address, 0), conditions))
        .collect()
}

fn endpoints(slice: &EndpointSlice) -> impl Iterator<Item = (IpAddr, Conditions)> {
    let endpoints = slice.endpoints.iter().flatten();
    endpoints.filter_map(|endpoint| {
        let conditions = endpoint.conditions.as_ref();
        // By the API, an unknown `ready` counts as true, and an unknown `serving` as `ready`.
        let ready = conditions.and_then(|c| c.ready).unwrap_or(true);
        let conditions = Conditions {
            ready,
            serving: conditions.and_then(|c| c.serving).unwrap_or(ready),
            terminating: conditions.and_then(|c| c.terminating).unwrap_or(false),
        };
        // By the API, all addresses of an endpoint are interchangeable.
        let address = endpoint.addresses.first()?.parse().ok()?;
        Some((address, conditions))
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;

    /// Endpoints in this condition, as the API has them.
    pub(crate) fn listed(addresses: &[&str], terminating: bool) -> Option<Endpoints> {
        let conditions = Conditions {
            ready: false,
            serving: !terminating,
            terminating,
        };
        let all = addresses.iter().map(|it| (it.parse().unwrap(), conditions));
        Some(Arc::new(all.collect()))
    }

    fn slice(name: &str, endpoint: Value, ports: &Value) -> EndpointSlice {
        let slice = json!({"addressType": "IPv4", "endpoints": [endpoint], "ports": ports});
        let mut slice: EndpointSlice = serde_json::from_value(slice).unwrap();
        slice.metadata.name = Some(name.to_owned());
        slice
    }

    fn of(name: &str, address: &str, conditions: Value) -> EndpointSlice {
        let ports = json!([{ "name": "dns", "port": 5353, "protocol": "UDP" }]);
        let endpoint = json!({ "addresses": [address], "conditions": conditions });
        slice(name, endpoint, &ports)
    }

    #[test]
    fn dns_port_over_udp_or_the_only_udp_port_counts() {
        let port = |name, port, protocol| json!({"name": name, "port": port, "protocol": protocol});
        for (address, ports, expected) in [
            (
                "10.0.0.1",
                json!([
                    port("dns", 5353, "UDP"),
                    port("dns-tcp", 5354, "TCP"),
                    port("quic", 9153, "UDP"),
                ]),
                Some("10.0.0.1:5353"),
            ),
            (
                "fd00::1",
                json!([port("tcp-53", 53, "TCP"), port("udp-53", 54, "UDP")]),
                Some("[fd00::1]:54"),
            ),
            (
                "10.0.0.1",
                json!([port("quic", 1, "UDP"), port("udp-53", 2, "UDP")]),
                None,
            ),
            ("www.example.com", json!([port("dns", 53, "UDP")]), None),
            ("10.0.0.1", json!([port("dns", 0, "UDP")]), None),
            ("10.0.0.1", json!([{}]), None),
        ] {
            let found = dns_servers(&slice("a", json!({ "addresses": [address] }), &ports));
            let found: Vec<_> = found.iter().map(|(it, _)| *it).collect();
            let expected = expected.map(|it| it.parse().unwrap());
            assert_eq!(found, Vec::from_iter(expected), "{ports}");
        }
    }

    #[test]
    fn endpoint_without_conditions_is_ready() {
        for (conditions, expected) in [
            (json!({}), (true, true, false)),
            (json!({ "ready": false }), (false, false, false)),
            (
                json!({ "ready": false, "serving": true, "terminating": true }),
                (false, true, true),
            ),
        ] {
            let found = dns_servers(&of("a", "10.0.0.1", conditions))[0].1;
            assert_eq!((found.ready, found.serving, found.terminating), expected);
        }
    }

    #[tokio::test]
    async fn found_endpoints_stay_while_the_api_server_is_away() {
        let (found, seen) = watch::channel(None);
        let mut discovery = Discovery {
            slices: SelectAll::new(),
            known: vec![ObjectCache::default(), ObjectCache::default()],
            found,
        };
        let take = |discovery: &mut Discovery, i: usize, event: Event<EndpointSlice>| {
            let read = |slice: EndpointSlice| (ObjectKey::of(&slice), dns_servers(&slice));
            discovery.known[i].take(event.map(read));
            discovery.publish();
            seen.borrow().as_ref().map(|found| found.len())
        };
        let d = &mut discovery;
        let one = of("a", "10.0.0.1", json!({}));
        assert_eq!(take(d, 0, Event::Synced(vec![one.clone()])), None);
        assert_eq!(
            take(d, 1, Event::OutOfSync("forbidden".to_owned())),
            Some(1)
        );
        assert_eq!(
            take(d, 0, Event::Applied(of("b", "10.0.0.2", json!({})))),
            Some(2)
        );
        assert_eq!(take(d, 0, Event::OutOfSync("away".to_owned())), Some(2));
        // The same endpoint in another slice, not ready there.
        let moved = of("c", "10.0.0.1", json!({ "ready": false }));
        assert_eq!(take(d, 0, Event::Applied(moved)), Some(2));
        let address = "10.0.0.1:5353".parse().unwrap();
        assert!(seen.borrow().as_ref().unwrap()[&address].ready);
        assert_eq!(take(d, 0, Event::Deleted(ObjectKey::of(&one))), Some(2));
        assert!(!seen.borrow().as_ref().unwrap()[&address].ready);
        // The last known endpoints of an unreadable slice stay.
        let bad = ["b", "x"].map(|name| ObjectKey::of(&of(name, "10.0.0.9", json!({}))));
        assert_eq!(take(d, 0, Event::Undecodable(bad.into())), Some(2));
        assert_eq!(take(d, 0, Event::Synced(Vec::new())), Some(1));
        assert_eq!(take(d, 0, Event::Undecodable(BTreeSet::new())), Some(1));
        assert_eq!(take(d, 0, Event::Synced(Vec::new())), Some(0));
    }
}
