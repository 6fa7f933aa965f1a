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

use super::{
    dns_servers::{DnsServers, Placement, Proven},
    secret::Secrets,
};

/// The rules for the peers of all listeners.
#[derive(Clone, Debug, Default)]
pub struct PeerAcl {
    /// Every peer may stream (`--insecure-listen`).
    pub anyone: bool,
    /// Networks whose hosts may stream (`--allow-peer`).
    pub allowed: Arc<[IpNet]>,
    /// The DNS servers of the cluster, which may stream even if they are not ready. On the host
    /// network they need TLS and the secret.
    pub servers: Option<DnsServers>,
    /// DNS servers on the host network may stream without TLS and secret
    /// (`--insecure-host-network`).
    pub insecure_host_network: bool,
    /// The secrets of which every event must show one (`--secret-file`).
    pub secrets: Option<Reloaded<Secrets>>,
}

impl PeerAcl {
    /// The status of a new peer. A unix socket is protected by its file mode. A peer at a loopback
    /// address is on this host, and is checked only against `--allow-peer`. `has_secret`: every
    /// event must show the secret.
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

/// Whether a peer is known, which may change while it is connected.
#[derive(Debug)]
pub(super) struct PeerStatus {
    is_known: bool,
    has_shown_secret: bool,
    placement: Placement,
    /// The listing that decides; `None` if the status is final.
    listed: Option<Listed>,
}

#[derive(Debug)]
struct Listed {
    address: IpAddr,
    on_host_network: OnHostNetwork,
    servers: DnsServers,
    proven: Option<Proven>,
}

/// The requirement for a stream from a DNS server's address on the host network: another pod may
/// have the same address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum OnHostNetwork {
    Speaks,
    /// Known once one of its events has shown the secret.
    ShowsSecret,
    IsRefused,
}

impl PeerStatus {
    /// A peer that is always known.
    pub(super) fn trusted() -> Self {
        Self {
            is_known: true,
            has_shown_secret: false,
            placement: Placement::Unlisted,
            listed: None,
        }
    }

    /// As of the last refresh.
    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Whether it is unknown because it is a DNS server on the host network, as of the last
    /// refresh.
    pub(super) fn is_refused_on_host_network(&self) -> bool {
        !self.is_known && self.placement == Placement::HostNetwork
    }

    /// Whether it becomes known by showing the secret.
    pub(super) fn awaits_secret(&self) -> bool {
        self.is_refused_on_host_network() && self.may_prove_itself()
    }

    /// Whether showing the secret matters, now or later.
    pub(super) fn may_prove_itself(&self) -> bool {
        let listed = self.listed.as_ref();
        !self.has_shown_secret
            && listed.is_some_and(|it| it.on_host_network == OnHostNetwork::ShowsSecret)
    }

    /// Records that this connection showed the secret. Returns whether that made the peer known.
    pub(super) fn show_secret(&mut self) -> bool {
        self.has_shown_secret = true;
        self.look()
    }

    /// Records that the peer did not show the secret in time.
    pub(super) fn refuse(&self) {
        if let Some(listed) = &self.listed {
            listed.servers.refuse(listed.address);
        }
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
        has_changed && self.look()
    }

    /// Waits until the endpoints or the Nodes change. Cancel safe.
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
