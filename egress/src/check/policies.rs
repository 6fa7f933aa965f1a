//! NetworkPolicies between the DNS servers and the collectors.
//!
//! A pod that a policy selects accepts or opens only the connections that some rule of such a policy has. See
//! <https://kubernetes.io/docs/concepts/services-networking/network-policies/>.

mod selectors;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::{
        core::v1::Pod,
        networking::v1::{NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort},
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::ResourceExt;
use runtime::inspect::text::few;

use self::selectors::{contains, selects};
use super::{
    facts::{Facts, Policies},
    pods::ips,
    programs::MOST_NAMED,
    report::{Finding, Topic},
    workloads::COMPONENT,
};
use crate::targets::Kind;

/// The names of the dnstap ports in the collectors' pods.
const PORTS: [&str; 2] = ["dnstap-tcp", "dnstap-tls"];

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Direction {
    Egress,
    Ingress,
}

impl Direction {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Egress => "Egress",
            Self::Ingress => "Ingress",
        }
    }
}

/// One side of a connection.
struct Side<'a> {
    pod: &'a Pod,
    namespace: String,
    /// The labels of its namespace; `None` if they were not seen.
    labels: Option<&'a BTreeMap<String, String>>,
}

pub(crate) fn policies(facts: &Facts) -> Vec<Finding> {
    let mut topic = Topic::new("NetworkPolicies");
    for (namespace, policies) in &facts.policies {
        if let Err(unseen) = policies {
            topic.unknown(
                unseen.0.clone(),
                format!("you need the right to list NetworkPolicies in namespace {namespace}"),
            );
        }
    }
    let pods = facts.pods.iter().flatten();
    let collectors = pods.filter(|pod| {
        pod.labels().get(COMPONENT).map(String::as_str) == Some(Kind::Collector.as_str())
    });
    let collectors: Vec<_> = collectors.map(|pod| side(facts, pod)).collect();
    let servers: Vec<_> = facts.dns_pods().map(|it| side(facts, &it.pod)).collect();
    let mut dropped: BTreeSet<(Direction, String)> = BTreeSet::new();
    for server in &servers {
        for collector in &collectors {
            dropped.extend(drops(&facts.policies, Direction::Egress, server, collector));
            dropped.extend(drops(
                &facts.policies,
                Direction::Ingress,
                collector,
                server,
            ));
        }
    }
    for (direction, names) in &dropped {
        let (what, remedy) = match direction {
            Direction::Egress => (
                "no rule of it lets CoreDNS connect to the dnstap ports of the collectors",
                "add an egress rule to the pods of the collectors, or delete the policy",
            ),
            Direction::Ingress => (
                "no rule of it lets CoreDNS's pods connect to the dnstap ports of the collectors",
                "name CoreDNS's namespace and labels in dns.pods, or mend your own policy",
            ),
        };
        topic.fault(
            format!("NetworkPolicy {names}: {what} ({})", direction.as_str()),
            remedy,
        );
    }
    if collectors.is_empty() || servers.is_empty() {
        let remedy = "see the lines about pods and CoreDNS";
        topic.unknown("the pods of both sides are not known", remedy);
    }
    topic.or_ok(|| "none stands between CoreDNS and the collectors".to_owned())
}

fn side<'a>(facts: &'a Facts, pod: &'a Pod) -> Side<'a> {
    let namespace = pod.namespace().unwrap_or_default();
    let seen = facts.namespace(&namespace);
    let labels = seen.and_then(|it| it.as_ref().ok()?.as_ref()?.metadata.labels.as_ref());
    Side {
        pod,
        namespace,
        labels,
    }
}

/// The policies of a side that keep the other one out, if no rule admits it.
fn drops(
    policies: &[Policies],
    direction: Direction,
    own: &Side<'_>,
    other: &Side<'_>,
) -> Option<(Direction, String)> {
    // NetworkPolicies do not apply to pods on the host network.
    if own.pod.spec.as_ref().and_then(|it| it.host_network) == Some(true) {
        return None;
    }
    let all = policies.iter().filter(|(it, _)| *it == own.namespace);
    let all = all.flat_map(|(_, policies)| policies.iter().flatten());
    let selecting = all.filter(|policy| is_for(policy, direction, own.pod));
    let selecting: Vec<&NetworkPolicy> = selecting.collect();
    let collector = match direction {
        Direction::Egress => other.pod,
        Direction::Ingress => own.pod,
    };
    let is_allowed = selecting.iter().any(|policy| {
        rules(policy, direction).iter().any(|(peers, ports)| {
            let any_peer = peers.is_empty()
                || peers
                    .iter()
                    .any(|peer| is_peer(peer, &own.namespace, other));
            any_peer && (ports.is_empty() || ports.iter().any(|port| is_dnstap(port, collector)))
        })
    });
    if selecting.is_empty() || is_allowed {
        return None;
    }
    let names = selecting
        .iter()
        .map(|it| format!("{}/{}", own.namespace, it.name_any()));
    let names: Vec<String> = names.collect();
    Some((direction, few(names.iter(), MOST_NAMED)))
}

/// Whether a policy selects a pod for connections of this direction.
fn is_for(policy: &NetworkPolicy, direction: Direction, pod: &Pod) -> bool {
    let Some(spec) = &policy.spec else {
        return false;
    };
    let types = spec.policy_types.as_deref().unwrap_or_default();
    let has_direction = match types {
        // By default a policy is for ingress, and for egress if it has such rules.
        [] => direction == Direction::Ingress || spec.egress.is_some(),
        types => types.iter().any(|it| it == direction.as_str()),
    };
    let selector = spec.pod_selector.as_ref();
    has_direction && selector.is_none_or(|it| selects(it, pod.metadata.labels.as_ref()))
}

/// The rules of a policy: peers and ports. An empty list is for all.
fn rules(
    policy: &NetworkPolicy,
    direction: Direction,
) -> Vec<(Vec<&NetworkPolicyPeer>, Vec<&NetworkPolicyPort>)> {
    let Some(spec) = &policy.spec else {
        return Vec::new();
    };
    match direction {
        Direction::Ingress => {
            let rules = spec.ingress.iter().flatten();
            let rules = rules.map(|it| {
                (
                    it.from.iter().flatten().collect(),
                    it.ports.iter().flatten().collect(),
                )
            });
            rules.collect()
        }
        Direction::Egress => {
            let rules = spec.egress.iter().flatten();
            let rules = rules.map(|it| {
                (
                    it.to.iter().flatten().collect(),
                    it.ports.iter().flatten().collect(),
                )
            });
            rules.collect()
        }
    }
}

fn is_peer(peer: &NetworkPolicyPeer, own_namespace: &str, other: &Side<'_>) -> bool {
    if let Some(block) = &peer.ip_block {
        return ips(other.pod).iter().any(|ip| contains(block, *ip));
    }
    // Labels do not select pods on the host network.
    if other.pod.spec.as_ref().and_then(|it| it.host_network) == Some(true) {
        return false;
    }
    let namespace = match &peer.namespace_selector {
        None => own_namespace == other.namespace,
        Some(selector) => selects(selector, other.labels),
    };
    let mut pods = peer.pod_selector.iter();
    namespace && pods.all(|it| selects(it, other.pod.metadata.labels.as_ref()))
}

/// Whether a port of a rule is a dnstap port of the collector.
fn is_dnstap(port: &NetworkPolicyPort, collector: &Pod) -> bool {
    let containers = collector.spec.iter().flat_map(|it| &it.containers);
    let mut ports = containers.flat_map(|it| it.ports.iter().flatten());
    let is_protocol = port.protocol.as_deref().is_none_or(|it| it == "TCP");
    is_protocol
        && ports.any(|it| {
            let name = it.name.as_deref().unwrap_or_default();
            PORTS.contains(&name)
                && match &port.port {
                    None => true,
                    Some(IntOrString::String(wanted)) => wanted == name,
                    Some(IntOrString::Int(first)) => {
                        (*first..=port.end_port.unwrap_or(*first)).contains(&it.container_port)
                    }
                }
        })
}

#[cfg(test)]
mod tests;
