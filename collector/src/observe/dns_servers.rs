//! The DNS servers that EndpointSlices list, and which of them are on the host network.
//!
//! A pod on the host network has the address of its Node, as every such pod there has. The address
//! alone does not identify the DNS server, so it must stream over TLS and show the shared secret.

use std::{collections::BTreeMap, future::pending, net::IpAddr, sync::Arc, time::Duration};

use runtime::{cluster_cidrs::Networks, endpoints::Endpoints};
use tokio::{sync::watch, time::Instant};

/// A refusal is forgotten if it is not repeated within this time. A DNS server dials again every
/// few seconds.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// Watches the DNS servers. Each clone sees every change; clones share the refusals.
#[derive(Clone, Debug)]
pub struct DnsServers {
    endpoints: watch::Receiver<Option<Endpoints>>,
    networks: watch::Receiver<Option<Arc<Networks>>>,
    refusals: Arc<watch::Sender<Refusals>>,
}

/// Refused and accepted streams from the addresses of DNS servers on the host network.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// When a stream was last refused.
    refused: BTreeMap<IpAddr, Instant>,
    /// The number of open streams that showed the secret. While there is one, a refused stream may
    /// be another pod's of the same Node.
    proven: BTreeMap<IpAddr, usize>,
}

/// Counts an open stream as proven while it lives: the stream comes from a DNS server on the host
/// network, and has shown the secret.
#[derive(Debug)]
pub(super) struct Proven {
    address: IpAddr,
    refusals: Arc<watch::Sender<Refusals>>,
}

impl Drop for Proven {
    fn drop(&mut self) {
        self.refusals.send_modify(|refusals| {
            if let Some(streams) = refusals.proven.get_mut(&self.address) {
                *streams = streams.saturating_sub(1);
                if *streams == 0 {
                    refusals.proven.remove(&self.address);
                }
            }
        });
    }
}

/// Whether an address is a DNS server's, and on which network.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Placement {
    /// Not a DNS server, or not listed yet.
    Unlisted,
    /// A DNS server with an address of its own. Until Nodes were read, every DNS server counts as
    /// one.
    PodNetwork,
    /// A DNS server with the address of a Node.
    HostNetwork,
}

/// A snapshot of the endpoints and the Nodes.
#[derive(Clone, Debug)]
pub(super) struct Listing {
    endpoints: Option<Endpoints>,
    networks: Option<Arc<Networks>>,
}

impl Listing {
    pub(super) fn placement(&self, address: IpAddr) -> Placement {
        let mut listed = self.endpoints.iter().flat_map(|all| all.keys());
        let is_listed = listed.any(|endpoint| endpoint.ip().to_canonical() == address);
        match &self.networks {
            Some(networks) if is_listed => match networks.is_node(address) {
                Some(true) => Placement::HostNetwork,
                Some(false) | None => Placement::PodNetwork,
            },
            _ => Placement::Unlisted,
        }
    }

    /// Whether Nodes cannot be read, so that host network and pod network cannot be told apart.
    pub(super) fn lacks_nodes(&self) -> bool {
        let networks = self.networks.as_ref();
        self.endpoints.is_some() && networks.is_some_and(|networks| !networks.knows_nodes())
    }
}

impl DnsServers {
    /// The DNS servers at these endpoints. While either receiver has `None`, no peer is known.
    pub fn new(
        endpoints: watch::Receiver<Option<Endpoints>>,
        networks: watch::Receiver<Option<Arc<Networks>>>,
    ) -> Self {
        Self {
            endpoints,
            networks,
            refusals: Arc::new(watch::channel(Refusals::default()).0),
        }
    }

    pub(super) fn look(&mut self) -> Listing {
        Listing {
            endpoints: self.endpoints.borrow_and_update().clone(),
            networks: self.networks.borrow_and_update().clone(),
        }
    }

    /// Whether the listing changed since the last call of [`DnsServers::look`]; cheap.
    pub(super) fn has_changed(&self) -> bool {
        // An error means that the program ends.
        let endpoints = self.endpoints.has_changed().unwrap_or(false);
        endpoints || self.networks.has_changed().unwrap_or(false)
    }

    /// Waits for a change since the last call of [`DnsServers::look`]. Cancel safe.
    pub(super) async fn changed(&mut self) {
        tokio::select! {
            () = changes(&mut self.endpoints) => {}
            () = changes(&mut self.networks) => {}
        }
    }

    /// Records that a stream from this DNS server was refused now, because it is on the host
    /// network.
    pub(crate) fn refuse(&self, address: IpAddr) {
        self.refusals.send_if_modified(|refusals| {
            let is_new = refusals.refused.insert(address, Instant::now()).is_none();
            is_new && !refusals.proven.contains_key(&address)
        });
    }

    /// Records that a stream from this DNS server on the host network showed the secret, for as
    /// long as the result lives.
    pub(super) fn prove(&self, address: IpAddr) -> Proven {
        self.refusals.send_modify(|refusals| {
            refusals.refused.remove(&address);
            *refusals.proven.entry(address).or_default() += 1;
        });
        Proven {
            address,
            refusals: Arc::clone(&self.refusals),
        }
    }

    /// Reports when a DNS server begins or ceases to be refused.
    pub(super) fn refusals(&self) -> watch::Receiver<Refusals> {
        self.refusals.subscribe()
    }

    /// Forgets refusals of addresses that are no longer those of DNS servers on the host network.
    pub(super) fn retain_refused(&self, listing: &Listing) {
        let is_so = |address: &IpAddr| listing.placement(*address) == Placement::HostNetwork;
        self.refusals.send_if_modified(|refusals| {
            let refused = &mut refusals.refused;
            let before = refused.len();
            refused.retain(|address, at| is_so(address) && is_recent(*at));
            refused.len() < before
        });
    }

    /// The DNS servers that are refused because they are on the host network.
    pub fn refused(&self) -> Vec<IpAddr> {
        let refusals = self.refusals.borrow();
        let is_refused = |(address, at): &(&IpAddr, &Instant)| {
            is_recent(**at) && !refusals.proven.contains_key(*address)
        };
        let refused = refusals.refused.iter().filter(is_refused);
        refused.map(|(address, _)| *address).collect()
    }
}

fn is_recent(refused_at: Instant) -> bool {
    refused_at.elapsed() < FORGOTTEN_AFTER
}

/// Waits for a change without marking it as seen.
async fn changes<T>(receiver: &mut watch::Receiver<T>) {
    if receiver.changed().await.is_ok() {
        return receiver.mark_changed();
    }
    pending().await
}
