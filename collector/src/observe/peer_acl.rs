//! Who may speak: over TCP and TLS the DNS servers of the cluster, and who is allowed by address.

use std::{future::pending, net::IpAddr, sync::Arc};

use ipnet::IpNet;
use runtime::listen::{ListenAddress, Peer};

use super::dns_servers::{DnsServers, Placement, Proven};

/// The rules for the peers of all listeners.
#[derive(Clone, Debug, Default)]
pub struct PeerAcl {
    /// Whoever reaches a socket may speak (`--insecure-listen`).
    pub anyone: bool,
    /// Networks whose addresses may (`--allow-peer`).
    pub allowed: Arc<[IpNet]>,
    /// The DNS servers of the cluster may speak in any condition. On the host network they need TLS and the secret.
    pub servers: Option<DnsServers>,
    /// Those on the host network may without (`--insecure-host-network`).
    pub insecure_host_network: bool,
}

impl PeerAcl {
    /// What holds for a peer of this listener. Who reaches a unix socket was let in by its file; who reaches a loopback address
    /// is on this host, and is only asked for if `--allow-peer` says so. `has_secret`: every event has to show the secret.
    pub(super) fn standing(
        &self,
        listener: &ListenAddress,
        peer: &Peer,
        has_secret: bool,
    ) -> PeerStatus {
        let is_loopback = listener
            .socket_address()
            .is_some_and(|address| address.ip().is_loopback());
        let no_rule = self.allowed.is_empty() && (is_loopback || self.servers.is_none());
        let address = match peer.ip() {
            Some(address) if !self.anyone && !no_rule => address,
            _ => return PeerStatus::trusted(),
        };
        if self.allowed.iter().any(|net| net.contains(&address)) {
            return PeerStatus::trusted();
        }
        let is_encrypted = matches!(listener, ListenAddress::Tls(_));
        let on_host_network = match (self.insecure_host_network, is_encrypted && has_secret) {
            (true, _) => OnHostNetwork::Speaks,
            (false, true) => OnHostNetwork::ShowsSecret,
            (false, false) => OnHostNetwork::IsRefused,
        };
        let listed = self.servers.clone().map(|servers| Listed {
            address,
            on_host_network,
            servers,
            proven: None,
        });
        let mut standing = PeerStatus {
            is_known: false,
            has_shown_secret: false,
            placement: Placement::Unlisted,
            listed,
        };
        standing.look();
        standing
    }
}

/// Whether a peer may speak, which may change while it is connected.
#[derive(Debug)]
pub(super) struct PeerStatus {
    is_known: bool,
    has_shown_secret: bool,
    placement: Placement,
    /// What it depends on; nothing if it does not change.
    listed: Option<Listed>,
}

#[derive(Debug)]
struct Listed {
    address: IpAddr,
    on_host_network: OnHostNetwork,
    servers: DnsServers,
    proven: Option<Proven>,
}

/// What a stream from the address of a DNS server on the host network has to do, which may be another pod's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum OnHostNetwork {
    Speaks,
    /// It may speak when one of its events has shown the secret.
    ShowsSecret,
    IsRefused,
}

impl PeerStatus {
    /// Of a peer that may speak for good.
    pub(super) fn trusted() -> Self {
        Self {
            is_known: true,
            has_shown_secret: false,
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

    /// Whether it may speak as soon as it shows the secret.
    pub(super) fn awaits_secret(&self) -> bool {
        self.is_refused_on_host_network() && self.may_prove_itself()
    }

    /// Whether it matters, now or later, that it shows the secret.
    pub(super) fn may_prove_itself(&self) -> bool {
        let listed = self.listed.as_ref();
        !self.has_shown_secret
            && listed.is_some_and(|it| it.on_host_network == OnHostNetwork::ShowsSecret)
    }

    /// It showed the secret, over this connection. Returns whether it may speak now and could not before.
    pub(super) fn show_secret(&mut self) -> bool {
        self.has_shown_secret = true;
        self.look()
    }

    /// It did not show the secret in time.
    pub(super) fn refuse(&self) {
        if let Some(listed) = &self.listed {
            listed.servers.refuse(listed.address);
        }
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
            Placement::HostNetwork => match listed.on_host_network {
                OnHostNetwork::Speaks => true,
                OnHostNetwork::ShowsSecret => self.has_shown_secret,
                OnHostNetwork::IsRefused => false,
            },
        };
        let was_known = std::mem::replace(&mut self.is_known, is_known);
        let is_on_host_network = self.placement == Placement::HostNetwork;
        if !(is_known && is_on_host_network) {
            listed.proven = None;
        } else if listed.proven.is_none() {
            listed.proven = Some(listed.servers.prove(listed.address));
        }
        if is_on_host_network && listed.on_host_network == OnHostNetwork::IsRefused {
            listed.servers.refuse(listed.address);
        }
        was_known != is_known
    }
}

#[cfg(test)]
mod tests;
