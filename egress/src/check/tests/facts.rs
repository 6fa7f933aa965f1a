//! The facts of a small cluster in which everything works.

use proto::facts::{CollectorFacts, Head, OvnWriterFacts, PolicyWriterFacts, Program, Status};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::check::{
    facts::{ClusterDns, DnsService, Facts, OvnKubernetes},
    programs::{FORWARD, Programs, Reported},
    seen::Seen,
    workloads::{Settings, Workload},
};

/// An object of Kubernetes.
pub(super) fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub(super) fn workload(kind: Program, name: &str) -> Workload {
    Workload {
        name: name.to_owned(),
        kind,
        replicas: 1,
        pods: of(json!({ "containers": [{ "name": "c", "image": "i:1" }] })),
    }
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

/// The status of a program that leads.
pub(in crate::check) fn status(program: Program) -> Status {
    let mut status = Status {
        head: Head {
            program,
            version: "1.2.3".to_owned(),
            leader: true,
            ..Head::default()
        },
        ..Status::default()
    };
    match program {
        Program::Collector => {
            status.collector = Some(CollectorFacts {
                name_count: 1,
                ..CollectorFacts::default()
            });
        }
        Program::OvnWriter => {
            let mut facts = OvnWriterFacts::default();
            facts.database.is_connected = true;
            status.ovn_writer = Some(facts);
        }
        Program::PolicyWriter => status.policy_writer = Some(PolicyWriterFacts::default()),
    }
    status
}

pub(in crate::check) fn reported(program: &str, answer: Seen<Status>) -> Vec<Reported> {
    vec![Reported {
        program: program.to_owned(),
        answer,
        remedy: FORWARD,
    }]
}

/// A collector with these facts.
pub(in crate::check) fn collector_with(facts: Seen<CollectorFacts>) -> Programs {
    let answer = facts.map(|facts| Status {
        collector: Some(facts),
        ..status(Program::Collector)
    });
    Programs {
        collectors: reported("collector a", answer),
        ..Programs::default()
    }
}

pub(super) fn well() -> Facts {
    let corefile =
        ". {\n dnstap tcp://10.96.0.53:6000 full\n dnstap tcp://10.96.0.54:6000 full\n}\n";
    let settings = Settings::default();
    let collectors = json!({ "app.kubernetes.io/component": "collector", "egress-by-name/instance": "collector" });
    let writers = json!({ "app.kubernetes.io/component": "ovn-writer" });
    Facts {
        namespace: "dns".to_owned(),
        version: Ok("v1.36.3".to_owned()),
        workloads: Ok(vec![
            workload(Program::Collector, "collector"),
            workload(Program::OvnWriter, "ovn-writer"),
        ]),
        pods: Ok(vec![
            pod("dns", collectors, "10.0.0.1"),
            pod("dns", writers, "10.0.0.2"),
        ]),
        events: Ok(Vec::new()),
        services: Ok(vec![
            service("collector", "10.96.0.53"),
            service("collector-2", "10.96.0.54"),
        ]),
        dns: ClusterDns {
            services: vec![DnsService {
                key: settings.dns_services[0].clone(),
                pods: Ok(Some(vec![pod("kube-system", json!({}), "10.0.0.3")])),
            }],
            corefile: Some((
                settings.corefile.clone().unwrap(),
                Ok(Some(of(json!({ "data": { "Corefile": corefile } })))),
            )),
            node_local: None,
            bypassing: Ok(Vec::new()),
        },
        settings,
        ovn_kubernetes: OvnKubernetes {
            pods: Ok(vec![of(json!({
                "metadata": { "name": "ovnkube-node-a" },
                "spec": { "containers": [{ "name": "c" }] },
            }))]),
            configs: Vec::new(),
        },
        programs: Programs {
            collectors: reported("collector a", Ok(status(Program::Collector))),
            ..Programs::default()
        },
    }
}
