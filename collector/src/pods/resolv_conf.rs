//! The `resolv.conf` that the kubelet makes for a pod, from its `dnsPolicy` and `dnsConfig` (Kubernetes' KEP 504, "Configurable Pod
//! DNS", and `PodSpec`).

use std::net::IpAddr;

use super::pod::PodDns;

/// Resolvers take so many name servers (resolv.conf(5), `MAXNS`), and the kubelet writes no more.
const MAX_SERVERS: usize = 3;

/// The API server takes so many search domains.
const MAX_SEARCHES: usize = 32;

/// Resolvers take no more (`RES_MAXNDOTS`).
const MAX_NDOTS: usize = 15;

/// What `ndots` is where nothing is said (resolv.conf(5)), and what it is with the cluster's DNS.
const NDOTS: usize = 1;
const CLUSTER_NDOTS: usize = 5;

/// With the cluster's DNS a name is tried under its namespace's Services, all Services, and the cluster domain.
const CLUSTER_SEARCHES: usize = 3;

/// Whom a pod asks, and how often for one name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ResolvConf {
    /// In their order, each once, at most three.
    pub servers: Box<[NameServer]>,
    /// How many search domains there are, without those of the node, which nobody here knows.
    pub searches: usize,
    /// A name with fewer dots is tried under each search domain first.
    pub ndots: usize,
}

/// A name server.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum NameServer {
    /// The cluster's, as the kubelet knows it.
    Cluster,
    /// Those of the node.
    Node,
    /// This one.
    Address(IpAddr),
}

impl ResolvConf {
    /// Of a pod.
    pub fn of(pod: &PodDns) -> Self {
        let (mut servers, searches, mut ndots) = match pod.policy() {
            "None" => (Vec::new(), 0, NDOTS),
            "Default" => (vec![NameServer::Node], 0, NDOTS),
            // `ClusterFirst`, which is the default, and `ClusterFirstWithHostNet`.
            _ => (vec![NameServer::Cluster], CLUSTER_SEARCHES, CLUSTER_NDOTS),
        };
        let config = pod.config();
        for text in &config.nameservers {
            // The API server takes nothing but addresses.
            if let Ok(address) = text.parse::<IpAddr>() {
                let server = NameServer::Address(address.to_canonical());
                if !servers.contains(&server) {
                    servers.push(server);
                }
            }
        }
        servers.truncate(MAX_SERVERS);
        let mut added: Vec<&str> = Vec::new();
        for search in &config.searches {
            let search = search.trim_end_matches('.');
            let is_of_cluster = searches > 0 && pod.is_cluster_search(search);
            if !is_of_cluster && !added.contains(&search) {
                added.push(search);
            }
        }
        for option in &config.options {
            // One that is said again overrides.
            if option.name.as_deref() == Some("ndots")
                && let Some(Ok(value)) = option.value.as_deref().map(str::parse::<usize>)
            {
                ndots = value.min(MAX_NDOTS);
            }
        }
        Self {
            servers: servers.into(),
            searches: (searches + added.len()).min(MAX_SEARCHES),
            ndots,
        }
    }

    /// How many names are asked for until one with so many dots inside it is found as it is written.
    pub fn tries(&self, dots: usize) -> usize {
        if dots < self.ndots {
            self.searches + 1
        } else {
            1
        }
    }

    /// Whether the pod asks the cluster alone, and no more of it than all pods do.
    pub fn is_plain(&self) -> bool {
        *self.servers == [NameServer::Cluster]
            && (self.searches <= CLUSTER_SEARCHES || self.ndots == 0)
    }
}

/// How many names a pod without any setting tries for one with so many dots.
pub fn usual_tries(dots: usize) -> usize {
    if dots < CLUSTER_NDOTS {
        CLUSTER_SEARCHES + 1
    } else {
        1
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
            assert_eq!(*conf.servers, [NameServer::Cluster]);
            assert!(conf.is_plain());
            assert_eq!([conf.tries(1), conf.tries(4), conf.tries(5)], [4, 4, 1]);
            assert_eq!([1, 4, 5].map(usual_tries), [4, 4, 1]);
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
        assert_eq!(*custom.servers, [address("1.2.3.4")]);
        assert_eq!([custom.tries(1), custom.tries(2)], [3, 1]);
        let override_ndots = of(json!({
            "dnsPolicy": "ClusterFirst",
            "dnsConfig": { "options": [{ "name": "ndots", "value": "1" }] },
        }));
        assert_eq!(*override_ndots.servers, [NameServer::Cluster]);
        assert_eq!([override_ndots.tries(0), override_ndots.tries(1)], [4, 1]);
    }

    #[test]
    fn name_servers_and_search_domains_are_added_once_and_only_so_many() {
        let more = of(json!({
            "dnsConfig": {
                "nameservers": ["8.8.8.8", "::ffff:8.8.8.8", "9.9.9.9", "1.1.1.1"],
                "searches": ["svc.cluster.local.", "a.example", "a.example.", "b.example"],
            },
        }));
        let expected = [NameServer::Cluster, address("8.8.8.8"), address("9.9.9.9")];
        assert_eq!(*more.servers, expected);
        assert_eq!(more.searches, 5);
        assert!(!more.is_plain());
        let many: Vec<String> = (0..40).map(|i| format!("d{i}.example")).collect();
        assert_eq!(
            of(json!({ "dnsConfig": { "searches": many } })).searches,
            32
        );
    }

    #[test]
    fn the_default_policy_is_that_of_the_node() {
        let node = of(json!({ "dnsPolicy": "Default" }));
        assert_eq!(*node.servers, [NameServer::Node]);
        assert_eq!(node.tries(1), 1);
        assert!(!node.is_plain());
    }
}
