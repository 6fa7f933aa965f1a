//! A ClusterUserDefinedNetwork of OVN-Kubernetes, reduced to its pods' networks.
//!
//! Only administrators of the cluster create these. A UserDefinedNetwork belongs to a namespace, and its tenant may
//! choose any subnet. Reading it would let a tenant close addresses for all other namespaces.

use ipnet::IpNet;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::{networks::Purpose, reading::Found};

/// The role of a network that replaces the default one. EgressFirewalls apply to the primary network of their
/// namespace. Only primary networks are advertised and connected to others. The subnets of a secondary network may be
/// in use elsewhere.
const PRIMARY: &str = "Primary";

/// The used part of its spec.
#[derive(Clone, CustomResource, Debug, Deserialize, Serialize)]
#[kube(
    group = "k8s.ovn.org",
    version = "v1",
    kind = "ClusterUserDefinedNetwork",
    plural = "clusteruserdefinednetworks",
    schema = "disabled"
)]
pub(super) struct ClusterUserDefinedNetworkSpec {
    network: Network,
}

/// The third topology is left out: `localnet` is an outside network, and always secondary.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Network {
    layer2: Option<Layer<String>>,
    layer3: Option<Layer<Layer3Subnet>>,
}

/// Without `subnets` OVN-Kubernetes assigns no addresses.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Layer<S> {
    role: String,
    subnets: Option<Vec<S>>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Layer3Subnet {
    cidr: String,
}

impl<S> Layer<S> {
    fn primary_subnets(&self) -> &[S] {
        let subnets = self.subnets.as_deref().filter(|_| self.role == PRIMARY);
        subnets.unwrap_or_default()
    }
}

impl ClusterUserDefinedNetwork {
    /// The networks of its pods.
    pub(super) fn networks(&self) -> Found {
        let Network { layer2, layer3 } = &self.spec.network;
        let layer2 = layer2.iter().flat_map(Layer::primary_subnets);
        let layer3 = layer3.iter().flat_map(Layer::primary_subnets);
        let texts = layer2.chain(layer3.map(|subnet| &subnet.cidr));
        let networks = texts.filter_map(|text| text.parse::<IpNet>().ok());
        networks
            .map(|net| (Purpose::UserDefinedNetworks, net))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use kube::Resource;
    use serde_json::{Value, json};

    use super::*;

    fn networks(network: Value) -> Vec<String> {
        let object: ClusterUserDefinedNetwork = serde_json::from_value(json!({
            "apiVersion": "k8s.ovn.org/v1",
            "kind": "ClusterUserDefinedNetwork",
            "metadata": { "name": "a", "resourceVersion": "7", "labels": { "a": "b" } },
            "spec": { "namespaceSelector": {}, "network": network },
            "status": { "conditions": [{ "type": "NetworkCreated", "status": "True" }] },
        }))
        .unwrap();
        assert_eq!(object.meta().name.as_deref(), Some("a"));
        assert_eq!(object.meta().resource_version.as_deref(), Some("7"));
        let networks = object.networks().into_iter();
        networks
            .map(|(purpose, net)| {
                assert_eq!(purpose, Purpose::UserDefinedNetworks);
                net.to_string()
            })
            .collect()
    }

    #[test]
    fn the_pods_networks_of_a_primary_network_count_in_either_layer() {
        let layer2 = json!({
            "topology": "Layer2",
            "layer2": {
                "role": "Primary",
                "subnets": ["10.100.0.0/16", "x", "fd00:100::/64"],
                "joinSubnets": ["100.65.0.0/16"],
            },
        });
        assert_eq!(networks(layer2), ["10.100.0.0/16", "fd00:100::/64"]);
        let layer3 = json!({
            "topology": "Layer3",
            "layer3": { "role": "Primary", "subnets": [{ "cidr": "10.200.0.0/16", "hostSubnet": 24 }, { "cidr": "fd00:200::/48" }] },
        });
        assert_eq!(networks(layer3), ["10.200.0.0/16", "fd00:200::/48"]);
    }

    #[test]
    fn secondary_and_outside_networks_do_not_count() {
        let ipam = json!({ "mode": "Disabled" });
        for network in [
            json!({ "topology": "Layer2", "layer2": { "role": "Secondary", "subnets": ["10.100.0.0/16"] } }),
            json!({ "topology": "Layer2", "layer2": { "role": "Secondary", "ipam": ipam } }),
            json!({ "topology": "Layer3", "layer3": { "role": "Secondary", "subnets": [{ "cidr": "10.200.0.0/16" }] } }),
            json!({
                "topology": "Localnet",
                "localnet": { "role": "Secondary", "physicalNetworkName": "lan", "subnets": ["192.0.2.0/24"] },
            }),
        ] {
            assert_eq!(networks(network), [""; 0]);
        }
    }
}
