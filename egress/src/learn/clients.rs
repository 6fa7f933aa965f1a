//! The clients that count: the pods of a namespace, or addresses.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    mem,
    net::IpAddr,
    sync::Arc,
};

use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use ipnet::IpNet;
use kube::{Api, ResourceExt, api::ListParams};
use proto::{facts::ClientAnswer, timestamp::Timestamp};
use runtime::{
    UsageError,
    clock::Clock,
    cluster::{
        Cluster,
        node::{NODE_SUBNETS, Node},
    },
    store::{Event, Scope},
};
use tokio::time::timeout;

use super::window::Window;
use crate::{
    PROGRAM,
    objects::Pod,
    targets::{Access, has_ended},
};

/// The most answers that wait for the address of a new pod: the kubelet reports it after the pod's first query.
const MOST_WAITING: usize = 10_000;

/// The clients that count, and what they asked for.
pub(super) struct Clients {
    pub(super) window: Window,
    networks: Vec<IpNet>,
    pods: HashMap<IpAddr, Arc<str>>,
    changes: BoxStream<'static, Event<Pod>>,
    /// Answers to clients that are no known pod, the oldest first.
    waiting: VecDeque<(Timestamp, ClientAnswer)>,
    /// The addresses of Nodes, or why they are not known.
    nodes: Result<HashSet<IpAddr>, String>,
    answers_to_nodes: u64,
    clock: Clock,
}

impl Clients {
    /// Clients of these networks.
    pub(super) fn of(networks: Vec<IpNet>) -> Self {
        Self {
            window: Window::default(),
            networks,
            pods: HashMap::new(),
            changes: stream::pending().boxed(),
            waiting: VecDeque::new(),
            nodes: Ok(HashSet::new()),
            answers_to_nodes: 0,
            clock: Clock::system(),
        }
    }

    /// The pods of a namespace, followed from now on.
    ///
    /// # Errors
    /// [`UsageError`]: they cannot be read.
    pub(super) async fn of_namespace(access: &Access, namespace: &str) -> Result<Self, UsageError> {
        let scope = Scope::Namespace(namespace.to_owned());
        let cluster = Cluster::with_client(access.client.clone(), PROGRAM);
        let mut clients = Self {
            changes: cluster.watch(scope, None).boxed(),
            nodes: nodes(access).await,
            ..Self::of(Vec::new())
        };
        let why = match timeout(access.timeout, clients.changes.next()).await {
            Ok(Some(Event::OutOfSync(why))) => why,
            Ok(Some(first)) => {
                clients.apply(first);
                return Ok(clients);
            }
            _ => "no answer in time".to_owned(),
        };
        Err(UsageError(format!(
            "the pods of namespace {namespace} cannot be watched: {why}"
        )))
    }

    /// Waits for a change of the pods, and applies it. May be dropped at any time.
    pub(super) async fn follow(&mut self) {
        if let Some(change) = self.changes.next().await {
            self.apply(change);
        }
    }

    fn apply(&mut self, change: Event<Pod>) {
        match change {
            Event::Synced(pods) => {
                self.pods.clear();
                pods.iter().for_each(|pod| self.add_pod(pod));
            }
            Event::Applied(pod) => self.add_pod(&pod),
            Event::Deleted(key) => self.remove_pod(&key.name),
            // What is known stays valid.
            Event::Undecodable(_) | Event::OutOfSync(_) => {}
        }
    }

    fn add_pod(&mut self, pod: &Pod) {
        let name: Arc<str> = pod.name_any().into();
        self.remove_pod(&name);
        if pod.spec.host_network {
            return;
        }
        let ips = pod.status.pod_ips.iter();
        let ips = ips.filter_map(|it| it.ip.parse::<IpAddr>().ok());
        self.pods.extend(ips.map(|ip| (ip, Arc::clone(&name))));
        // An earlier answer was to another pod that had the address.
        let created = pod.metadata.creation_timestamp.as_ref();
        let created = created.map_or(0, |it| it.0.as_millisecond());
        for (at, answer) in mem::take(&mut self.waiting) {
            let pod = answer.client.and_then(|ip| self.pods.get(&ip));
            match pod.filter(|it| **it == name && at.as_millis() >= created) {
                Some(pod) => self.window.add(answer, pod),
                None => self.waiting.push_back((at, answer)),
            }
        }
        if has_ended(pod) {
            self.remove_pod(&name);
        }
    }

    fn remove_pod(&mut self, name: &str) {
        self.pods.retain(|_, pod| **pod != *name);
    }

    /// Counts an answer, if its client is one of these.
    pub(super) fn add(&mut self, answer: ClientAnswer) {
        let Some(client) = answer.client else {
            return;
        };
        if let Some(pod) = self.pods.get(&client) {
            self.window.add(answer, pod);
        } else if self.networks.iter().any(|it| it.contains(&client)) {
            self.window.add(answer, &client.to_string().into());
        } else if self.nodes.as_ref().is_ok_and(|it| it.contains(&client)) {
            self.answers_to_nodes += 1;
        } else {
            if self.waiting.len() >= MOST_WAITING {
                self.waiting.pop_front();
            }
            self.waiting.push_back((self.clock.now(), answer));
        }
    }

    /// What hides clients, if anything does.
    pub(super) fn hidden(&self) -> Option<String> {
        match (&self.nodes, self.answers_to_nodes) {
            (Ok(_), 0) => None,
            (Ok(_), count) => Some(format!(
                "{count} answers went to addresses of Nodes: a NodeLocal DNSCache or SNAT hides the pods behind them, and their names may be missing."
            )),
            (Err(why), _) => Some(format!(
                "Whether a NodeLocal DNSCache or SNAT hides pods is not known, since the Nodes cannot be listed: {why}"
            )),
        }
    }
}

/// The addresses of all Nodes, or why they are not known.
async fn nodes(access: &Access) -> Result<HashSet<IpAddr>, String> {
    let api = Api::<Node>::all(access.client.clone());
    let params = ListParams::default();
    let listed = api.list(&params).await;
    let listed = listed.map_err(|error| error.to_string())?;
    Ok(listed.items.iter().flat_map(addresses).collect())
}

/// The addresses of a Node: its own, and the first two of its pod networks, which are those of gateways and management ports.
fn addresses(node: &Node) -> Vec<IpAddr> {
    let own = node.status.addresses.iter();
    let own = own.filter_map(|it| it.address.parse::<IpAddr>().ok());
    let cidrs = node.spec.pod_cidrs.iter();
    // JSON, in which all networks are texts.
    let subnets = node.annotations().get(NODE_SUBNETS).into_iter();
    let subnets = subnets.flat_map(|json| json.split('"'));
    let networks = cidrs.map(String::as_str).chain(subnets);
    let networks = networks.filter_map(|it| it.parse::<IpNet>().ok());
    let first = networks.flat_map(|network| {
        let hosts = network.hosts().filter(move |it| *it != network.network());
        hosts.take(2)
    });
    own.chain(first).collect()
}

#[cfg(test)]
mod tests;
