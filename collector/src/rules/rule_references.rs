//! Which rules use a name, for who asks.

use proto::api::DnsName;
use runtime::store::ObjectKey;
use serde::Serialize;
use tokio::sync::oneshot;

/// So many EgressFirewalls are named for each name; the others are counted.
pub(super) const MOST: usize = 100;

/// Who wants to know which rules use these very names, and where to send that, in their order.
#[derive(Debug)]
pub struct UsesAsked {
    /// The names, as they stand in rules.
    pub names: Vec<DnsName>,
    /// Only the rules of this namespace.
    pub namespace: Option<String>,
    /// Where to send it.
    pub answer: oneshot::Sender<Vec<NameUses>>,
}

/// The rules that use a name.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct NameUses {
    /// At most 100 of them.
    pub rules: Vec<RuleUse>,
    /// How many more there are.
    #[serde(rename = "moreRules")]
    pub more: usize,
    /// How many are left out since they are of other namespaces.
    #[serde(rename = "rulesElsewhere")]
    pub elsewhere: usize,
}

/// An EgressFirewall that uses a name.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleUse {
    /// Which it is.
    pub egress_firewall: ObjectKey,
    /// The name stands in an Allow rule of it.
    pub allowed: bool,
    /// The name stands in a Deny rule of it.
    pub denied: bool,
}
