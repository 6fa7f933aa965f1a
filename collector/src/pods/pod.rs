//! The DNS settings and addresses of a Pod; the rest is not kept.

use std::net::IpAddr;

use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use runtime::store::identity;
use serde::Deserialize;

/// The fields of a Pod that determine its name servers.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = Pod)]
pub struct PodDns {
    #[serde(deserialize_with = "identity")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    dns_policy: Option<String>,
    dns_config: Option<Config>,
    host_network: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
struct Config {
    #[serde(default)]
    nameservers: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Status {
    phase: Option<String>,
    #[serde(default, rename = "podIPs")]
    pod_ips: Vec<PodIp>,
}

#[derive(Clone, Debug, Deserialize)]
struct PodIp {
    ip: String,
}

impl PodDns {
    /// Whether it uses its node's network: no EgressFirewall applies to it then.
    pub fn is_on_host(&self) -> bool {
        self.spec.host_network == Some(true)
    }

    /// Whether it runs: a pending pod sends no queries.
    pub fn runs(&self) -> bool {
        self.status.phase.as_deref() == Some("Running")
    }

    /// `status.podIPs`; none on the host network, where they are the node's.
    pub fn addresses(&self) -> Vec<IpAddr> {
        if self.is_on_host() {
            return Vec::new();
        }
        let ips = self.status.pod_ips.iter();
        let ips = ips.filter_map(|it| it.ip.parse::<IpAddr>().ok());
        ips.map(|ip| ip.to_canonical()).collect()
    }

    /// `dnsPolicy`.
    pub(super) fn policy(&self) -> &str {
        self.spec.dns_policy.as_deref().unwrap_or("ClusterFirst")
    }

    /// `dnsConfig.nameservers`.
    pub(super) fn nameservers(&self) -> &[String] {
        let config = self.spec.dns_config.as_ref();
        config.map_or(&[], |it| &it.nameservers)
    }
}
