//! `EgressFirewall`, `k8s.ovn.org/v1`: the rules in which administrators write DNS names.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// The egress rules of a namespace, in order of precedence.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[kube(
    group = "k8s.ovn.org",
    schema = "disabled",
    version = "v1",
    kind = "EgressFirewall",
    plural = "egressfirewalls",
    namespaced,
    status = "EgressFirewallStatus",
    derive = "PartialEq",
    doc = "The egress rules of a namespace: the destinations that its pods may reach"
)]
#[serde(rename_all = "camelCase")]
pub struct EgressFirewallSpec {
    /// The first rule that matches decides; without one, traffic passes.
    pub egress: Vec<EgressFirewallRule>,
}

/// One rule.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EgressFirewallRule {
    /// `Allow` or `Deny`: whether matching traffic passes.
    #[serde(rename = "type")]
    pub rule_type: RuleType,
    /// The destination ports; none means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<EgressFirewallPort>,
    /// The destination.
    pub to: EgressFirewallDestination,
}

/// The action of a rule.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String")]
pub enum RuleType {
    /// Traffic passes.
    Allow,
    /// Traffic is dropped.
    Deny,
}

/// A text that is no rule type.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a rule's type is `Allow` or `Deny`, not {0:?}")]
pub struct RuleTypeError(String);

impl TryFrom<String> for RuleType {
    type Error = RuleTypeError;

    /// The deployed pattern `^Allow|Deny$` also accepts `Allowed` or `NoDeny`. ovn-kubernetes treats every text but
    /// `Allow` as `Deny`.
    fn try_from(text: String) -> Result<Self, RuleTypeError> {
        if text == "Allow" {
            Ok(Self::Allow)
        } else if text.starts_with("Allow") || text.ends_with("Deny") {
            Ok(Self::Deny)
        } else {
            Err(RuleTypeError(text))
        }
    }
}

/// Exactly one of the fields is set.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
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

impl EgressFirewallDestination {
    /// Whether it names no destination, as with a misspelt field. An API server refuses such a rule; a folder does not.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A destination port.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EgressFirewallPort {
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// 1 to 65,535.
    pub port: i32,
}

/// The result that ovn-kubernetes reports for the rules.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EgressFirewallStatus {
    /// A human-readable summary.
    pub status: String,
    /// One line per zone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<String>,
}
