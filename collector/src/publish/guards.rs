//! The guards: addresses that the collector refuses. The publisher asks them once for each address that comes in.

use std::{net::IpAddr, sync::Arc};

use ipnet::IpNet;
use tokio::sync::watch;

use crate::cluster::networks::{Networks, Purpose};

/// The addresses that the collector refuses in every answer. [`proto::address`] has fixed ones, the
/// administrator denies some, and some are the cluster's own.
#[derive(Clone, Debug, Default)]
pub struct Guards {
    denied: Arc<[IpNet]>,
    cluster: Arc<Networks>,
    allow_nodes: bool,
}

/// How an administrator can allow addresses that are refused for this reason.
pub fn advice(reason: &str) -> Option<&'static str> {
    (reason == Purpose::Nodes.as_str()).then_some(
        "it is the address of a Node of this cluster; if the name is meant for Nodes, allow their addresses with --allow-node-addresses",
    )
}

impl Guards {
    /// The fixed guards, and these networks (`--deny-answer`).
    pub fn new(denied: Vec<IpNet>) -> Self {
        Self {
            denied: denied.into(),
            cluster: Arc::default(),
            allow_nodes: false,
        }
    }

    /// Allows or refuses the addresses of Nodes (`--allow-node-addresses`).
    #[must_use]
    pub fn allow_nodes(self, allow_nodes: bool) -> Self {
        Self {
            allow_nodes,
            ..self
        }
    }

    /// Sets the cluster's own networks.
    #[must_use]
    pub fn with(&self, cluster: Arc<Networks>) -> Self {
        Self {
            cluster,
            ..self.clone()
        }
    }

    /// Whether the cluster's own addresses with this purpose are refused.
    pub fn refuses(&self, purpose: Purpose) -> bool {
        !(self.allow_nodes && purpose == Purpose::Nodes)
    }

    /// The address in canonical form, if no guard refuses it or an IPv4 address embedded in it.
    ///
    /// # Errors
    /// The reason, of [`GUARDS`](proto::address::GUARDS), as a metric label.
    pub fn admit(&self, address: IpAddr) -> Result<IpAddr, &'static str> {
        let address = proto::address::canonical(address);
        proto::address::check(address).map_err(proto::address::Forbidden::as_str)?;
        self.check(address)?;
        for inner in proto::address::embedded(address) {
            self.check(inner.into())?;
        }
        Ok(address)
    }

    fn check(&self, address: IpAddr) -> Result<(), &'static str> {
        if self.denied.iter().any(|net| net.contains(&address)) {
            return Err("deny-answer");
        }
        match self.cluster.purpose(address) {
            Some(purpose) if self.refuses(purpose) => Err(purpose.as_str()),
            _ => Ok(()),
        }
    }
}

/// The guards with the cluster's networks of the moment, for tasks beside the publisher.
#[derive(Clone, Debug)]
pub struct CurrentGuards {
    pub guards: Guards,
    pub networks: watch::Receiver<Option<Arc<Networks>>>,
}

impl CurrentGuards {
    pub fn now(&self) -> Guards {
        let networks = self.networks.borrow().clone();
        self.guards.with(networks.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn networks(networks: &[(Purpose, &str)]) -> Networks {
        let net = |(purpose, text): &(Purpose, &str)| (*purpose, text.parse().unwrap());
        Networks::new(networks.iter().map(net))
    }

    #[test]
    fn addresses_of_nodes_can_be_allowed_and_no_others() {
        let cluster = Arc::new(networks(&[
            (Purpose::ApiServer, "192.0.2.10/32"),
            (Purpose::Pods, "10.244.0.0/24"),
            (Purpose::Nodes, "192.0.2.10/32"),
            (Purpose::Nodes, "192.0.2.20/32"),
            (Purpose::Nodes, "198.51.100.1/32"),
        ]));
        let allowing = Guards::new(nets(&["198.51.100.0/24"])).allow_nodes(true);
        let guards = allowing.with(cluster);
        for (text, expected) in [
            ("192.0.2.10", Err("api-server")),
            ("192.0.2.20", Ok("192.0.2.20".parse().unwrap())),
            ("198.51.100.1", Err("deny-answer")),
            ("10.244.0.9", Err("pod-cidr")),
        ] {
            assert_eq!(guards.admit(text.parse().unwrap()), expected, "{text}");
        }
        assert!(!guards.refuses(Purpose::Nodes) && guards.refuses(Purpose::Pods));
    }

    #[test]
    fn address_in_a_denied_network_is_refused_in_either_spelling() {
        let guards = Guards::new(nets(&["10.96.0.0/16"]));
        let admit = |text: &str| guards.admit(text.parse().unwrap());
        assert_eq!(admit("10.96.0.1"), Err("deny-answer"));
        assert_eq!(admit("::ffff:10.96.0.1"), Err("deny-answer"));
        assert_eq!(admit("64:ff9b::10.96.0.1"), Err("deny-answer"));
        assert_eq!(admit("64:ff9b:1::10.96.0.1"), Err("deny-answer"));
        // Teredo stores the client's address inverted.
        assert_eq!(admit("2001::c000:201:0:0:f59f:fffe"), Err("deny-answer"));
        assert_eq!(admit("127.0.0.1"), Err("loopback"));
        assert_eq!(admit("10.97.0.1"), Ok("10.97.0.1".parse().unwrap()));
    }

    #[test]
    fn address_of_the_clusters_own_is_refused_for_what_it_is_there() {
        let before = Guards::new(nets(&["198.51.100.0/24"]));
        let networks = networks(&[
            (Purpose::ApiServer, "192.0.2.10/32"),
            (Purpose::Services, "10.96.0.0/16"),
            (Purpose::Services, "fd00:96::/112"),
            (Purpose::Pods, "10.244.0.0/24"),
            (Purpose::Pods, "10.244.1.0/24"),
            (Purpose::UserDefinedNetworks, "10.100.0.0/16"),
            (Purpose::Nodes, "192.0.2.20/32"),
        ]);
        let guards = before.with(Arc::new(networks));
        for (text, reason) in [
            ("192.0.2.10", "api-server"),
            ("10.96.255.255", "service-cidr"),
            ("fd00:96::1", "service-cidr"),
            ("10.244.1.9", "pod-cidr"),
            ("2002:af4:109::1", "pod-cidr"),
            ("10.100.7.7", "user-defined-network"),
            ("192.0.2.20", "node"),
            ("64:ff9b::192.0.2.20", "node"),
            ("198.51.100.1", "deny-answer"),
        ] {
            let address = text.parse().unwrap();
            assert_eq!(guards.admit(address), Err(reason), "{text}");
            let alone = before.admit(address);
            assert_eq!(alone.is_ok(), reason != "deny-answer", "{text}");
        }
        for text in ["192.0.2.11", "10.97.0.0", "10.244.2.1", "fd00:97::1"] {
            assert!(guards.admit(text.parse().unwrap()).is_ok(), "{text}");
        }
    }
}
