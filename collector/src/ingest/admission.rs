//! Who may speak: over TCP and TLS the DNS servers of the cluster, and who is allowed by address.

use std::{future::pending, net::IpAddr, sync::Arc};

use ipnet::IpNet;
use runtime::listen::{ListenAddress, Peer};

use super::dns_servers::{DnsServers, Placement};

/// The rules for the peers of all listeners.
#[derive(Clone, Debug, Default)]
pub struct Admission {
    /// Whoever reaches a socket may speak (`--insecure-listen`).
    pub anyone: bool,
    /// Networks whose addresses may (`--allow-peer`).
    pub allowed: Arc<[IpNet]>,
    /// The DNS servers of the cluster may speak in any condition. On the host network they need TLS and the secret.
    pub servers: Option<DnsServers>,
    /// Those on the host network may without (`--insecure-host-network`).
    pub insecure_host_network: bool,
}

impl Admission {
    /// What holds for a peer of this listener. Who reaches a unix socket was let in by its file; who reaches a loopback address
    /// is on this host, and is only asked for if `--allow-peer` says so. `has_secret`: every event has to show the secret.
    pub(super) fn standing(
        &self,
        listener: &ListenAddress,
        peer: &Peer,
        has_secret: bool,
    ) -> Standing {
        let is_loopback = listener
            .socket_address()
            .is_some_and(|address| address.ip().is_loopback());
        let no_rule = self.allowed.is_empty() && (is_loopback || self.servers.is_none());
        let address = match peer.ip() {
            Some(address) if !self.anyone && !no_rule => address,
            _ => return Standing::trusted(),
        };
        if self.allowed.iter().any(|net| net.contains(&address)) {
            return Standing::trusted();
        }
        let is_encrypted = matches!(listener, ListenAddress::Tls(_));
        let listed = self.servers.clone().map(|servers| Listed {
            address,
            host_network: self.insecure_host_network || (is_encrypted && has_secret),
            servers,
        });
        let mut standing = Standing {
            is_known: false,
            placement: Placement::Unlisted,
            listed,
        };
        standing.look();
        standing
    }
}

/// Whether a peer may speak, which may change while it is connected.
#[derive(Debug)]
pub(super) struct Standing {
    is_known: bool,
    placement: Placement,
    /// What it depends on; nothing if it does not change.
    listed: Option<Listed>,
}

#[derive(Debug)]
struct Listed {
    address: IpAddr,
    /// A DNS server on the host network may speak, too.
    host_network: bool,
    servers: DnsServers,
}

impl Standing {
    /// Of a peer that may speak for good.
    pub(super) fn trusted() -> Self {
        Self {
            is_known: true,
            placement: Placement::Unlisted,
            listed: None,
        }
    }

    /// Whether it may speak, as of the last look.
    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Whether it may not speak because it is a DNS server on the host network, as of the last look.
    pub(super) fn is_refused_on_host_network(&self) -> bool {
        !self.is_known && self.placement == Placement::HostNetwork
    }

    /// Whether there is any way for it to become known.
    pub(super) fn may_change(&self) -> bool {
        self.listed.is_some()
    }

    /// Looks again if the endpoints or the Nodes changed; cheap if they did not. Returns whether the answer is another one.
    pub(super) fn refresh(&mut self) -> bool {
        let listed = self.listed.as_ref();
        let has_changed = listed.is_some_and(|listed| listed.servers.has_changed());
        has_changed && self.look()
    }

    /// Waits until the endpoints or the Nodes change. May be cancelled.
    pub(super) async fn changed(&mut self) {
        match &mut self.listed {
            Some(listed) => listed.servers.changed().await,
            None => pending().await,
        }
    }

    fn look(&mut self) -> bool {
        let Some(listed) = &mut self.listed else {
            return false;
        };
        self.placement = listed.servers.look().placement(listed.address);
        let is_known = match self.placement {
            Placement::Unlisted => false,
            Placement::PodNetwork => true,
            Placement::HostNetwork => listed.host_network,
        };
        let was_known = std::mem::replace(&mut self.is_known, is_known);
        if self.placement == Placement::HostNetwork {
            listed.servers.set_refused(listed.address, !is_known);
        }
        was_known != is_known
    }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
