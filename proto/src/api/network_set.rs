//! Calico's `NetworkSet`: `projectcalico.org/v3`, and `crd.projectcalico.org/v1` where Calico has no API server.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// The addresses of a set, served by Calico's API server or by its definitions of version 3.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[kube(
    group = "projectcalico.org",
    schema = "disabled",
    version = "v3",
    kind = "NetworkSet",
    plural = "networksets",
    namespaced,
    derive = "PartialEq"
)]
pub struct NetworkSetSpec {
    /// CIDR blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nets: Vec<String>,
}

/// As [`NetworkSetSpec`], in the definition behind Calico's API server.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[kube(
    group = "crd.projectcalico.org",
    schema = "disabled",
    version = "v1",
    kind = "NetworkSet",
    root = "CrdNetworkSet",
    plural = "networksets",
    namespaced,
    derive = "PartialEq"
)]
pub struct CrdNetworkSetSpec {
    /// CIDR blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nets: Vec<String>,
}
