//! What is known of pods: those that differ from the others, by namespace. No IO.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;
use k8s_openapi::api::core::v1::ObjectReference;
use runtime::{
    cluster_cidrs::{Networks, Purpose},
    inspect::text::few,
    store::{ObjectKey, Scope},
};
use serde::Serialize;

use super::resolv_conf::{NameServer, ResolvConf};

/// So many servers that pods chose are asked; each costs a query for every look-up.
pub const MAX_TRUSTED: usize = 8;

/// How many pods are shown.
const MAX_SHOWN: usize = 1_000;

/// How many servers are named in an Event.
const MAX_NAMED: usize = 5;

/// All that is known.
#[derive(Debug, Default)]
pub struct Table {
    /// The addresses of the cluster's DNS; nothing is said of addresses before they are known.
    cluster: Option<BTreeSet<IpAddr>>,
    trusted: Vec<IpNet>,
    /// Where pods and Services have their addresses: anybody may run a name server there.
    cluster_networks: Option<Arc<Networks>>,
    /// The namespaces with rules by name, each with its EgressFirewall.
    rules: Arc<BTreeMap<String, ObjectReference>>,
    /// The pods that are not plain, by namespace; also of namespaces without rules, as far as their pods are told of.
    pods: BTreeMap<String, BTreeMap<String, ResolvConf>>,
}

/// Whose name servers a pod asks, from the best to the worst.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Whose {
    /// The cluster's alone.
    Cluster,
    /// Others too, all of which are asked here as well (`--trusted-nameserver`).
    Trusted,
    /// Those of the node.
    Node,
    /// Others.
    Foreign,
}

/// A pod that differs.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodView {
    /// Its namespace and name.
    pub pod: ObjectKey,
    /// Whose name servers it asks.
    pub whose: Whose,
    /// They, in words.
    #[serde(rename = "nameServers")]
    pub servers: Vec<String>,
}

/// What there is to know of all pods.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodsView {
    /// How many ask others than the cluster's, by whose they are.
    #[serde(rename = "nameServers")]
    pub counts: BTreeMap<Whose, usize>,
    /// Those that differ, at most 1,000.
    pub pods: Vec<PodView>,
}

/// What the author of an EgressFirewall is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// The EgressFirewall.
    pub about: ObjectReference,
    /// The same as long as the servers are: pods come and go.
    pub text: String,
}

impl Whose {
    /// Every word of [`Whose::as_str`], but for that of the cluster.
    pub const WORDS: &[&str] = &["trusted", "node", "foreign"];

    /// All but the cluster's.
    pub const OTHERS: [Self; 3] = [Self::Trusted, Self::Node, Self::Foreign];

    /// A word for metric labels and `/status.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Trusted => "trusted",
            Self::Node => "node",
            Self::Foreign => "foreign",
        }
    }
}

impl Table {
    /// Servers in these networks may be asked, if a pod asks them.
    pub fn new(trusted: Vec<IpNet>) -> Self {
        Self {
            trusted,
            ..Self::default()
        }
    }

    /// These namespaces have rules by name.
    pub fn set_rules(&mut self, rules: Arc<BTreeMap<String, ObjectReference>>) {
        self.rules = rules;
    }

    /// The namespaces with rules by name.
    pub fn rules(&self) -> &Arc<BTreeMap<String, ObjectReference>> {
        &self.rules
    }

    /// The namespaces with rules by name, their EgressFirewalls, and the pods there that are not plain.
    fn namespaces(
        &self,
    ) -> impl Iterator<Item = (&String, &ObjectReference, &BTreeMap<String, ResolvConf>)> {
        let namespaces = self.pods.iter();
        namespaces.filter_map(|(name, pods)| Some((name, self.rules.get(name)?, pods)))
    }

    /// These are the addresses of the cluster's DNS.
    pub fn set_cluster(&mut self, addresses: Option<BTreeSet<IpAddr>>) {
        self.cluster = addresses;
    }

    /// The networks of pods and Services are these.
    pub fn set_networks(&mut self, networks: Option<Arc<Networks>>) {
        self.cluster_networks = networks;
    }

    /// A pod is as it says; `None` if it is gone or no rule is about it. Returns whether anything is new.
    pub fn set(&mut self, pod: &ObjectKey, conf: Option<ResolvConf>) -> bool {
        let of_namespace = self.pods.entry(pod.namespace.clone()).or_default();
        let conf = conf.filter(|conf| !conf.is_plain());
        let is_new = of_namespace.get(&pod.name) != conf.as_ref();
        match conf {
            Some(conf) => of_namespace.insert(pod.name.clone(), conf),
            None => of_namespace.remove(&pod.name),
        };
        if of_namespace.is_empty() {
            self.pods.remove(&pod.namespace);
        }
        is_new
    }

    /// Nothing is known any more of the pods there.
    pub fn forget(&mut self, scope: &Scope) {
        match scope {
            Scope::All => self.pods.clear(),
            Scope::Namespace(namespace) => {
                self.pods.remove(namespace);
            }
        }
    }

    /// The servers of pods that may be asked, those first that most namespaces use, and how many more there are.
    pub fn trusted(&self) -> (Vec<IpAddr>, usize) {
        let mut users: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for (_, _, pods) in self.namespaces() {
            let servers = pods.values().flat_map(|it| it.0.iter());
            let trusted = servers.filter_map(|server| match server {
                NameServer::Address(it) if self.whose(*server) == Whose::Trusted => Some(*it),
                _ => None,
            });
            for server in trusted.collect::<BTreeSet<IpAddr>>() {
                *users.entry(server).or_default() += 1;
            }
        }
        let mut all: Vec<_> = users.into_iter().collect();
        all.sort_by_key(|(server, users)| (Reverse(*users), *server));
        let more = all.len().saturating_sub(MAX_TRUSTED);
        let asked = all.into_iter().take(MAX_TRUSTED);
        (asked.map(|(server, _)| server).collect(), more)
    }

    /// Whether an administrator trusts the server, and no tenant can run it as a pod or a Service.
    fn is_trusted(&self, server: IpAddr) -> bool {
        let Some(networks) = &self.cluster_networks else {
            return false;
        };
        let is_inside = matches!(
            networks.purpose(server),
            Some(Purpose::Pods | Purpose::Services | Purpose::UserDefinedNetworks)
        );
        !is_inside && self.trusted.iter().any(|net| net.contains(&server))
    }

    fn whose(&self, server: NameServer) -> Whose {
        match (server, &self.cluster) {
            (NameServer::Node, _) => Whose::Node,
            (NameServer::Cluster, _) | (NameServer::Address(_), None) => Whose::Cluster,
            // A link-local address is the node's own: a NodeLocal DNSCache, of which its Corefile tells.
            (NameServer::Address(it), Some(all)) if all.contains(&it) || is_link_local(it) => {
                Whose::Cluster
            }
            (NameServer::Address(it), _) if self.is_trusted(it) => Whose::Trusted,
            _ => Whose::Foreign,
        }
    }

    fn whose_all(&self, conf: &ResolvConf) -> Whose {
        let all = conf.0.iter().map(|server| self.whose(*server));
        all.max().unwrap_or(Whose::Cluster)
    }

    /// What there is to know.
    pub fn view(&self) -> PodsView {
        let mut view = PodsView::default();
        for (name, _, pods) in self.namespaces() {
            for (pod, conf) in pods {
                let whose = self.whose_all(conf);
                if whose == Whose::Cluster {
                    continue;
                }
                *view.counts.entry(whose).or_default() += 1;
                if view.pods.len() < MAX_SHOWN {
                    view.pods.push(PodView {
                        pod: ObjectKey {
                            namespace: name.clone(),
                            name: pod.clone(),
                        },
                        whose,
                        servers: conf.0.iter().map(|it| words(*it)).collect(),
                    });
                }
            }
        }
        view
    }

    /// What the authors of EgressFirewalls are to be told, by namespace.
    pub fn notes(&self) -> BTreeMap<String, Note> {
        let mut notes = BTreeMap::new();
        for (namespace, about, pods) in self.namespaces() {
            let servers = pods.values().flat_map(|conf| conf.0.iter().copied());
            let foreign = servers.filter(|it| self.whose(*it) >= Whose::Node);
            let foreign: BTreeSet<NameServer> = foreign.collect();
            if !foreign.is_empty() {
                let named = few(foreign.iter().map(|it| words(*it)), MAX_NAMED);
                let text = format!(
                    "pods of this namespace ask name servers that are not the cluster's, whose answers are not seen: {named}"
                );
                let about = about.clone();
                notes.insert(namespace.clone(), Note { about, text });
            }
        }
        notes
    }
}

fn words(server: NameServer) -> String {
    match server {
        NameServer::Cluster => "the cluster's".to_owned(),
        NameServer::Node => "the node's".to_owned(),
        NameServer::Address(address) => address.to_string(),
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests;
