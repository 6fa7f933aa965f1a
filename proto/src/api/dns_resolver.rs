//! `DNSResolver`, `dns.k8s.delta10.nl/v1alpha1`: a list of DNS names whose addresses become objects of its namespace.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// The most names in [`DnsResolverSpec::domain_list`], as the definition of dns-resolution-operator says.
pub const MAX_DOMAINS: usize = 500;

/// The longest text in [`DnsResolverSpec::domain_list`]: a DNS name with the trailing dot.
pub const MAX_DOMAIN_LENGTH: usize = 254;

/// The names, and the kind of object to make of them.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[kube(
    group = "dns.k8s.delta10.nl",
    schema = "disabled",
    version = "v1alpha1",
    kind = "DNSResolver",
    root = "DnsResolver",
    plural = "dnsresolvers",
    singular = "dnsresolver",
    namespaced,
    status = "DnsResolverStatus",
    derive = "PartialEq",
    doc = "DNS names whose addresses become an IPMap, and a NetworkPolicy or a Calico NetworkSet, of the same name"
)]
#[serde(rename_all = "camelCase")]
pub struct DnsResolverSpec {
    /// DNS names, in any case, with or without the trailing dot. A leading `*.` stands for exactly one label.
    pub domain_list: Vec<String>,
    /// `NetworkPolicy`, `IPMap`, or `CalicoNetworkSet`. Each makes an IPMap; an unknown value makes nothing else.
    #[serde(default = "network_policy")]
    pub generate_type: String,
}

/// The default of [`DnsResolverSpec::generate_type`].
fn network_policy() -> String {
    GenerateType::NetworkPolicy.name().to_owned()
}

/// The kind of object that a `DNSResolver` asks for.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum GenerateType {
    /// A NetworkPolicy, beside the IPMap.
    NetworkPolicy,
    /// An IPMap alone.
    IpMap,
    /// A NetworkSet of Calico, beside the IPMap.
    CalicoNetworkSet,
}

impl GenerateType {
    /// The value in `spec.generateType`.
    pub fn name(self) -> &'static str {
        match self {
            Self::NetworkPolicy => "NetworkPolicy",
            Self::IpMap => "IPMap",
            Self::CalicoNetworkSet => "CalicoNetworkSet",
        }
    }
}

impl DnsResolverSpec {
    /// The kind of object to make; `None` for an unknown value. dns-resolution-operator takes the empty text for no
    /// policy, and the API server replaces a missing value by the default.
    pub fn generate_type(&self) -> Option<GenerateType> {
        let known = [
            GenerateType::NetworkPolicy,
            GenerateType::IpMap,
            GenerateType::CalicoNetworkSet,
        ];
        known
            .into_iter()
            .find(|known| known.name() == self.generate_type)
    }
}

/// Whether the objects are written.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DnsResolverStatus {
    /// All objects are written, and each name has been answered once.
    #[serde(default)]
    pub ready: bool,
    /// `Resolved`, `Written`, `NameTaken`, `LimitExceeded`, and `DNSBlocked`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
