//! `EgressFirewall`, `k8s.ovn.org/v1`: the rules in which administrators write DNS names.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The egress rules of a namespace, in order of precedence.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "k8s.ovn.org",
    version = "v1",
    kind = "EgressFirewall",
    plural = "egressfirewalls",
    namespaced,
    status = "EgressFirewallStatus",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct EgressFirewallSpec {
    /// The first rule that matches decides.
    #[serde(default)]
    pub egress: Vec<EgressFirewallRule>,
}

/// One rule.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EgressFirewallRule {
    /// Whether what matches may pass.
    #[serde(rename = "type")]
    pub rule_type: RuleType,
    /// The destination ports; none means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<EgressFirewallPort>,
    /// The destination.
    pub to: EgressFirewallDestination,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum RuleType {
    /// Traffic passes.
    Allow,
    /// Traffic is dropped.
    Deny,
}

/// Exactly one of the fields is set.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EgressFirewallDestination {
    /// An address range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cidr_selector: Option<String>,
    /// A DNS name as the administrator wrote it: any case, with or without the trailing dot, perhaps `*.` in front.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns_name: Option<String>,
    /// Nodes by label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
}

/// A destination port.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EgressFirewallPort {
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// 0 to 65,535.
    pub port: i32,
}

/// What ovn-kubernetes says of it.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EgressFirewallStatus {
    /// A summary for people.
    pub status: String,
    /// One line a zone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<String>,
}
