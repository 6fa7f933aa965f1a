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
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_pods_networks_of_primary_networks_count() {
        let layer2 = |role| {
            let subnets = ["10.100.0.0/16", "x", "fd00:100::/64"];
            json!({"role": role, "subnets": subnets, "joinSubnets": ["100.65.0.0/16"]})
        };
        let layer3 = |role| json!({"role": role, "subnets": [{"cidr": "10.200.0.0/16", "hostSubnet": 24}, {"cidr": "fd00:200::/48"}]});
        let none: &[&str] = &[];
        for (network, expected) in [
            (
                json!({"layer2": layer2("Primary")}),
                &["10.100.0.0/16", "fd00:100::/64"][..],
            ),
            (
                json!({"layer3": layer3("Primary")}),
                &["10.200.0.0/16", "fd00:200::/48"],
            ),
            (json!({"layer2": layer2("Secondary")}), none),
            (json!({"layer3": layer3("Secondary")}), none),
            (
                json!({"layer2": {"role": "Secondary", "ipam": {"mode": "Disabled"}}}),
                none,
            ),
            (json!({"localnet": layer2("Secondary")}), none),
        ] {
            let object: ClusterUserDefinedNetwork = serde_json::from_value(json!({
                "apiVersion": "k8s.ovn.org/v1",
                "kind": "ClusterUserDefinedNetwork",
                "metadata": { "name": "a" },
                "spec": { "namespaceSelector": {}, "network": network },
            }))
            .unwrap();
            let found = object.networks().into_iter().map(|(purpose, net)| {
                assert_eq!(purpose, Purpose::UserDefinedNetworks);
                net.to_string()
            });
            assert_eq!(found.collect::<Vec<_>>(), expected, "{network}");
        }
    }
}
