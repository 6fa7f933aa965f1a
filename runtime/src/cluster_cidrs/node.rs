//! A Node, reduced to its pods' networks and its own addresses. A whole Node has 20 KiB, those of a large cluster a
//! hundred megabytes.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;
use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

use super::{Found, Purpose};

/// The cluster's own layer 3 network. Other networks may reuse addresses of the outside world.
const DEFAULT: &str = "default";

/// The networks of a Node's pods, and its own addresses.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = Node)]
#[serde(from = "Read")]
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

#[derive(Deserialize)]
struct Read {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    #[serde(default)]
    annotations: Option<Annotations>,
}

/// OVN-Kubernetes assigns the nodes' networks itself and may leave `spec.podCIDRs` empty. It writes them as JSON, keyed
/// by the layer 3 network.
#[derive(Deserialize)]
struct Annotations {
    #[serde(rename = "k8s.ovn.org/node-subnets")]
    subnets: Option<String>,
}

#[derive(Default, Deserialize)]
struct Spec {
    #[serde(rename = "podCIDRs")]
    pod_cidrs: Option<Vec<String>>,
}

/// The kubelet writes the status every few minutes, mostly for fields that are left out here.
#[derive(Default, Deserialize)]
struct Status {
    addresses: Option<Vec<Address>>,
}

#[derive(Deserialize)]
struct Address {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

impl Address {
    /// The other types are names; a DNS server may return any address for them.
    fn ip(&self) -> Option<IpAddr> {
        let is_ip = matches!(self.kind.as_str(), "InternalIP" | "ExternalIP");
        is_ip.then(|| self.address.parse().ok()).flatten()
    }
}

/// OVN-Kubernetes once wrote one network as a text, and now writes lists.
#[derive(Deserialize)]
#[serde(untagged)]
enum Subnets {
    One(String),
    Many(Vec<String>),
}

impl From<Read> for NodeNetworks {
    fn from(read: Read) -> Self {
        let Metadata {
            name,
            uid,
            resource_version,
            annotations,
        } = read.metadata;
        let mut texts = read.spec.pod_cidrs.unwrap_or_default();
        let subnets = annotations.and_then(|annotations| annotations.subnets);
        texts.extend(subnets.iter().flat_map(|text| default_subnets(text)));
        let pods = texts.iter().filter_map(|text| text.parse().ok());
        let addresses = read.status.addresses.iter().flatten();
        let own = addresses.filter_map(Address::ip).map(IpNet::from);
        Self {
            metadata: ObjectMeta {
                name,
                uid,
                resource_version,
                ..ObjectMeta::default()
            },
            networks: pods
                .map(|net| (Purpose::Pods, net))
                .chain(own.map(|net| (Purpose::Nodes, net)))
                .collect(),
        }
    }
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
    use serde_json::{Value, json};

    use super::*;

    fn networks(annotation: Option<&str>, spec: Value) -> Vec<String> {
        let annotations =
            annotation.map(|text| json!({ "k8s.ovn.org/node-subnets": text, "other": "x" }));
        let node: NodeNetworks = serde_json::from_value(json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": "a", "resourceVersion": "7", "annotations": annotations, "labels": { "a": "b" } },
            "spec": spec,
            "status": { "images": [{ "names": ["x"], "sizeBytes": 1 }] },
        }))
        .unwrap();
        assert_eq!(node.meta().name.as_deref(), Some("a"));
        assert_eq!(node.meta().resource_version.as_deref(), Some("7"));
        assert_eq!(node.meta().labels, None);
        let networks = node.networks().into_iter();
        networks
            .map(|(purpose, net)| {
                assert_eq!(purpose, Purpose::Pods);
                net.to_string()
            })
            .collect()
    }

    #[test]
    fn a_nodes_own_addresses_are_those_inside_and_outside_of_the_cluster() {
        let node: NodeNetworks = serde_json::from_value(json!({
            "metadata": { "name": "a" },
            "spec": { "podCIDRs": ["10.244.1.0/24"] },
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
        let networks = node.networks();
        let own = networks.iter().filter(|(it, _)| *it == Purpose::Nodes);
        let own: Vec<_> = own.map(|(_, net)| net.to_string()).collect();
        assert_eq!(own, ["192.0.2.1/32", "2001:db8::1/128", "203.0.113.1/32"]);
        assert_eq!(networks.len(), 4);
    }

    #[test]
    fn a_nodes_networks_are_those_of_its_spec_and_of_ovn_kubernetes() {
        let spec =
            json!({ "podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24", "fd00:1::/64"] });
        assert_eq!(networks(None, spec), ["10.244.1.0/24", "fd00:1::/64"]);
        for text in [
            r#"{"default":["10.128.0.0/23"],"tenant":["10.0.0.0/16"]}"#,
            r#"{"default":"10.128.0.0/23"}"#,
        ] {
            assert_eq!(networks(Some(text), json!({})), ["10.128.0.0/23"]);
        }
    }

    #[test]
    fn what_cannot_be_read_costs_itself_alone() {
        for text in [
            "",
            "{}",
            "[]",
            r#"{"default":7}"#,
            r#"{"other":["10.0.0.0/8"]}"#,
        ] {
            let spec = json!({ "podCIDRs": ["x", "10.244.0.0/24", "10.0.0.0/33"] });
            assert_eq!(networks(Some(text), spec), ["10.244.0.0/24"], "{text}");
        }
        assert_eq!(networks(None, json!({ "podCIDRs": null })), [""; 0]);
    }
}
