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

use crate::listen::{
    dns_servers::{DnsServers, Placement},
    secret::Secrets,
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
            is_known: false,
            placement: Placement::Unlisted,
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

/// Whether a peer is known, which may change while it is connected.
#[derive(Debug)]
pub(super) struct PeerStatus {
    is_known: bool,
    placement: Placement,
    /// The listing that decides; `None` if the status is final.
    listed: Option<Listed>,
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
            is_known: true,
            placement: Placement::Unlisted,
            listed: None,
        }
    }

    /// As of the last refresh.
    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Whether it is unknown because it has the address of a Node, as of the last refresh.
    pub(super) fn is_refused_on_host_network(&self) -> bool {
        !self.is_known && self.placement == Placement::HostNetwork
    }

    /// Whether it can become known at all.
    pub(super) fn may_change(&self) -> bool {
        self.listed.is_some()
    }

    /// Checks again if the endpoints or the Nodes changed; cheap if they did not. Returns whether
    /// the status changed.
    pub(super) fn refresh(&mut self) -> bool {
        let listed = self.listed.as_ref();
        let has_changed = listed.is_some_and(|listed| listed.servers.has_changed());
        has_changed && self.evaluate()
    }

    /// Waits until the endpoints or the Nodes change. Cancel safe.
    pub(super) async fn changed(&mut self) {
        match &mut self.listed {
            Some(listed) => listed.servers.changed().await,
            None => pending().await,
        }
    }

    fn evaluate(&mut self) -> bool {
        let Some(listed) = &mut self.listed else {
            return false;
        };
        self.placement = listed.servers.placement(listed.address);
        let is_known = match self.placement {
            Placement::Unlisted => false,
            Placement::PodNetwork => true,
            Placement::HostNetwork => listed.shows_secret,
        };
        std::mem::replace(&mut self.is_known, is_known) != is_known
    }
}

#[cfg(test)]
mod tests;
