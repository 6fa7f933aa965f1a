//! The pods of the chart: whether they are made, and why one is not, or is not ready.

use std::collections::BTreeMap;

use kube::ResourceExt;
use proto::{facts::Program, text::few};

use super::{
    facts::Facts,
    report::{Finding, Topic},
    workloads::{COMPONENT, INSTANCE, Workload},
};
use crate::{
    objects::{Event, Pod, PodCondition},
    output::MOST_NAMED,
    targets::has_ended,
};

pub(crate) const LIST: &str =
    "you need the rights to list pods, Deployments and DaemonSets in the namespace of the chart";

/// The pods of a workload, without those that have ended.
pub(crate) fn pods_of<'a>(workload: &Workload, pods: &'a [Pod]) -> Vec<&'a Pod> {
    let is_own = |pod: &&Pod| {
        let labels = pod.labels();
        labels.get(COMPONENT).map(String::as_str) == Some(workload.kind.as_str())
            && match workload.kind {
                Program::Collector => labels.get(INSTANCE) == Some(&workload.name),
                Program::OvnWriter | Program::PolicyWriter => true,
            }
    };
    let running = pods.iter().filter(|pod| !has_ended(pod));
    running.filter(is_own).collect()
}

fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<&'a PodCondition> {
    let mut conditions = pod.status.conditions.iter();
    conditions.find(|condition| condition.type_ == type_)
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}

/// Why a pod is not ready, and what to do; `None` if it is.
fn trouble(pod: &Pod) -> Option<(String, String)> {
    if is_ready(pod) {
        return None;
    }
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let unscheduled = condition(pod, "PodScheduled").filter(|it| it.status == "False");
    if let Some(message) = unscheduled.and_then(|it| it.message.as_deref()) {
        let remedy = "change its nodeSelector, tolerations or resources, or add a node";
        return Some((format!("no node takes it: {message}"), remedy.to_owned()));
    }
    let mut statuses = pod.status.container_statuses.iter();
    let waiting = statuses.find_map(|it| it.state.waiting.as_ref());
    let reason = waiting.and_then(|it| it.reason.as_deref());
    let message = waiting.and_then(|it| it.message.as_deref());
    let seen = match reason {
        Some(reason) => format!("{reason}: {}", message.unwrap_or_default()),
        None => "it is not ready".to_owned(),
    };
    let remedy = match reason {
        Some("CrashLoopBackOff") => {
            format!("read why it ended: kubectl -n {namespace} logs {name} --previous")
        }
        Some(reason) if reason.contains("Image") => {
            "push the image, and set image.repository, image.tag and image.pullSecrets".to_owned()
        }
        _ => format!(
            "kubectl -n {namespace} logs {name}; kubectl -n {namespace} describe pod {name}"
        ),
    };
    Some((seen, remedy))
}

/// Why the API server refuses the pods of a workload, by the last Event about it: Pod Security, or the SecurityContextConstraints of
/// OpenShift.
fn refusal<'a>(facts: &'a Facts, workload: &Workload) -> Option<(&'a str, String)> {
    let is_own = |event: &&Event| {
        let name = &event.involved_object.name;
        // The name of a ReplicaSet ends with a hash of the template.
        let of_set = name
            .rsplit_once('-')
            .is_some_and(|(front, _)| front == workload.name);
        (*name == workload.name || of_set) && event.reason.as_deref() == Some("FailedCreate")
    };
    let events = facts.events.iter().flatten().filter(is_own);
    let latest = events.max_by_key(|event| event.last_timestamp.as_ref().map(|at| at.0));
    let message = latest?.message.as_deref()?;
    let namespace = &facts.namespace;
    let remedy = if message.contains("violates PodSecurity") {
        let level = if workload.mounts_host() {
            "privileged"
        } else {
            "restricted"
        };
        format!(
            "kubectl label --overwrite namespace {namespace} pod-security.kubernetes.io/enforce={level}"
        )
    } else if message.contains("security context constraint") {
        "install the chart with openshift=true, which adds SecurityContextConstraints of its own"
            .to_owned()
    } else {
        "mend what the message names".to_owned()
    };
    Some((message, remedy))
}

pub(crate) fn pods(facts: &Facts) -> Vec<Finding> {
    let mut topic = Topic::new("Pods");
    let (workloads, pods) = match (&facts.workloads, &facts.pods) {
        (Ok(workloads), Ok(pods)) => (workloads, pods),
        (Err(unseen), _) | (_, Err(unseen)) => {
            topic.unknown(unseen.0.clone(), LIST);
            return topic.into();
        }
    };
    let namespace = &facts.namespace;
    if !workloads.iter().any(|it| it.kind == Program::Collector) {
        topic.fault(
            format!("namespace {namespace} has no Deployment of a collector"),
            "install the chart, or name its namespace by --release-namespace",
        );
        return topic.into();
    }
    let mut running = 0;
    let mut troubles: BTreeMap<String, (Vec<String>, String)> = BTreeMap::new();
    for workload in workloads {
        let own = pods_of(workload, pods);
        for pod in &own {
            match trouble(pod) {
                None => running += 1,
                Some((seen, remedy)) => {
                    let entry = troubles.entry(seen).or_insert((Vec::new(), remedy));
                    entry.0.push(pod.name_any());
                }
            }
        }
        let wanted = usize::try_from(workload.replicas).unwrap_or(0);
        if own.len() < wanted {
            let (name, count) = (&workload.name, own.len());
            let seen = format!("{name} has {count} pods of {wanted}");
            // An Event outlives its cause by an hour.
            match refusal(facts, workload) {
                Some((message, remedy)) => topic.fault(format!("{seen}: {message}"), remedy),
                None => topic.fault(seen, format!("kubectl -n {namespace} get events")),
            }
        }
    }
    for (seen, (pods, remedy)) in troubles {
        topic.fault(format!("{}: {seen}", few(pods.iter(), MOST_NAMED)), remedy);
    }
    topic.or_ok(|| {
        let image = workloads.first().map_or("", Workload::image);
        format!("{running} are ready, image {image}")
    })
}
