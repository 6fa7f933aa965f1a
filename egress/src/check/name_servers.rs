//! Pods that use other name servers than the cluster's: a name of a rule may have other addresses for them.

use std::{collections::BTreeSet, net::IpAddr};

use futures_util::{StreamExt, stream};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};
use proto::text::few;
use runtime::store::ObjectKey;
use serde_json::Value;

use super::{
    facts::Facts,
    gather::requests::{find, list},
    report::{Finding, Topic},
    seen::Seen,
};
use crate::{
    objects::{Pod, Service},
    output::MOST_NAMED,
    targets::{AT_ONCE, has_ended},
};

/// The most name servers that the kubelet writes (resolv.conf(5), `MAXNS`).
const MAX_SERVERS: usize = 3;

pub(crate) fn name_servers(facts: &Facts) -> Vec<Finding> {
    let mut topic = Topic::new("Name servers of pods");
    match &facts.dns.bypassing {
        Ok(pods) if pods.is_empty() => {}
        Ok(pods) => topic.warn(
            format!("other name servers than the cluster's: {}", few(pods.iter(), MOST_NAMED)),
            "change dnsPolicy and dnsConfig of these pods: rules with names may lack the addresses that they get",
        ),
        Err(unseen) => topic.unknown(
            format!("not checked: {}", unseen.0),
            "you need the rights to list EgressFirewalls and DNSResolvers in all namespaces, and the pods of those with names",
        ),
    }
    topic.or_ok(|| "each pod in a namespace with rules by name uses the cluster's".to_owned())
}

/// The pods with other name servers, in namespaces with rules by name.
pub(super) async fn bypassing(client: &Client, services: &[ObjectKey]) -> Seen<Vec<String>> {
    let mut own = Vec::new();
    for key in services {
        let api = Api::<Service>::namespaced(client.clone(), &key.namespace);
        let service = find(api, &key.name).await?;
        let ips = service.into_iter().flat_map(|it| it.spec.cluster_ips);
        own.extend(ips.filter_map(|ip| ip.parse::<IpAddr>().ok()));
    }
    let mut namespaces = BTreeSet::new();
    for (group, version, kind) in [
        ("k8s.ovn.org", "v1", "EgressFirewall"),
        ("dns.k8s.delta10.nl", "v1alpha1", "DNSResolver"),
    ] {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let objects = list(
            Api::<DynamicObject>::all_with(client.clone(), &resource),
            "",
        )
        .await?;
        let with_names = objects.iter().filter(|it| has_names(&it.data));
        namespaces.extend(with_names.filter_map(ResourceExt::namespace));
    }
    let pods = stream::iter(namespaces).map(|namespace| {
        let api = Api::<Pod>::namespaced(client.clone(), &namespace);
        async move { list(api, "").await }
    });
    let pods: Vec<Seen<Vec<Pod>>> = pods.buffered(AT_ONCE).collect().await;
    let pods: Vec<Vec<Pod>> = pods.into_iter().collect::<Seen<_>>()?;
    let found = pods.iter().flatten().filter_map(|pod| {
        let servers = other_servers(pod, &own);
        let key = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
        (!servers.is_empty()).then(|| format!("{key} ({})", servers.join(", ")))
    });
    Ok(found.collect())
}

/// Whether an EgressFirewall has a rule with a name. A DNSResolver always has names.
fn has_names(object: &Value) -> bool {
    let rules = object.pointer("/spec/egress").and_then(Value::as_array);
    rules.is_none_or(|rules| rules.iter().any(|it| it.pointer("/to/dnsName").is_some()))
}

/// The name servers of a running pod beside the cluster's, as the kubelet finds them (Kubernetes' KEP 504, "Configurable Pod
/// DNS"). None on the host network, where no rule applies.
fn other_servers(pod: &Pod, own: &[IpAddr]) -> Vec<String> {
    let spec = &pod.spec;
    if has_ended(pod) || spec.host_network {
        return Vec::new();
    }
    let policy = spec.dns_policy.as_deref();
    let mut servers = Vec::new();
    if policy == Some("Default") {
        servers.push("those of the node".to_owned());
    }
    let given = spec.dns_config.nameservers.iter();
    // `None` has the given servers alone. The others have those of the policy before them.
    let room = MAX_SERVERS - usize::from(policy != Some("None"));
    servers.extend(given.take(room).filter(|text| !is_own(text, own)).cloned());
    servers
}

/// Whether it is an address of the cluster's DNS, or link-local as that of a NodeLocal DNSCache.
fn is_own(text: &str, own: &[IpAddr]) -> bool {
    text.parse().is_ok_and(|address: IpAddr| {
        let address = address.to_canonical();
        own.contains(&address) || matches!(address, IpAddr::V4(v4) if v4.is_link_local())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn other_name_servers_are_those_beside_the_clusters() {
        let own = ["10.96.0.10".parse().unwrap()];
        for (spec, expected) in [
            (json!({}), vec![]),
            (json!({ "dnsPolicy": "ClusterFirst" }), vec![]),
            (json!({ "dnsPolicy": "Default" }), vec!["those of the node"]),
            (
                json!({ "dnsPolicy": "Default", "hostNetwork": true }),
                vec![],
            ),
            (
                json!({ "dnsPolicy": "None", "dnsConfig": { "nameservers": ["10.96.0.10", "8.8.8.8"] } }),
                vec!["8.8.8.8"],
            ),
            (
                json!({ "dnsConfig": { "nameservers": ["169.254.20.10", "::ffff:10.96.0.10", "8.8.8.8"] } }),
                vec![],
            ),
        ] {
            let mut spec = spec;
            spec["containers"] = json!([]);
            let pod = serde_json::from_value(json!({ "spec": spec })).unwrap();
            assert_eq!(other_servers(&pod, &own), expected, "{spec}");
        }
    }

    #[test]
    fn egress_firewall_without_a_name_does_not_count() {
        let rule = |to| json!({ "spec": { "egress": [{ "type": "Allow", "to": to }] } });
        assert!(has_names(&rule(json!({ "dnsName": "www.example.com" }))));
        assert!(!has_names(&rule(json!({ "cidrSelector": "0.0.0.0/0" }))));
        assert!(has_names(&json!({ "spec": { "domainNames": [] } })));
    }
}
