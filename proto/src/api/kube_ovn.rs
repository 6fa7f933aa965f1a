//! `DNSNameResolver` of kube-OVN, `kubeovn.io/v1`: a copy of OpenShift's kind that belongs to no namespace.
//!
//! kube-ovn-controller makes the objects, several for one name (kubeovn/kube-ovn at 1533681, `pkg/controller/dns_name_resolver.go`).

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::{DnsNameResolver, DnsNameResolverSpec, DnsNameResolverStatus};

/// The label of a [`KubeOvnDnsNameResolver`] with the name of its AdminNetworkPolicy or ClusterNetworkPolicy.
pub const POLICY_LABEL: &str = "anp";

/// The DNS name to resolve, or a wildcard of one label.
#[derive(CustomResource, Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[kube(
    group = "kubeovn.io",
    schema = "disabled",
    version = "v1",
    kind = "DNSNameResolver",
    root = "KubeOvnDnsNameResolver",
    plural = "dnsnameresolvers",
    status = "DnsNameResolverStatus",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct KubeOvnDnsNameResolverSpec {
    /// A lower-case fully qualified name with its trailing dot. A leading `*.` stands for exactly one label. Immutable.
    pub name: String,
}

impl From<KubeOvnDnsNameResolver> for DnsNameResolver {
    fn from(object: KubeOvnDnsNameResolver) -> Self {
        Self {
            metadata: object.metadata,
            spec: DnsNameResolverSpec {
                name: object.spec.name,
            },
            status: object.status,
        }
    }
}

impl From<DnsNameResolver> for KubeOvnDnsNameResolver {
    fn from(object: DnsNameResolver) -> Self {
        Self {
            metadata: object.metadata,
            spec: KubeOvnDnsNameResolverSpec {
                name: object.spec.name,
            },
            status: object.status,
        }
    }
}
