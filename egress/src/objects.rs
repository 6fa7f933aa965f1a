//! Kubernetes' objects, with the fields that `egress` reads. The complete types take as long to compile as the rest of the program.
//! The names of fields are those of the API (Kubernetes API reference, v1 and apps/v1).

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{apps::v1 as apps, core::v1 as core},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{Resource, api::Portforward};
use serde::{Deserialize, de::IgnoredAny};

#[derive(Clone, Debug, Default, Deserialize, Resource)]
#[resource(inherit = core::Pod)]
#[serde(default)]
pub(crate) struct Pod {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: PodSpec,
    pub(crate) status: PodStatus,
}

impl Portforward for Pod {}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodSpec {
    pub(crate) containers: Vec<Container>,
    pub(crate) dns_config: PodDnsConfig,
    pub(crate) dns_policy: Option<String>,
    pub(crate) host_network: bool,
    pub(crate) node_name: Option<String>,
    pub(crate) volumes: Vec<Volume>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Container {
    pub(crate) args: Vec<String>,
    pub(crate) command: Vec<String>,
    pub(crate) env: Vec<EnvVar>,
    pub(crate) image: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct EnvVar {
    pub(crate) name: String,
    pub(crate) value: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodDnsConfig {
    pub(crate) nameservers: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Volume {
    pub(crate) host_path: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodStatus {
    pub(crate) conditions: Vec<PodCondition>,
    pub(crate) container_statuses: Vec<ContainerStatus>,
    pub(crate) phase: Option<String>,
    #[serde(rename = "podIPs")]
    pub(crate) pod_ips: Vec<PodIp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodCondition {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    pub(crate) status: String,
    pub(crate) message: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerStatus {
    pub(crate) state: ContainerState,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerState {
    pub(crate) terminated: Option<StateReason>,
    pub(crate) waiting: Option<StateReason>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StateReason {
    pub(crate) message: Option<String>,
    pub(crate) reason: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodIp {
    pub(crate) ip: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodTemplate {
    pub(crate) spec: PodSpec,
}

#[derive(Clone, Debug, Default, Deserialize, Resource)]
#[resource(inherit = apps::Deployment)]
#[serde(default)]
pub(crate) struct Deployment {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: WorkloadSpec,
}

#[derive(Clone, Debug, Default, Deserialize, Resource)]
#[resource(inherit = apps::DaemonSet)]
#[serde(default)]
pub(crate) struct DaemonSet {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: WorkloadSpec,
    pub(crate) status: DaemonSetStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WorkloadSpec {
    pub(crate) replicas: Option<i32>,
    pub(crate) template: PodTemplate,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct DaemonSetStatus {
    pub(crate) desired_number_scheduled: i32,
}

#[derive(Clone, Debug, Default, Deserialize, Resource)]
#[resource(inherit = core::Event)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Event {
    pub(crate) metadata: ObjectMeta,
    pub(crate) involved_object: InvolvedObject,
    pub(crate) last_timestamp: Option<Time>,
    pub(crate) message: Option<String>,
    pub(crate) reason: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct InvolvedObject {
    pub(crate) name: String,
}

#[derive(Clone, Debug, Default, Deserialize, Resource)]
#[resource(inherit = core::Service)]
#[serde(default)]
pub(crate) struct Service {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: ServiceSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ServiceSpec {
    #[serde(rename = "clusterIP")]
    pub(crate) cluster_ip: String,
    #[serde(rename = "clusterIPs")]
    pub(crate) cluster_ips: Vec<String>,
    pub(crate) ports: Vec<ServicePort>,
    pub(crate) selector: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ServicePort {
    pub(crate) name: Option<String>,
    pub(crate) port: u16,
}
