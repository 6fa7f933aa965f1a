//! A Pod, of which nothing but its DNS settings and addresses is kept.

use std::net::IpAddr;

use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

/// What says whom a pod asks.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = Pod)]
#[serde(from = "Read")]
pub struct PodDns {
    /// Name, namespace, uid and version alone.
    metadata: ObjectMeta,
    is_on_host: bool,
    runs: bool,
    addresses: Box<[IpAddr]>,
    /// Nothing in most.
    settings: Option<Box<Settings>>,
}

#[derive(Clone, Debug)]
struct Settings {
    policy: Option<String>,
    nameservers: Vec<String>,
}

#[derive(Deserialize)]
struct Read {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    dns_policy: Option<String>,
    dns_config: Option<Config>,
    host_network: Option<bool>,
}

#[derive(Default, Deserialize)]
struct Config {
    #[serde(default)]
    nameservers: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    phase: Option<String>,
    #[serde(default, rename = "podIPs")]
    pod_ips: Vec<PodIp>,
}

#[derive(Deserialize)]
struct PodIp {
    ip: String,
}

impl From<Read> for PodDns {
    fn from(read: Read) -> Self {
        let Read {
            metadata,
            spec,
            status,
        } = read;
        let addresses = status.pod_ips.iter();
        let addresses = addresses.filter_map(|it| it.ip.parse::<IpAddr>().ok());
        let policy = spec.dns_policy.filter(|policy| policy != "ClusterFirst");
        let settings = (policy.is_some() || spec.dns_config.is_some()).then(|| {
            Box::new(Settings {
                policy,
                nameservers: spec.dns_config.unwrap_or_default().nameservers,
            })
        });
        Self {
            metadata: ObjectMeta {
                name: metadata.name,
                namespace: metadata.namespace,
                uid: metadata.uid,
                resource_version: metadata.resource_version,
                ..ObjectMeta::default()
            },
            is_on_host: spec.host_network == Some(true),
            runs: status.phase.as_deref() == Some("Running"),
            addresses: addresses.map(|it| it.to_canonical()).collect(),
            settings,
        }
    }
}

impl PodDns {
    /// It shares its node's network, so that no EgressFirewall is about it.
    pub fn is_on_host(&self) -> bool {
        self.is_on_host
    }

    /// Whether it runs: nobody asks for a pod that only waits.
    pub fn runs(&self) -> bool {
        self.runs
    }

    /// `status.podIPs`: none on the host network, where they are the node's.
    pub fn addresses(&self) -> &[IpAddr] {
        match self.is_on_host {
            true => &[],
            false => &self.addresses,
        }
    }

    /// `dnsPolicy`.
    pub(super) fn policy(&self) -> &str {
        let policy = self.settings.as_ref().and_then(|it| it.policy.as_deref());
        policy.unwrap_or("ClusterFirst")
    }

    /// `dnsConfig.nameservers`.
    pub(super) fn nameservers(&self) -> &[String] {
        self.settings.as_ref().map_or(&[], |it| &it.nameservers)
    }
}
