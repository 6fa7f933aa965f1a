//! `DNSNameResolver`, `network.openshift.io/v1alpha1`: the addresses of one DNS name or wildcard.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// The only condition type of a resolved name: `True` while its look-ups fail.
pub const DEGRADED: &str = "Degraded";

/// The reason of [`DEGRADED`] in the entry of `spec.name` of a name that never had an address, since the guards refuse
/// those of every answer. The message names the guard.
pub const ANSWER_REFUSED: &str = "AnswerRefused";

/// The DNS name to resolve, or a wildcard of one label.
#[derive(CustomResource, Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[kube(
    group = "network.openshift.io",
    schema = "disabled",
    version = "v1alpha1",
    kind = "DNSNameResolver",
    root = "DnsNameResolver",
    plural = "dnsnameresolvers",
    namespaced,
    status = "DnsNameResolverStatus",
    derive = "PartialEq",
    doc = "The addresses of one DNS name, or of the names that one wildcard matches"
)]
#[serde(rename_all = "camelCase")]
pub struct DnsNameResolverSpec {
    /// A lower-case fully qualified name with its trailing dot. A leading `*.` stands for exactly one label. Immutable.
    pub name: String,
}

/// The current addresses of the name.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DnsNameResolverStatus {
    /// One entry for each name that was looked up and matches `spec.name`; for a wildcard, the wildcard's own entry
    /// comes first. Each `dnsName` has one entry.
    // OpenShift's definition has list-maps. The chart's has atomic lists, so `managedFields` does not grow with them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resolved_names: Vec<ResolvedName>,
}

/// One DNS name and its addresses.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedName {
    /// `Degraded` says whether the last look-up failed. A name that a wildcard found has it only while look-ups fail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The name that was looked up.
    pub dns_name: String,
    /// The addresses. Each `ip` has one entry.
    // The API requires the field even when the list is empty, so it is always written.
    pub resolved_addresses: Vec<ResolvedAddress>,
    /// Look-ups that failed since the last one that succeeded.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resolution_failures: i32,
}

impl ResolvedName {
    /// The reason why the name has no address, if the entry has one. [`ANSWER_REFUSED`] is none: it says nothing of
    /// addresses that the name had.
    pub fn failure(&self) -> Option<&str> {
        let degraded = self.degraded()?;
        (degraded.reason != ANSWER_REFUSED).then_some(&degraded.reason)
    }

    /// The message of [`ANSWER_REFUSED`], if the entry has this reason.
    pub fn refused(&self) -> Option<&str> {
        let degraded = self.degraded()?;
        (degraded.reason == ANSWER_REFUSED).then_some(&degraded.message)
    }

    fn degraded(&self) -> Option<&Condition> {
        let is_it =
            |it: &&Condition| it.type_ == DEGRADED && it.status == "True" && !it.reason.is_empty();
        self.conditions.iter().find(is_it)
    }
}

/// One address of a name. It may be used until `lastLookupTime` + `ttlSeconds`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedAddress {
    /// IPv4 or IPv6, in canonical text.
    pub ip: SmolStr,
    /// Whole seconds from `lastLookupTime` for which the answer may be used.
    pub ttl_seconds: i32,
    /// When the address was last seen in an answer, in whole seconds.
    pub last_lookup_time: Time,
}

fn is_zero(n: &i32) -> bool {
    *n == 0
}
