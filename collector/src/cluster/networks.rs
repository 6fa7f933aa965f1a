//! The networks and addresses of the cluster itself.

use std::{
    collections::{BTreeMap, HashSet},
    net::IpAddr,
};

use ipnet::IpNet;

use super::network_set::NetworkSet;

/// The use of a network of the cluster.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Purpose {
    /// An endpoint of the Service `default/kubernetes`.
    ApiServer,
    /// The addresses of Services: a ServiceCIDR object.
    Services,
    /// The addresses of a Node's pods: `spec.podCIDRs`, and what OVN-Kubernetes gives the node in its default network
    /// (annotation `k8s.ovn.org/node-subnets`).
    Pods,
    /// The addresses of the pods in a ClusterUserDefinedNetwork of OVN-Kubernetes that is their primary network.
    UserDefinedNetworks,
    /// A Node's own addresses: `InternalIP` and `ExternalIP` in its `status.addresses`.
    Nodes,
}

impl Purpose {
    /// All of them. An address with several purposes has the first. The order matters: only [`Purpose::Nodes`] may be
    /// allowed, and an API server's address is often a Node's too.
    pub const ALL: [Self; 5] = [
        Self::ApiServer,
        Self::Services,
        Self::Pods,
        Self::UserDefinedNetworks,
        Self::Nodes,
    ];

    /// Every value of [`Purpose::as_str`].
    pub const WORDS: &[&str] = &[
        "api-server",
        "service-cidr",
        "pod-cidr",
        "user-defined-network",
        "node",
    ];

    /// The value for metric labels and log lines.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApiServer => "api-server",
            Self::Services => "service-cidr",
            Self::Pods => "pod-cidr",
            Self::UserDefinedNetworks => "user-defined-network",
            Self::Nodes => "node",
        }
    }
}

/// The cluster's own networks. The default has no networks and no Nodes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Networks {
    /// All networks but those of Nodes.
    ranges: BTreeMap<Purpose, NetworkSet>,
    /// Single addresses, thousands in a large cluster. `None`: the Nodes were never read.
    pub(super) nodes: Option<HashSet<IpAddr>>,
}

impl Networks {
    /// These networks, each with its purpose. A Node's network counts only as its address.
    pub fn new(networks: impl IntoIterator<Item = (Purpose, IpNet)>) -> Self {
        let mut ranges: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (purpose, net) in networks {
            ranges.entry(purpose).or_default().push(net);
        }
        let nodes = ranges.remove(&Purpose::Nodes).unwrap_or_default();
        let nodes = nodes.into_iter().map(|net| net.addr().to_canonical());
        let ranges = ranges.into_iter();
        Self {
            nodes: Some(nodes.collect()),
            ranges: ranges
                .map(|(purpose, nets)| (purpose, nets.into_iter().collect()))
                .collect(),
        }
    }

    /// How many networks or addresses there are for a purpose.
    pub fn count(&self, purpose: Purpose) -> usize {
        match purpose {
            Purpose::Nodes => self.nodes.as_ref().map_or(0, HashSet::len),
            _ => self.ranges.get(&purpose).map_or(0, NetworkSet::len),
        }
    }

    /// The purpose of a canonical address; `None` if it is not the cluster's.
    pub fn purpose(&self, address: IpAddr) -> Option<Purpose> {
        let mut ranges = self.ranges.iter();
        let range = ranges.find(|(_, networks)| networks.contains(address));
        let is_node = self.is_node(address) == Some(true);
        range
            .map(|(purpose, _)| *purpose)
            .or(is_node.then_some(Purpose::Nodes))
    }

    /// Whether a canonical address is a Node's own; `None` if the Nodes were never read.
    pub fn is_node(&self, address: IpAddr) -> Option<bool> {
        self.nodes.as_ref().map(|nodes| nodes.contains(&address))
    }
}
