//! The part of a Node that the programs read. A whole one has 20 KiB.

use k8s_openapi::{api::core::v1 as core, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

/// The annotation with the networks of a node's pods, as JSON, keyed by the layer 3 network. OVN-Kubernetes assigns them itself, and may
/// leave `spec.podCIDRs` empty.
pub const NODE_SUBNETS: &str = "k8s.ovn.org/node-subnets";

/// A Node (Kubernetes API reference, v1).
#[derive(Clone, Debug, Default, Deserialize, Resource)]
#[resource(inherit = core::Node)]
#[serde(default)]
pub struct Node {
    /// `metadata`.
    pub metadata: ObjectMeta,
    /// `spec`.
    pub spec: NodeSpec,
    /// `status`.
    pub status: NodeStatus,
}

/// `spec` of a [`Node`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// The networks of its pods.
    #[serde(rename = "podCIDRs")]
    pub pod_cidrs: Vec<String>,
}

/// `status` of a [`Node`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// Its own addresses and names.
    pub addresses: Vec<NodeAddress>,
}

/// An address or a name of a [`Node`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeAddress {
    /// Such as `InternalIP` or `Hostname`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The address or name.
    pub address: String,
}
