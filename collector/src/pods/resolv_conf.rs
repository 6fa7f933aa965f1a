//! The `resolv.conf` that the kubelet writes for a pod, from its `dnsPolicy` and `dnsConfig`
//! (Kubernetes' KEP 504, "Configurable Pod DNS", and `PodSpec`).

use std::net::IpAddr;

use super::pod::PodDns;

/// The most name servers that resolvers use (resolv.conf(5), `MAXNS`), and that the kubelet writes.
const MAX_SERVERS: usize = 3;

/// The name servers of a pod in their order, without duplicates, at most three.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ResolvConf(pub Box<[NameServer]>);

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum NameServer {
    /// The cluster's, as the kubelet knows it.
    Cluster,
    /// Those of the node.
    Node,
    /// At this address.
    Address(IpAddr),
}

impl ResolvConf {
    pub fn of(pod: &PodDns) -> Self {
        let mut servers = match pod.policy() {
            "None" => Vec::new(),
            "Default" => vec![NameServer::Node],
            // `ClusterFirst`, which is the default, and `ClusterFirstWithHostNet`.
            _ => vec![NameServer::Cluster],
        };
        for text in pod.nameservers() {
            // The API server accepts only addresses.
            if let Ok(address) = text.parse::<IpAddr>() {
                let server = NameServer::Address(address.to_canonical());
                if !servers.contains(&server) {
                    servers.push(server);
                }
            }
        }
        servers.truncate(MAX_SERVERS);
        Self(servers.into())
    }

    /// Whether the pod uses the cluster's DNS only.
    pub fn is_plain(&self) -> bool {
        *self.0 == [NameServer::Cluster]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(spec: Value) -> ResolvConf {
        let pod = json!({ "metadata": { "name": "p", "namespace": "n" }, "spec": spec });
        ResolvConf::of(&serde_json::from_value(pod).unwrap())
    }

    fn address(text: &str) -> NameServer {
        NameServer::Address(text.parse().unwrap())
    }

    #[test]
    fn a_pod_that_says_nothing_asks_the_cluster() {
        for spec in [
            json!({}),
            json!({ "dnsPolicy": "ClusterFirst" }),
            json!({ "dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": false }),
            json!({ "dnsPolicy": "ClusterFirst", "dnsConfig": {} }),
        ] {
            let conf = of(spec);
            assert_eq!(*conf.0, [NameServer::Cluster]);
            assert!(conf.is_plain());
        }
    }

    /// The examples of the KEP.
    #[test]
    fn what_a_pod_says_is_merged_as_the_kep_has_it() {
        let custom = of(json!({
            "dnsPolicy": "None",
            "dnsConfig": {
                "nameservers": ["1.2.3.4"],
                "searches": ["ns1.svc.cluster.local", "my.dns.search.suffix"],
                "options": [{ "name": "ndots", "value": "2" }, { "name": "edns0" }],
            },
        }));
        assert_eq!(*custom.0, [address("1.2.3.4")]);
        let overridden = of(json!({
            "dnsPolicy": "ClusterFirst",
            "dnsConfig": { "options": [{ "name": "ndots", "value": "1" }] },
        }));
        assert_eq!(*overridden.0, [NameServer::Cluster]);
    }

    #[test]
    fn name_servers_are_added_once_and_only_so_many() {
        let more = of(json!({
            "dnsConfig": { "nameservers": ["8.8.8.8", "::ffff:8.8.8.8", "9.9.9.9", "1.1.1.1"] },
        }));
        let expected = [NameServer::Cluster, address("8.8.8.8"), address("9.9.9.9")];
        assert_eq!(*more.0, expected);
        assert!(!more.is_plain());
    }

    #[test]
    fn the_default_policy_is_that_of_the_node() {
        let node = of(json!({ "dnsPolicy": "Default" }));
        assert_eq!(*node.0, [NameServer::Node]);
        assert!(!node.is_plain());
    }
}
