//! The facts that a check gathers. Each topic is a function from these facts to findings.

use k8s_openapi::api::core::v1::ConfigMap;
use proto::facts::Program;
use runtime::store::ObjectKey;

use super::{
    programs::Programs,
    seen::Seen,
    workloads::{Settings, Workload},
};
use crate::objects::{Event, Pod, Service};

/// A Service of DNS servers, and their pods.
#[derive(Debug)]
pub(crate) struct DnsService {
    pub(crate) key: ObjectKey,
    /// `None` if the Service does not exist.
    pub(crate) pods: Seen<Option<Vec<Pod>>>,
}

/// A ConfigMap with a Corefile.
pub(crate) type Corefile = (ObjectKey, Seen<Option<ConfigMap>>);

/// A cluster.
#[derive(Debug)]
pub(crate) struct Facts {
    /// The namespace of the chart.
    pub(crate) namespace: String,
    /// Such as `v1.36.3`.
    pub(crate) version: Seen<String>,
    pub(crate) workloads: Seen<Vec<Workload>>,
    /// The values of the chart, as far as flags show them.
    pub(crate) settings: Settings,
    /// The pods of the chart.
    pub(crate) pods: Seen<Vec<Pod>>,
    /// The Events in the namespace of the chart.
    pub(crate) events: Seen<Vec<Event>>,
    /// The collectors' Services.
    pub(crate) services: Seen<Vec<Service>>,
    pub(crate) dns: ClusterDns,
    pub(crate) ovn_kubernetes: OvnKubernetes,
    pub(crate) programs: Programs,
}

/// The cluster's DNS.
#[derive(Debug)]
pub(crate) struct ClusterDns {
    pub(crate) services: Vec<DnsService>,
    /// `None` if none is checked.
    pub(crate) corefile: Option<Corefile>,
    /// `None` if there is no NodeLocal DNSCache.
    pub(crate) node_local: Option<Corefile>,
    /// Pods that use other name servers, in namespaces with rules by name.
    pub(crate) bypassing: Seen<Vec<String>>,
}

/// The parts of ovn-kubernetes.
#[derive(Debug)]
pub(crate) struct OvnKubernetes {
    pub(crate) pods: Seen<Vec<Pod>>,
    pub(crate) configs: Vec<Seen<Option<ConfigMap>>>,
}

impl Facts {
    /// Why there is no ovn-writer, if the chart has none.
    pub(crate) fn no_writer(&self) -> Option<&'static str> {
        (self.workloads.is_ok() && !self.has(Program::OvnWriter))
            .then_some("none, as ovn-kubernetes writes the address sets (ovnWriter.mode=none)")
    }

    /// Whether the chart has a program of this kind.
    pub(crate) fn has(&self, kind: Program) -> bool {
        let workloads = self.workloads.as_deref().unwrap_or_default();
        workloads.iter().any(|it| it.kind == kind)
    }

    /// The pods of the DNS servers that were seen.
    pub(crate) fn dns_pods(&self) -> impl Iterator<Item = &Pod> {
        let services = self.dns.services.iter();
        let seen = services.filter_map(|it| it.pods.as_ref().ok());
        seen.flatten().flatten()
    }
}
