//! Access control for dnstap peers. Over TCP and TLS, the DNS servers of the cluster and allowed
//! networks may stream.
//!
//! A peer is *known* while it may stream.

use std::{future::pending, net::IpAddr, sync::Arc};

use ipnet::IpNet;
use runtime::{
    listen::{ListenAddress, Peer},
    reload::Reloaded,
};
use tokio::sync::watch;

use crate::{
    cluster::{endpoints::Endpoints, networks::Networks},
    listen::secret::Secrets,
};

/// The rules for the peers of all listeners.
#[derive(Clone, Debug, Default)]
pub struct PeerAcl {
    /// Networks whose hosts may stream (`--allow-peer`).
    pub allowed: Arc<[IpNet]>,
    /// The DNS servers of the cluster, which may stream even if they are not ready. One with the
    /// address of a Node needs the secret: other pods of that Node have the same address.
    pub servers: Option<DnsServers>,
    /// The secrets of which every event must show one (`--secret-file`).
    pub secrets: Option<Reloaded<Secrets>>,
}

impl PeerAcl {
    /// The status of a new peer. A unix socket is protected by its file mode. A peer at a loopback
    /// address is on this host, and is checked only against `--allow-peer`.
    pub(super) fn status(&self, listener: &ListenAddress, peer: &Peer) -> PeerStatus {
        let is_loopback = listener
            .socket_address()
            .is_some_and(|address| address.ip().is_loopback());
        let no_rule = self.allowed.is_empty() && (is_loopback || self.servers.is_none());
        let address = match peer.ip() {
            Some(address) if !no_rule => address,
            _ => return PeerStatus::trusted(),
        };
        if self.allowed.iter().any(|net| net.contains(&address)) {
            return PeerStatus::trusted();
        }
        let mut status = PeerStatus {
            admission: Admission::Unlisted,
            listed: self.servers.clone().map(|servers| Listed {
                address,
                shows_secret: self.secrets.is_some(),
                servers,
            }),
        };
        status.evaluate();
        status
    }
}

/// Whether a peer may stream, which may change while it is connected.
#[derive(Debug)]
pub(super) struct PeerStatus {
    admission: Admission,
    /// The listing that decides; `None` if the status is final.
    listed: Option<Listed>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Admission {
    Known,
    /// Not a DNS server, or not listed yet.
    Unlisted,
    /// A DNS server with the address of a Node, whose events need not show the secret.
    HostNetwork,
}

#[derive(Debug)]
struct Listed {
    address: IpAddr,
    /// Every event must show the secret.
    shows_secret: bool,
    servers: DnsServers,
}

impl PeerStatus {
    /// A peer that is always known.
    pub(super) fn trusted() -> Self {
        Self {
            admission: Admission::Known,
            listed: None,
        }
    }

    /// As of the last refresh.
    pub(super) fn is_known(&self) -> bool {
        self.admission == Admission::Known
    }

    /// Whether it is unknown because it has the address of a Node, as of the last refresh.
    pub(super) fn is_refused_on_host_network(&self) -> bool {
        self.admission == Admission::HostNetwork
    }

    /// Whether it can become known at all.
    pub(super) fn may_change(&self) -> bool {
        self.listed.is_some()
    }

    /// Checks again if the endpoints or the Nodes changed; cheap if they did not. Returns whether
    /// the peer became known or unknown.
    pub(super) fn refresh(&mut self) -> bool {
        let listed = self.listed.as_ref();
        if !listed.is_some_and(|listed| listed.servers.has_changed()) {
            return false;
        }
        let was_known = self.is_known();
        self.evaluate();
        self.is_known() != was_known
    }

    /// Waits until the endpoints or the Nodes change. Cancel safe.
    pub(super) async fn changed(&mut self) {
        match &mut self.listed {
            Some(listed) => listed.servers.changed().await,
            None => pending().await,
        }
    }

    fn evaluate(&mut self) {
        if let Some(listed) = &mut self.listed {
            self.admission = match listed.servers.is_on_host_network(listed.address) {
                None => Admission::Unlisted,
                Some(true) if !listed.shows_secret => Admission::HostNetwork,
                Some(_) => Admission::Known,
            };
        }
    }
}

/// Watches the DNS servers. Each clone sees every change.
#[derive(Clone, Debug)]
pub struct DnsServers {
    endpoints: watch::Receiver<Option<Endpoints>>,
    networks: watch::Receiver<Option<Arc<Networks>>>,
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

    /// Whether the DNS server at this address has the address of a Node; `None` if the address is not a DNS server's, or not
    /// listed yet. If Nodes cannot be read, no DNS server counts as one with such an address.
    fn is_on_host_network(&mut self, address: IpAddr) -> Option<bool> {
        let endpoints = self.endpoints.borrow_and_update();
        let networks = self.networks.borrow_and_update();
        let mut listed = endpoints.iter().flat_map(|all| all.keys());
        let is_listed = listed.any(|endpoint| endpoint.ip().to_canonical() == address);
        let networks = networks.as_ref().filter(|_| is_listed)?;
        Some(networks.is_node(address).unwrap_or(false))
    }

    /// Whether anything changed since the last call of [`DnsServers::is_on_host_network`]; cheap.
    fn has_changed(&self) -> bool {
        // An error means that the program ends.
        let endpoints = self.endpoints.has_changed().unwrap_or(false);
        endpoints || self.networks.has_changed().unwrap_or(false)
    }

    /// Waits for a change since the last call of [`DnsServers::is_on_host_network`]. Cancel safe.
    async fn changed(&mut self) {
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

#[cfg(test)]
mod tests;
