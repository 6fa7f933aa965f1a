//! The pods with other DNS settings than the default, by namespace. No IO.

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

/// The most name servers of pods that are queried; each costs a query for every look-up.
pub const MAX_TRUSTED: usize = 8;

/// The most pods on the status page.
const MAX_SHOWN: usize = 1_000;

/// The most servers in an Event.
const MAX_NAMED: usize = 5;

/// The state of all pods.
#[derive(Debug, Default)]
pub struct Table {
    /// The addresses of the cluster's DNS. Until they are known, servers are not classified by
    /// address.
    pub cluster: Option<BTreeSet<IpAddr>>,
    trusted: Vec<IpNet>,
    /// The networks of pods and Services: any tenant may run a name server there.
    pub networks: Option<Arc<Networks>>,
    /// The namespaces with rules by name, each with its EgressFirewall.
    pub rules: Arc<BTreeMap<String, ObjectReference>>,
    /// The pods with other settings, by namespace; also of namespaces without rules, if their pods
    /// are watched.
    pods: BTreeMap<String, BTreeMap<String, ResolvConf>>,
}

/// The kind of a pod's name servers, from the best to the worst.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Whose {
    /// Only the cluster's.
    Cluster,
    /// Others too, all of which the collector queries as well (`--trusted-nameserver`).
    Trusted,
    /// The node's.
    Node,
    /// Others.
    Foreign,
}

/// A pod with other settings.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodView {
    pub pod: ObjectKey,
    /// The kind of its name servers.
    pub whose: Whose,
    /// Its name servers, as text.
    #[serde(rename = "nameServers")]
    pub servers: Vec<String>,
}

/// A summary of all pods.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodsView {
    /// The number of pods that use other servers than the cluster's, by kind.
    #[serde(rename = "nameServers")]
    pub counts: BTreeMap<Whose, usize>,
    /// These pods, at most 1,000.
    pub pods: Vec<PodView>,
}

/// A report to the author of an EgressFirewall.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    pub about: ObjectReference,
    /// Constant while the servers are, although pods come and go.
    pub text: String,
}

impl Whose {
    /// Every value of [`Whose::as_str`], except the cluster's.
    pub const WORDS: &[&str] = &["trusted", "node", "foreign"];

    /// All except the cluster's.
    pub const OTHERS: [Self; 3] = [Self::Trusted, Self::Node, Self::Foreign];

    /// The value in metric labels and `/status.json`.
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
    /// Servers in the `trusted` networks may be queried if a pod uses them.
    pub fn new(trusted: Vec<IpNet>) -> Self {
        Self {
            trusted,
            ..Self::default()
        }
    }

    /// The namespaces with rules by name, their EgressFirewalls, and their pods with other
    /// settings.
    fn namespaces(
        &self,
    ) -> impl Iterator<Item = (&String, &ObjectReference, &BTreeMap<String, ResolvConf>)> {
        let namespaces = self.pods.iter();
        namespaces.filter_map(|(name, pods)| Some((name, self.rules.get(name)?, pods)))
    }

    /// Sets the name servers of a pod; `None` if it is gone or no rule applies to it. Returns
    /// whether anything changed.
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

    /// Forgets the pods of this scope.
    pub fn forget(&mut self, scope: &Scope) {
        match scope {
            Scope::All => self.pods.clear(),
            Scope::Namespace(namespace) => {
                self.pods.remove(namespace);
            }
        }
    }

    /// The trusted servers of pods, those of the most namespaces first, and the number of further
    /// ones.
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
        let Some(networks) = &self.networks else {
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
            // A link-local address is the node's own: a NodeLocal DNSCache, whose Corefile is
            // checked.
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

    /// The summary for the status page.
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

    /// The reports to the authors of EgressFirewalls, by namespace.
    pub fn notes(&self) -> BTreeMap<String, Note> {
        let mut notes = BTreeMap::new();
        for (namespace, about, pods) in self.namespaces() {
            let servers = pods.values().flat_map(|conf| conf.0.iter().copied());
            let foreign = servers.filter(|it| self.whose(*it) >= Whose::Node);
            let foreign: BTreeSet<NameServer> = foreign.collect();
            if !foreign.is_empty() {
                let named = few(foreign.iter().map(|it| words(*it)), MAX_NAMED);
                let text = format!(
                    "pods of this namespace use name servers other than the cluster's: {named}. The collector does not receive their answers, so \
                     rules by name may miss addresses that these pods use. Let the pods use the cluster's DNS, or ask an administrator to \
                     trust these servers (--trusted-nameserver)"
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
