//! The Deployments and the DaemonSet of the chart, and what their flags say.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proto::facts::Program;
use runtime::store::ObjectKey;

use crate::objects::{DaemonSet, Deployment, PodSpec};
pub(crate) use crate::targets::COMPONENT;

/// The label of the chart with the Deployment of a collector's pod.
pub(crate) const INSTANCE: &str = "egress-by-name/instance";

/// A Deployment or a DaemonSet of the chart.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) kind: Program,
    /// The pods that its controller wants.
    pub(crate) replicas: i32,
    pub(crate) pods: PodSpec,
}

impl Workload {
    pub(super) fn of_deployment(it: Deployment) -> Option<Self> {
        let replicas = it.spec.replicas.unwrap_or(1);
        Self::of(&it.metadata, it.spec.template.spec, replicas)
    }

    pub(super) fn of_daemon_set(it: DaemonSet) -> Option<Self> {
        let wanted = it.status.desired_number_scheduled;
        Self::of(&it.metadata, it.spec.template.spec, wanted)
    }

    fn of(metadata: &ObjectMeta, pods: PodSpec, replicas: i32) -> Option<Self> {
        let component = metadata.labels.as_ref()?.get(COMPONENT)?;
        let mut kinds = Program::ALL.into_iter();
        Some(Self {
            name: metadata.name.clone()?,
            kind: kinds.find(|kind| kind.as_str() == component)?,
            replicas,
            pods,
        })
    }

    pub(crate) fn args(&self) -> impl Iterator<Item = &str> {
        let args = self.pods.containers.iter().flat_map(|it| &it.args);
        args.map(String::as_str)
    }

    /// The values of a flag.
    fn values(&self, flag: &str) -> Vec<&str> {
        let values = self
            .args()
            .filter_map(|arg| arg.strip_prefix(flag)?.strip_prefix('='));
        values.collect()
    }

    pub(crate) fn image(&self) -> &str {
        let first = self.pods.containers.first();
        first.map_or("", |it| &it.image)
    }

    /// Whether its pods mount a folder of their host.
    pub(crate) fn mounts_host(&self) -> bool {
        self.pods.volumes.iter().any(|it| it.host_path.is_some())
    }
}

/// Where the programs find things.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Settings {
    pub(crate) objects_namespace: String,
    /// The kinds of objects with names (`--rules`).
    pub(crate) sources: Vec<String>,
    pub(crate) dns_services: Vec<ObjectKey>,
    pub(crate) corefile: Option<ObjectKey>,
    /// The DaemonSet and the ConfigMap of a NodeLocal DNSCache.
    pub(crate) node_local: Option<ObjectKey>,
    pub(crate) cluster_domains: Vec<String>,
}

/// The defaults of the chart and of the collector.
impl Default for Settings {
    fn default() -> Self {
        let in_dns = |name: &str| ObjectKey {
            namespace: "kube-system".to_owned(),
            name: name.to_owned(),
        };
        Self {
            objects_namespace: "ovn-kubernetes".to_owned(),
            sources: vec!["egressfirewall".to_owned()],
            dns_services: vec![in_dns("kube-dns")],
            corefile: Some(in_dns("coredns")),
            node_local: Some(in_dns("node-local-dns")),
            cluster_domains: vec!["cluster.local".to_owned()],
        }
    }
}

impl Settings {
    /// Those of the programs' flags; the others stay.
    pub(crate) fn update(&mut self, workloads: &[Workload]) {
        let Some(collector) = workloads.iter().find(|it| it.kind == Program::Collector) else {
            return;
        };
        let values = |flag: &str| collector.values(flag);
        if let Some(namespace) = values("--objects-namespace").last() {
            self.objects_namespace = (*namespace).to_owned();
        }
        if let Some(sources) = values("--rules").last() {
            self.sources = sources.split(',').map(str::to_owned).collect();
        }
        let services = values("--resolver-service");
        let services: Vec<_> = services.iter().filter_map(|it| it.parse().ok()).collect();
        if !services.is_empty() {
            self.dns_services = services;
        }
    }
}
