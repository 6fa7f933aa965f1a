//! A Node, of which nothing but its pods' networks is kept: the whole of it is 20 KiB, in a large cluster a hundred megabytes.

use std::{borrow::Cow, collections::BTreeMap};

use ipnet::IpNet;
use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Resource, core::ClusterResourceScope};
use serde::Deserialize;

/// The cluster's own layer 3 network. Others may use the same addresses as the world outside.
const DEFAULT: &str = "default";

/// The networks of a Node's pods.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Read")]
pub(super) struct NodeNetworks {
    /// Name, uid and version alone.
    metadata: ObjectMeta,
    networks: Box<[IpNet]>,
}

impl NodeNetworks {
    pub(super) fn networks(&self) -> Vec<IpNet> {
        self.networks.to_vec()
    }
}

#[derive(Deserialize)]
struct Read {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
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

/// OVN-Kubernetes gives nodes their networks itself and may leave `spec.podCIDRs` empty. It writes them as JSON, by the name
/// of the layer 3 network that they are in.
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

/// OVN-Kubernetes wrote one network as a text once, and writes lists now.
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
        Self {
            metadata: ObjectMeta {
                name,
                uid,
                resource_version,
                ..ObjectMeta::default()
            },
            networks: texts.iter().filter_map(|text| text.parse().ok()).collect(),
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

impl Resource for NodeNetworks {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind(dt: &()) -> Cow<'_, str> {
        Node::kind(dt)
    }

    fn group(dt: &()) -> Cow<'_, str> {
        Node::group(dt)
    }

    fn version(dt: &()) -> Cow<'_, str> {
        Node::version(dt)
    }

    fn plural(dt: &()) -> Cow<'_, str> {
        Node::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
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
        node.networks().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_nodes_networks_are_those_of_its_spec_and_those_that_ovn_kubernetes_gave_it() {
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
