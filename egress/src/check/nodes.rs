//! Whether each node has its ovn-writer.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Taint, Toleration};
use kube::ResourceExt;
use runtime::inspect::text::few;

use super::{
    facts::Facts,
    pods::pods_of,
    programs::MOST_NAMED,
    report::{Finding, Topic, counted},
    workloads::Workload,
};
use crate::targets::Kind;

/// The nodes that should have a pod of a DaemonSet; `None` if that is not known.
pub(crate) fn wanted_nodes<'a>(facts: &'a Facts, workload: &Workload) -> Option<Vec<&'a Node>> {
    let nodes = facts.nodes.as_ref().ok()?;
    let is_wanted = |node: &&Node| {
        let labels = node.labels();
        let selector = workload.node_selector();
        let is_selected =
            selector.is_none_or(|it| it.iter().all(|(key, value)| labels.get(key) == Some(value)));
        let taints = node
            .spec
            .iter()
            .flat_map(|spec| spec.taints.iter().flatten());
        is_selected
            && taints
                .into_iter()
                .all(|taint| tolerates(workload.tolerations(), taint))
    };
    Some(nodes.iter().filter(is_wanted).collect())
}

/// The controller of DaemonSets tolerates by itself what nodes report of themselves.
const TOLERATED: &str = "node.kubernetes.io/";

fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    taint.effect == "PreferNoSchedule"
        || taint.key.starts_with(TOLERATED)
        || tolerations.iter().any(|it| {
            let same =
                |one: &Option<String>, other: &str| one.as_deref().is_none_or(|one| one == other);
            let is_exists = it.operator.as_deref() == Some("Exists");
            same(&it.effect, &taint.effect)
                && (it.key.as_deref() == Some(taint.key.as_str())
                    || (it.key.is_none() && is_exists))
                && (is_exists || it.value == taint.value)
        })
}

/// Whether each node has its ovn-writer.
pub(crate) fn writers_of_nodes(facts: &Facts) -> Vec<Finding> {
    let mut topic = Topic::new("ovn-writer on each node");
    let (Ok(workloads), Ok(pods)) = (&facts.workloads, &facts.pods) else {
        topic.unknown("the pods are not known", "see the line about pods");
        return topic.into();
    };
    let Some(workload) = workloads
        .iter()
        .find(|it| it.kind == Kind::OvnWriter && it.is_daemon_set)
    else {
        let is_central = workloads.iter().any(|it| it.kind == Kind::OvnWriter);
        return topic.or_ok(|| {
            if is_central {
                "one database for all nodes (ovnWriter.mode=central)".to_owned()
            } else {
                "none is needed (ovnWriter.mode=none)".to_owned()
            }
        });
    };
    let own = pods_of(workload, pods);
    if workload.has_affinity() {
        match workload.desired.and_then(|it| usize::try_from(it).ok()) {
            Some(desired) if own.len() < desired => topic.fault(
                format!("{} of {desired} nodes have one", own.len()),
                format!("kubectl -n {} get pods -o wide", facts.namespace),
            ),
            Some(_) => {}
            None => topic.unknown(
                "the DaemonSet has no status",
                "see that its controller runs",
            ),
        }
        return topic.or_ok(|| format!("{}, as their affinity says", counted(own.len(), "node")));
    }
    let Some(wanted) = wanted_nodes(facts, workload) else {
        topic.unknown(
            "the nodes cannot be listed",
            "you need the right to list nodes",
        );
        return topic.into();
    };
    let having = own
        .iter()
        .filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref());
    let having: BTreeSet<&str> = having.collect();
    let without = wanted.iter().map(|node| node.name_any());
    let without: Vec<_> = without
        .filter(|name| !having.contains(name.as_str()))
        .collect();
    if !without.is_empty() {
        topic.fault(
            format!("nodes without one: {}", few(without.iter(), MOST_NAMED)),
            format!(
                "rules with names do not work there; see kubectl -n {} describe daemonset {}",
                facts.namespace, workload.name
            ),
        );
    }
    topic.or_ok(|| format!("there, for {}", counted(wanted.len(), "node")))
}
