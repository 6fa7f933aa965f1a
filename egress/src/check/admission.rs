//! Whether the API server admits the pods: Pod Security, and the SecurityContextConstraints of OpenShift.

use k8s_openapi::api::core::v1::Event;

use super::{
    facts::Facts,
    nodes::wanted_nodes,
    pods::{LIST, pods_of},
    report::{Finding, Topic},
    workloads::Workload,
};

pub(crate) fn admission(facts: &Facts) -> Vec<Finding> {
    let mut topic = Topic::new("Admission of pods");
    let (workloads, pods) = match (&facts.workloads, &facts.pods) {
        (Ok(workloads), Ok(pods)) => (workloads, pods),
        (Err(unseen), _) | (_, Err(unseen)) => {
            topic.unknown(unseen.0.clone(), LIST);
            return topic.into();
        }
    };
    if let Some(Err(unseen)) = facts.namespace(&facts.namespace) {
        let remedy = "you need the right to get the Namespace of the chart, which has the level of Pod Security";
        topic.unknown(unseen.0.clone(), remedy);
    }
    for workload in workloads {
        level(&mut topic, facts, workload);
        let wanted = if workload.is_daemon_set {
            wanted_nodes(facts, workload).map_or(0, |nodes| nodes.len())
        } else {
            usize::try_from(workload.replicas).unwrap_or(0)
        };
        // An Event outlives its cause by an hour.
        if pods_of(workload, pods).len() < wanted {
            refused(&mut topic, facts, workload);
        }
    }
    topic.or_ok(|| match facts.enforced(&facts.namespace) {
        Some(level) => format!(
            "no pod is refused; namespace {} enforces {level}",
            facts.namespace
        ),
        None => "no pod is refused".to_owned(),
    })
}

/// Pods that run stay when the level changes, and new ones are refused.
fn level(topic: &mut Topic, facts: &Facts, workload: &Workload) {
    let namespace = &facts.namespace;
    let Some(level) = facts.enforced(namespace) else {
        return;
    };
    if workload.mounts_host() && level != "privileged" {
        topic.fault(
            format!(
                "namespace {namespace} enforces Pod Security {level}, which refuses the pods of {}: they mount a folder of the host",
                workload.name
            ),
            format!(
                "kubectl label --overwrite namespace {namespace} pod-security.kubernetes.io/enforce=privileged"
            ),
        );
    }
}

/// The reason of the last Event about a workload that lacks pods.
fn refused(topic: &mut Topic, facts: &Facts, workload: &Workload) {
    let events = match &facts.events {
        Ok(events) => events,
        Err(unseen) => {
            let remedy = "you need the right to list Events in the namespace of the chart";
            topic.unknown(unseen.0.clone(), remedy);
            return;
        }
    };
    let of = events.iter().filter(|event| is_refusal(event, workload));
    let latest = of.max_by_key(|event| event.last_timestamp.as_ref().map(|at| at.0));
    let Some(message) = latest.and_then(|event| event.message.as_deref()) else {
        let seen = format!("{} lacks pods, and no Event says why", workload.name);
        let namespace = &facts.namespace;
        topic.unknown(
            seen,
            format!("kubectl -n {namespace} get events; see that kube-controller-manager runs"),
        );
        return;
    };
    let (by, remedy) = if message.contains("violates PodSecurity") {
        (
            "Pod Security",
            format!(
                "kubectl label --overwrite namespace {} pod-security.kubernetes.io/enforce={}",
                facts.namespace,
                if workload.mounts_host() {
                    "privileged"
                } else {
                    "restricted"
                },
            ),
        )
    } else if message.contains("security context constraint") {
        ("OpenShift", "install the chart with openshift=true, which adds SecurityContextConstraints of its own".to_owned())
    } else {
        ("the API server", "mend what the message names".to_owned())
    };
    topic.fault(
        format!("{by} refuses the pods of {}: {message}", workload.name),
        remedy,
    );
}

/// Whether a controller tells by this Event that it cannot make a pod.
fn is_refusal(event: &Event, workload: &Workload) -> bool {
    let object = &event.involved_object;
    let name = object.name.as_deref().unwrap_or_default();
    let is_own = match object.kind.as_deref() {
        Some("DaemonSet" | "Deployment") => name == workload.name,
        // Its name ends with a hash of the template.
        Some("ReplicaSet") => name
            .rsplit_once('-')
            .is_some_and(|(front, _)| front == workload.name),
        _ => false,
    };
    is_own && event.reason.as_deref() == Some("FailedCreate")
}
