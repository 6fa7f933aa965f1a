//! What is known of pods: those that differ from the others, by namespace. No IO.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;
use k8s_openapi::api::core::v1::ObjectReference;
use runtime::{
    networks::{Networks, Purpose},
    store::ObjectKey,
};

use super::resolv_conf::{NameServer, ResolvConf, usual_tries};
use crate::policy::DnsRules;

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
    namespaces: BTreeMap<String, Namespace>,
}

#[derive(Debug)]
struct Namespace {
    rules: DnsRules,
    /// Those that are not plain.
    pods: BTreeMap<String, ResolvConf>,
}

/// Whose name servers a pod asks, from the best to the worst.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
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
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PodView {
    /// Its namespace and name.
    pub pod: ObjectKey,
    /// Whose name servers it asks.
    pub whose: Whose,
    /// They, in words.
    pub servers: Vec<String>,
    /// How many names it tries for one of the rules, at most.
    pub tries: usize,
}

/// What there is to know of all pods.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PodsView {
    /// How many ask others than the cluster's, by whose they are.
    pub counts: BTreeMap<Whose, usize>,
    /// How many try more names than a pod without settings does.
    pub multiplied: usize,
    /// Those that differ, at most 1,000.
    pub pods: Vec<PodView>,
}

/// What the author of an EgressFirewall is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// The EgressFirewall.
    pub about: ObjectReference,
    /// The reason of an Event.
    pub reason: &'static str,
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

    /// These namespaces have rules by name; what was known of others is forgotten.
    /// Returns whether anything is new.
    pub fn set_namespaces(&mut self, rules: &BTreeMap<String, DnsRules>) -> bool {
        let before = self.namespaces.len();
        self.namespaces.retain(|name, _| rules.contains_key(name));
        let mut is_new = before != self.namespaces.len();
        for (name, rules) in rules {
            match self.namespaces.get_mut(name) {
                Some(known) if known.rules == *rules => continue,
                Some(known) => known.rules.clone_from(rules),
                None => {
                    let namespace = Namespace {
                        rules: rules.clone(),
                        pods: BTreeMap::new(),
                    };
                    self.namespaces.insert(name.clone(), namespace);
                }
            }
            is_new = true;
        }
        is_new
    }

    /// These are the addresses of the cluster's DNS.
    pub fn set_cluster(&mut self, addresses: Option<BTreeSet<IpAddr>>) {
        self.cluster = addresses;
    }

    /// The networks of pods and Services are these.
    pub fn set_networks(&mut self, networks: Option<Arc<Networks>>) {
        self.cluster_networks = networks;
    }

    /// A pod is as it says; `None` if it is gone or no rule is about it.
    pub fn set(&mut self, pod: &ObjectKey, conf: Option<ResolvConf>) {
        let Some(namespace) = self.namespaces.get_mut(&pod.namespace) else {
            return;
        };
        match conf.filter(|conf| !conf.is_plain()) {
            Some(conf) => namespace.pods.insert(pod.name.clone(), conf),
            None => namespace.pods.remove(&pod.name),
        };
    }

    /// Nothing is known any more of the pods of a namespace.
    pub fn forget(&mut self, namespace: &str) {
        if let Some(known) = self.namespaces.get_mut(namespace) {
            known.pods.clear();
        }
    }

    /// The servers of pods that may be asked, those first that most namespaces use, and how many more there are.
    pub fn trusted(&self) -> (Vec<IpAddr>, usize) {
        let mut users: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for namespace in self.namespaces.values() {
            let servers = namespace.pods.values().flat_map(|it| it.servers.iter());
            let trusted = servers.filter_map(|server| match self.whose(*server) {
                (Whose::Trusted, address) => address,
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
        let purpose = (self.cluster_networks.as_ref()).map(|networks| networks.purpose(server));
        let is_inside = match purpose {
            None => true,
            Some(purpose) => matches!(
                purpose,
                Some(Purpose::Pods | Purpose::Services | Purpose::UserDefinedNetworks)
            ),
        };
        !is_inside && self.trusted.iter().any(|net| net.contains(&server))
    }

    fn whose(&self, server: NameServer) -> (Whose, Option<IpAddr>) {
        let address = match server {
            NameServer::Cluster => return (Whose::Cluster, None),
            NameServer::Node => return (Whose::Node, None),
            NameServer::Address(address) => address,
        };
        let whose = match &self.cluster {
            None => Whose::Cluster,
            Some(cluster) if cluster.contains(&address) => Whose::Cluster,
            // Such an address is the node's own: a NodeLocal DNSCache, of which its Corefile tells.
            Some(_) if is_link_local(address) => Whose::Cluster,
            Some(_) if self.is_trusted(address) => Whose::Trusted,
            Some(_) => Whose::Foreign,
        };
        (whose, Some(address))
    }

    fn whose_all(&self, conf: &ResolvConf) -> Whose {
        let all = conf.servers.iter().map(|server| self.whose(*server).0);
        all.max().unwrap_or(Whose::Cluster)
    }

    /// What there is to know.
    pub fn view(&self) -> PodsView {
        let mut view = PodsView::default();
        for (name, namespace) in &self.namespaces {
            let dots = namespace.rules.fewest_dots;
            for (pod, conf) in &namespace.pods {
                let (whose, tries) = (self.whose_all(conf), conf.tries(dots));
                if whose != Whose::Cluster {
                    *view.counts.entry(whose).or_default() += 1;
                }
                let is_multiplied = tries > usual_tries(dots);
                view.multiplied += usize::from(is_multiplied);
                let is_shown = whose != Whose::Cluster || is_multiplied;
                if is_shown && view.pods.len() < MAX_SHOWN {
                    view.pods.push(PodView {
                        pod: ObjectKey {
                            namespace: name.clone(),
                            name: pod.clone(),
                        },
                        whose,
                        servers: conf.servers.iter().map(|it| words(*it)).collect(),
                        tries,
                    });
                }
            }
        }
        view
    }

    /// What the authors of EgressFirewalls are to be told, in their order.
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        for namespace in self.namespaces.values() {
            let mut foreign = BTreeSet::new();
            let mut tries = 0;
            let dots = namespace.rules.fewest_dots;
            for conf in namespace.pods.values() {
                let others = conf.servers.iter().copied();
                foreign.extend(others.filter(|it| self.whose(*it).0 >= Whose::Node));
                tries = tries.max(conf.tries(dots));
            }
            let mut note = |reason, text| {
                let about = namespace.rules.about.clone();
                notes.push(Note {
                    about,
                    reason,
                    text,
                });
            };
            if !foreign.is_empty() {
                let text = format!(
                    "pods of this namespace ask name servers that are not the cluster's, whose answers are not seen: {}",
                    named(&foreign)
                );
                note("ForeignNameServers", text);
            }
            if tries > usual_tries(dots) {
                let text = format!(
                    "pods of this namespace try {tries} names for one of the rules, by their search domains and ndots: give the names a dot \
                     at their end, or set ndots to 1"
                );
                note("QueriesMultiplied", text);
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

fn named(servers: &BTreeSet<NameServer>) -> String {
    let few: Vec<String> = servers
        .iter()
        .take(MAX_NAMED)
        .map(|it| words(*it))
        .collect();
    let mut text = few.join(", ");
    if let more @ 1.. = servers.len().saturating_sub(MAX_NAMED) {
        // Writing to a String does not fail.
        let _ok = write!(text, " and {more} more");
    }
    text
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn conf(spec: &Value) -> ResolvConf {
        let pod = json!({ "metadata": { "name": "p", "namespace": "team" }, "spec": spec });
        ResolvConf::of(&serde_json::from_value(pod).unwrap())
    }

    fn pod(name: &str) -> ObjectKey {
        format!("team/{name}").parse().unwrap()
    }

    fn asking(servers: &[&str]) -> ResolvConf {
        conf(&json!({ "dnsPolicy": "None", "dnsConfig": { "nameservers": servers } }))
    }

    fn table(trusted: &[&str]) -> Table {
        let mut table = Table::new(trusted.iter().map(|net| net.parse().unwrap()).collect());
        let rules = DnsRules {
            about: ObjectReference::default(),
            fewest_dots: 2,
        };
        table.set_namespaces(&[("team".to_owned(), rules)].into());
        table.set_cluster(Some(["10.96.0.10".parse().unwrap()].into()));
        let pods = (Purpose::Pods, "10.244.0.0/16".parse().unwrap());
        let services = (Purpose::Services, "10.96.0.0/12".parse().unwrap());
        table.set_networks(Some(Arc::new(Networks::new([pods, services]))));
        table
    }

    fn counts(table: &Table) -> [usize; 3] {
        let view = table.view();
        Whose::OTHERS.map(|whose| view.counts.get(&whose).copied().unwrap_or(0))
    }

    #[test]
    fn servers_that_are_not_the_clusters_are_told_by_whose_they_are() {
        let mut table = table(&["192.0.2.0/24"]);
        table.set(&pod("plain"), Some(conf(&json!({}))));
        table.set(&pod("same"), Some(asking(&["10.96.0.10"])));
        table.set(&pod("local"), Some(asking(&["169.254.20.10"])));
        assert_eq!(counts(&table), [0; 3]);
        assert_eq!(table.notes(), []);
        table.set(&pod("trusted"), Some(asking(&["10.96.0.10", "192.0.2.1"])));
        table.set(&pod("node"), Some(conf(&json!({ "dnsPolicy": "Default" }))));
        table.set(&pod("foreign"), Some(asking(&["192.0.2.1", "8.8.8.8"])));
        assert_eq!(counts(&table), [1, 1, 1]);
        let notes = table.notes();
        assert_eq!(notes.len(), 1);
        assert_eq!(notes[0].reason, "ForeignNameServers");
        assert!(
            notes[0].text.ends_with(": the node's, 8.8.8.8"),
            "{:?}",
            notes[0]
        );
        table.set(&pod("foreign"), None);
        table.set(&pod("node"), Some(conf(&json!({}))));
        assert_eq!(counts(&table), [1, 0, 0]);
        assert_eq!(table.notes(), []);
    }

    #[test]
    fn only_trusted_servers_that_pods_use_are_asked_and_only_so_many() {
        let mut table = table(&["192.0.2.0/24"]);
        assert_eq!(table.trusted(), (vec![], 0));
        for i in 0..12 {
            let servers = [format!("192.0.2.{i}"), format!("198.51.100.{i}")];
            let servers = servers.each_ref().map(String::as_str);
            table.set(&pod(&format!("p{i}")), Some(asking(&servers)));
        }
        let (asked, more) = table.trusted();
        assert_eq!((asked.len(), more), (MAX_TRUSTED, 4));
        assert!(
            asked
                .iter()
                .all(|server| server.to_string().starts_with("192.0.2."))
        );
        table.forget("team");
        assert_eq!(table.trusted(), (vec![], 0));
    }

    #[test]
    fn a_name_server_in_the_networks_of_pods_and_services_is_never_trusted() {
        let mut table = table(&["10.0.0.0/8"]);
        let servers = ["10.244.0.7", "10.96.0.99", "10.1.0.1"];
        table.set(&pod("a"), Some(asking(&servers)));
        assert_eq!(table.trusted(), (vec!["10.1.0.1".parse().unwrap()], 0));
        assert_eq!(counts(&table), [0, 0, 1]);
        table.set_networks(None);
        assert_eq!(table.trusted().0, Vec::<IpAddr>::new(), "not known yet");
    }

    #[test]
    fn the_servers_that_most_namespaces_use_are_asked() {
        let mut table = table(&["192.0.2.0/24"]);
        let rules = |_| DnsRules {
            about: ObjectReference::default(),
            fewest_dots: 2,
        };
        let namespaces = ["team", "two", "three"].map(|name| (name.to_owned(), rules(name)));
        table.set_namespaces(&namespaces.into());
        // One namespace chose many with low addresses.
        for last in 1..=20 {
            let server = format!("192.0.2.{last}");
            table.set(&pod(&format!("p{last}")), Some(asking(&[&server])));
        }
        for key in ["two/a", "two/b", "three/a"] {
            let key = key.parse().unwrap();
            table.set(&key, Some(asking(&["192.0.2.200"])));
        }
        let (asked, more) = table.trusted();
        assert_eq!((asked.len(), more), (MAX_TRUSTED, 21 - MAX_TRUSTED));
        assert_eq!(asked[0].to_string(), "192.0.2.200");
    }

    #[test]
    fn nobody_is_called_foreign_before_the_clusters_servers_are_known() {
        let mut table = table(&[]);
        table.set_cluster(None);
        table.set(&pod("a"), Some(asking(&["10.96.0.10"])));
        assert_eq!(counts(&table), [0; 3]);
    }

    #[test]
    fn pods_that_try_more_names_than_others_are_told() {
        let mut table = table(&[]);
        let search = json!({ "dnsConfig": { "searches": ["a.example", "b.example"] } });
        table.set(&pod("a"), Some(conf(&search)));
        assert_eq!(table.view().multiplied, 1);
        assert_eq!(table.view().pods[0].tries, 6);
        assert_eq!(table.notes()[0].reason, "QueriesMultiplied");
        let options = json!([{ "name": "ndots", "value": "2" }]);
        let calm = json!({ "dnsConfig": { "searches": ["a.example"], "options": options } });
        table.set(&pod("a"), Some(conf(&calm)));
        assert_eq!(table.view(), PodsView::default());
    }

    #[test]
    fn what_a_namespace_without_rules_has_is_not_kept() {
        let mut table = table(&[]);
        table.set(&"other/a".parse().unwrap(), Some(asking(&["8.8.8.8"])));
        assert_eq!(counts(&table), [0; 3]);
        table.set(&pod("a"), Some(asking(&["8.8.8.8"])));
        table.set_namespaces(&BTreeMap::new());
        assert_eq!(counts(&table), [0; 3]);
    }
}
