//! A Node, reduced to its pods' networks and its own addresses. A whole Node has 20 KiB, those of a large cluster a
//! hundred megabytes.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;
use k8s_openapi::{api::core::v1 as core, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use runtime::cluster::node::{NODE_SUBNETS, Node, NodeAddress};
use serde::Deserialize;

use super::{networks::Purpose, reading::Found};

/// The cluster's own layer 3 network. Other networks may reuse addresses of the outside world.
const DEFAULT: &str = "default";

/// The networks of a Node's pods, and its own addresses.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = core::Node)]
#[serde(from = "Node")]
pub(super) struct NodeNetworks {
    /// Name, uid and version alone.
    metadata: ObjectMeta,
    networks: Box<[(Purpose, IpNet)]>,
}

impl NodeNetworks {
    pub(super) fn networks(&self) -> Found {
        self.networks.to_vec()
    }
}

/// OVN-Kubernetes once wrote one network as a text, and now writes lists.
#[derive(Deserialize)]
#[serde(untagged)]
enum Subnets {
    One(String),
    Many(Vec<String>),
}

impl From<Node> for NodeNetworks {
    fn from(node: Node) -> Self {
        let mut pods = node.spec.pod_cidrs;
        let subnets = node.metadata.annotations.iter().flatten();
        let subnets = subnets.filter(|(key, _)| *key == NODE_SUBNETS);
        pods.extend(subnets.flat_map(|(_, text)| default_subnets(text)));
        let pods = pods.iter().filter_map(|text| text.parse().ok());
        let own = node.status.addresses.iter().filter_map(ip);
        let own = own.map(IpNet::from);
        Self {
            metadata: ObjectMeta {
                name: node.metadata.name,
                uid: node.metadata.uid,
                resource_version: node.metadata.resource_version,
                ..ObjectMeta::default()
            },
            networks: pods
                .map(|net| (Purpose::Pods, net))
                .chain(own.map(|net| (Purpose::Nodes, net)))
                .collect(),
        }
    }
}

/// The other types of addresses are names; a DNS server may return any address for them.
fn ip(address: &NodeAddress) -> Option<IpAddr> {
    let is_ip = matches!(address.type_.as_str(), "InternalIP" | "ExternalIP");
    is_ip.then(|| address.address.parse().ok()).flatten()
}

fn default_subnets(text: &str) -> Vec<String> {
    let networks: Option<BTreeMap<String, Subnets>> = serde_json::from_str(text).ok();
    match networks.and_then(|mut networks| networks.remove(DEFAULT)) {
        Some(Subnets::One(subnet)) => vec![subnet],
        Some(Subnets::Many(subnets)) => subnets,
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_nodes_networks_are_those_of_its_pods_and_its_own_addresses() {
        for subnets in [
            r#"{"default":["10.128.0.0/23"],"tenant":["10.0.0.0/16"]}"#,
            r#"{"default":"10.128.0.0/23"}"#,
        ] {
            let node: NodeNetworks = serde_json::from_value(json!({
                "metadata": {
                    "name": "a", "resourceVersion": "7", "labels": { "a": "b" },
                    "annotations": { "k8s.ovn.org/node-subnets": subnets, "other": "x" },
                },
                "spec": { "podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24", "fd00:1::/64"] },
                "status": {
                    "addresses": [
                        { "type": "Hostname", "address": "192.0.2.99" },
                        { "type": "InternalIP", "address": "192.0.2.1" },
                        { "type": "InternalIP", "address": "2001:db8::1" },
                        { "type": "InternalIP", "address": "x" },
                        { "type": "InternalDNS", "address": "a.example" },
                        { "type": "ExternalIP", "address": "203.0.113.1" },
                    ],
                },
            }))
            .unwrap();
            let (name, version) = (&node.meta().name, &node.meta().resource_version);
            assert_eq!(
                (name.as_deref(), version.as_deref()),
                (Some("a"), Some("7"))
            );
            let networks = |of: Purpose| -> Vec<String> {
                let all = node.networks().into_iter();
                let found = all.filter(|(purpose, _)| *purpose == of);
                found.map(|(_, net)| net.to_string()).collect()
            };
            let pods = ["10.244.1.0/24", "fd00:1::/64", "10.128.0.0/23"];
            assert_eq!(networks(Purpose::Pods), pods);
            let own = ["192.0.2.1/32", "2001:db8::1/128", "203.0.113.1/32"];
            assert_eq!(networks(Purpose::Nodes), own);
        }
    }
}
