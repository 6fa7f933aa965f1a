//! The pods of the chart: whether they are made, and why one is not ready.

use std::{collections::BTreeMap, net::IpAddr};

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use kube::ResourceExt;
use runtime::inspect::text::few;

use super::{
    facts::Facts,
    programs::MOST_NAMED,
    report::{Finding, Topic},
    workloads::{COMPONENT, INSTANCE, Workload},
};
use crate::targets::{Kind, has_ended};

pub(crate) const LIST: &str =
    "you need the rights to list pods, Deployments and DaemonSets in the namespace of the chart";

/// The pods of a workload, without those that have ended.
pub(crate) fn pods_of<'a>(workload: &Workload, pods: &'a [Pod]) -> Vec<&'a Pod> {
    let is_own = |pod: &&Pod| {
        let labels = pod.labels();
        labels.get(COMPONENT).map(String::as_str) == Some(workload.kind.as_str())
            && match workload.kind {
                Kind::Collector => labels.get(INSTANCE) == Some(&workload.name),
                Kind::OvnWriter | Kind::PolicyWriter => true,
            }
    };
    let running = pods.iter().filter(|pod| !has_ended(pod));
    running.filter(is_own).collect()
}

fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<&'a PodCondition> {
    let mut conditions = pod
        .status
        .iter()
        .flat_map(|it| it.conditions.iter().flatten());
    conditions.find(|condition| condition.type_ == type_)
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}

/// The addresses of a pod.
pub(crate) fn ips(pod: &Pod) -> Vec<IpAddr> {
    let status = pod.status.iter();
    let ips = status.flat_map(|status| status.pod_ips.iter().flatten());
    ips.filter_map(|ip| ip.ip.parse().ok()).collect()
}

/// Why a pod is not ready, and what to do; `None` if it is.
fn trouble(pod: &Pod) -> Option<(String, String)> {
    let namespace = pod.namespace().unwrap_or_default();
    let logs = format!("kubectl -n {namespace} logs {}", pod.name_any());
    let describe = format!("kubectl -n {namespace} describe pod {}", pod.name_any());
    if let Some(unscheduled) = condition(pod, "PodScheduled").filter(|it| it.status == "False") {
        let message = unscheduled.message.as_deref().unwrap_or_default();
        let remedy = "change its nodeSelector, tolerations or resources, or add a node";
        return Some((format!("no node takes it: {message}"), remedy.to_owned()));
    }
    let statuses = pod.status.iter();
    let statuses = statuses.flat_map(|it| it.container_statuses.iter().flatten());
    for container in statuses {
        let state = container.state.as_ref();
        let Some(waiting) = state.and_then(|state| state.waiting.as_ref()) else {
            continue;
        };
        let reason = waiting.reason.as_deref().unwrap_or("waiting");
        let message = waiting.message.as_deref().unwrap_or_default();
        let seen = format!("{reason}: {message}");
        return Some(match reason {
            "ImagePullBackOff" | "ErrImagePull" | "ErrImageNeverPull" | "InvalidImageName" => (
                format!("the image {} cannot be pulled: {seen}", container.image),
                "push the image, and set image.repository, image.tag and image.pullSecrets"
                    .to_owned(),
            ),
            "CrashLoopBackOff" => (seen, format!("read why it ended: {logs} --previous")),
            _ => (seen, describe),
        });
    }
    (!is_ready(pod)).then(|| ("it is not ready".to_owned(), format!("{logs}; {describe}")))
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
    if !workloads.iter().any(|it| it.kind == Kind::Collector) {
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
        if !workload.is_daemon_set && own.len() < wanted {
            topic.fault(
                format!(
                    "Deployment {} has {} pods of {wanted}",
                    workload.name,
                    own.len()
                ),
                format!("kubectl -n {namespace} get events"),
            );
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
