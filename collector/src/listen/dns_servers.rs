//! The DNS servers that EndpointSlices list, and which of them have the address of a Node.

use std::{future::pending, net::IpAddr, sync::Arc};

use runtime::{cluster_cidrs::Networks, endpoints::Endpoints};
use tokio::sync::watch;

/// Watches the DNS servers. Each clone sees every change.
#[derive(Clone, Debug)]
pub struct DnsServers {
    endpoints: watch::Receiver<Option<Endpoints>>,
    networks: watch::Receiver<Option<Arc<Networks>>>,
}

/// Whether an address is a DNS server's, and on which network.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Placement {
    /// Not a DNS server, or not listed yet.
    Unlisted,
    /// A DNS server with an address of its own. If Nodes cannot be read, every DNS server counts as
    /// one.
    PodNetwork,
    /// A DNS server with the address of a Node.
    HostNetwork,
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
        }
    }

    pub(super) fn placement(&mut self, address: IpAddr) -> Placement {
        let endpoints = self.endpoints.borrow_and_update();
        let networks = self.networks.borrow_and_update();
        let mut listed = endpoints.iter().flat_map(|all| all.keys());
        let is_listed = listed.any(|endpoint| endpoint.ip().to_canonical() == address);
        match &*networks {
            Some(networks) if is_listed => match networks.is_node(address) {
                Some(true) => Placement::HostNetwork,
                Some(false) | None => Placement::PodNetwork,
            },
            _ => Placement::Unlisted,
        }
    }

    /// Whether anything changed since the last call of [`DnsServers::placement`]; cheap.
    pub(super) fn has_changed(&self) -> bool {
        // An error means that the program ends.
        let endpoints = self.endpoints.has_changed().unwrap_or(false);
        endpoints || self.networks.has_changed().unwrap_or(false)
    }

    /// Waits for a change since the last call of [`DnsServers::placement`]. Cancel safe.
    pub(super) async fn changed(&mut self) {
        tokio::select! {
            () = changes(&mut self.endpoints) => {}
            () = changes(&mut self.networks) => {}
        }
    }
}

/// Waits for a change without marking it as seen.
async fn changes<T>(receiver: &mut watch::Receiver<T>) {
    if receiver.changed().await.is_ok() {
        return receiver.mark_changed();
    }
    pending().await
}
