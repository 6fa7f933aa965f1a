//! The facts of a small cluster in which everything works.

use k8s_openapi::jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    check::{
        facts::{ClusterDns, DnsPod, DnsService, Facts, Leases, OvnKubernetes, Resource},
        programs::{CollectorStatus, Programs},
        workloads::{Settings, Workload},
    },
    targets::Kind,
};

/// An object of Kubernetes.
pub(super) fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn workload(kind: Kind, name: &str, spec: Value) -> Workload {
    let is_daemon_set = kind == Kind::OvnWriter;
    let mut spec = spec;
    spec["containers"] = json!([{ "name": "c", "image": "i:1" }]);
    Workload {
        name: name.to_owned(),
        kind,
        is_daemon_set,
        replicas: i32::from(!is_daemon_set),
        desired: None,
        template: of(json!({ "spec": spec })),
    }
}

pub(super) fn collector() -> Workload {
    workload(Kind::Collector, "collector", json!({}))
}

/// The Deployment of the policy-writer.
pub(super) fn policy_writer() -> Workload {
    workload(Kind::PolicyWriter, "policy-writer", json!({}))
}

/// The DaemonSet of the ovn-writer, with these fields in the spec of its pods.
pub(super) fn writer(spec: Value) -> Workload {
    workload(Kind::OvnWriter, "ovn-writer", spec)
}

fn pod<T: DeserializeOwned>(namespace: &str, labels: Value, ip: &str) -> T {
    of(json!({
        "metadata": { "name": ip, "namespace": namespace, "labels": labels },
        "spec": { "nodeName": "node-a", "containers": [{ "name": "c", "image": "coredns:v1.14.7" }] },
        "status": { "podIPs": [{ "ip": ip }], "conditions": [{ "type": "Ready", "status": "True" }] },
    }))
}

fn service<T: DeserializeOwned>(name: &str, ip: &str) -> T {
    let ports = json!([{ "name": "dnstap-tcp", "port": 6000 }]);
    of(json!({ "metadata": { "name": name }, "spec": { "clusterIP": ip, "ports": ports } }))
}

pub(super) fn well() -> Facts {
    let corefile =
        ". {\n dnstap tcp://10.96.0.53:6000 full\n dnstap tcp://10.96.0.54:6000 full\n}\n";
    let settings = Settings::default();
    let resource = |name| Resource {
        name,
        is_served: Ok(true),
    };
    let collectors = json!({ "app.kubernetes.io/component": "collector", "egress-by-name/instance": "collector" });
    let writers = json!({ "app.kubernetes.io/component": "ovn-writer" });
    let now = Timestamp::now().to_string();
    Facts {
        namespace: "dns".to_owned(),
        version: Ok("v1.36.3".to_owned()),
        resources: vec![resource("dnsnameresolvers.network.openshift.io")],
        workloads: Ok(vec![collector(), writer(json!({}))]),
        namespaces: Vec::new(),
        pods: Ok(vec![
            pod("dns", collectors, "10.0.0.1"),
            pod("dns", writers, "10.0.0.2"),
        ]),
        events: Ok(Vec::new()),
        services: Ok(vec![
            service("collector", "10.96.0.53"),
            service("collector-2", "10.96.0.54"),
        ]),
        policies: vec![("dns".to_owned(), Ok(Vec::new()))],
        dns: ClusterDns {
            services: vec![DnsService {
                key: settings.dns_services[0].clone(),
                pods: Ok(Some(vec![DnsPod {
                    pod: pod("kube-system", json!({}), "10.0.0.3"),
                    version: Ok(("1.14.7".to_owned(), "its metrics")),
                }])),
            }],
            corefile: Some((
                settings.corefile.clone().unwrap(),
                Ok(Some(of(json!({ "data": { "Corefile": corefile } })))),
            )),
            node_local: None,
            bypassing: Ok(Vec::new()),
        },
        settings,
        leases: Leases {
            collectors: Ok(Some(of(json!({ "spec": {
                "holderIdentity": "a", "leaseDurationSeconds": 10, "renewTime": now,
            }})))),
            policy_writers: None,
        },
        nodes: Ok(vec![of(json!({ "metadata": { "name": "node-a" } }))]),
        ovn_kubernetes: OvnKubernetes {
            pods: Ok(vec![of(json!({
                "metadata": { "name": "ovnkube-node-a" },
                "spec": { "containers": [{ "name": "c" }] },
            }))]),
            configs: Vec::new(),
        },
        programs: Programs::of_collector(Ok(CollectorStatus {
            leader: true,
            ..CollectorStatus::default()
        })),
    }
}
