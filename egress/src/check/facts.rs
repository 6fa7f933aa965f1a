//! The facts that a check gathers. Each topic is a function from these facts to findings.

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, Event, Namespace, Node, Pod, Service},
    networking::v1::NetworkPolicy,
};
use runtime::store::ObjectKey;

use super::{
    programs::Programs,
    seen::Seen,
    workloads::{Settings, Workload},
};
use crate::targets::Kind;

/// A namespace, and its NetworkPolicies.
pub(crate) type Policies = (String, Seen<Vec<NetworkPolicy>>);

/// A pod of CoreDNS.
#[derive(Debug)]
pub(crate) struct DnsPod {
    pub(crate) pod: Pod,
    /// Its version, and how it was seen.
    pub(crate) version: Seen<(String, &'static str)>,
}

/// A Service of DNS servers, and their pods.
#[derive(Debug)]
pub(crate) struct DnsService {
    pub(crate) key: ObjectKey,
    /// `None` if the Service does not exist.
    pub(crate) pods: Seen<Option<Vec<DnsPod>>>,
}

/// The CRD that the collectors and ovn-kubernetes share.
pub(crate) const DNS_NAME_RESOLVERS: &str = "dnsnameresolvers.network.openshift.io";

/// A Kubernetes resource that the programs need.
#[derive(Debug)]
pub(crate) struct Resource {
    /// Such as `dnsnameresolvers.network.openshift.io`.
    pub(crate) name: &'static str,
    pub(crate) is_served: Seen<bool>,
}

/// A cluster.
#[derive(Debug)]
pub(crate) struct Facts {
    /// The namespace of the chart.
    pub(crate) namespace: String,
    /// Such as `v1.36.3`.
    pub(crate) version: Seen<String>,
    pub(crate) resources: Vec<Resource>,
    pub(crate) workloads: Seen<Vec<Workload>>,
    /// The values of the chart, as far as flags show them.
    pub(crate) settings: Settings,
    /// The namespace of the chart, that of the objects and those of the DNS servers; `None` if it does not exist.
    pub(crate) namespaces: Vec<(String, Seen<Option<Namespace>>)>,
    /// The pods of the chart.
    pub(crate) pods: Seen<Vec<Pod>>,
    /// The Events in the namespace of the chart.
    pub(crate) events: Seen<Vec<Event>>,
    /// The collectors' Services.
    pub(crate) services: Seen<Vec<Service>>,
    /// The NetworkPolicies of the namespaces of the chart and of the DNS servers.
    pub(crate) policies: Vec<Policies>,
    pub(crate) dns: ClusterDns,
    pub(crate) leases: Leases,
    pub(crate) nodes: Seen<Vec<Node>>,
    pub(crate) ovn_kubernetes: OvnKubernetes,
    pub(crate) programs: Programs,
}

/// The cluster's DNS.
#[derive(Debug)]
pub(crate) struct ClusterDns {
    pub(crate) services: Vec<DnsService>,
    /// `None` if none is checked.
    pub(crate) corefile: Option<(ObjectKey, Seen<Option<ConfigMap>>)>,
    /// `None` if there is no NodeLocal DNSCache.
    pub(crate) node_local: Option<(ObjectKey, Seen<Option<ConfigMap>>)>,
    /// Pods that use other name servers, in namespaces with rules by name.
    pub(crate) bypassing: Seen<Vec<String>>,
}

/// The Leases of the programs with several replicas.
#[derive(Debug)]
pub(crate) struct Leases {
    pub(crate) collectors: Seen<Option<Lease>>,
    /// `None` without any policy-writer.
    pub(crate) policy_writers: Option<Seen<Option<Lease>>>,
}

/// The parts of ovn-kubernetes.
#[derive(Debug)]
pub(crate) struct OvnKubernetes {
    pub(crate) pods: Seen<Vec<Pod>>,
    pub(crate) configs: Vec<Seen<Option<ConfigMap>>>,
}

impl Facts {
    /// A namespace, if it was looked for.
    pub(crate) fn namespace(&self, name: &str) -> Option<&Seen<Option<Namespace>>> {
        let mut all = self.namespaces.iter();
        all.find(|(it, _)| it == name).map(|(_, seen)| seen)
    }

    /// The level of Pod Security that a namespace enforces, if that was seen.
    pub(crate) fn enforced(&self, namespace: &str) -> Option<&str> {
        let namespace = self.namespace(namespace)?.as_ref().ok()?.as_ref()?;
        let labels = namespace.metadata.labels.as_ref()?;
        labels
            .get("pod-security.kubernetes.io/enforce")
            .map(String::as_str)
    }

    /// Why there is no ovn-writer, if the chart has none.
    pub(crate) fn no_writer(&self) -> Option<&'static str> {
        let workloads = self.workloads.as_ref().ok()?;
        let has_one = workloads.iter().any(|it| it.kind == Kind::OvnWriter);
        (!has_one)
            .then_some("none, as ovn-kubernetes writes the address sets (ovnWriter.mode=none)")
    }

    /// Whether the chart has a program of this kind.
    pub(crate) fn has(&self, kind: Kind) -> bool {
        let workloads = self.workloads.as_deref().unwrap_or_default();
        workloads.iter().any(|it| it.kind == kind)
    }

    /// The pods of the DNS servers that were seen.
    pub(crate) fn dns_pods(&self) -> impl Iterator<Item = &DnsPod> {
        let seen = self
            .dns
            .services
            .iter()
            .filter_map(|it| it.pods.as_ref().ok());
        seen.flatten().flatten()
    }
}
