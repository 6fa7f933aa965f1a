//! The task that watches pods, while this replica leads.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    future::{pending, ready},
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use futures_util::{
    StreamExt,
    stream::{BoxStream, SelectAll},
};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Service;
use runtime::{
    changes::send_if_changed,
    cluster::Cluster,
    endpoints::Endpoints,
    leader::Leader,
    metrics::Series,
    networks::Networks,
    report::{Reporter, Severity},
    store::{Event, ObjectKey, Scope},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    BYPASSING, MULTIPLYING, UNWATCHED,
    pod::PodDns,
    resolv_conf::ResolvConf,
    table::{MAX_TRUSTED, Note, PodsView, Table, Whose},
};
use crate::{
    clients::Clients,
    policy::{DnsRules, Overview},
    resolve::{Server, Servers},
};

/// What changes within this time is looked at together.
const CALM: Duration = Duration::from_millis(500);

/// How often what is still so is said again.
const AGAIN: Duration = Duration::from_secs(30 * 60);

/// How long to wait when reports were not taken.
const BUSY: Duration = Duration::from_secs(1);

/// The pods of so many namespaces are watched: each watch is a connection to the API server.
const MAX_WATCHES: usize = 512;

/// The port of DNS.
const PORT: u16 = 53;

/// What the flags say.
#[derive(Clone, Debug)]
pub struct Config {
    /// The Services of the cluster's DNS.
    pub services: Vec<ObjectKey>,
    /// Servers in these networks are asked, if pods ask them.
    pub trusted: Vec<IpNet>,
}

/// What the task is told.
#[derive(Debug)]
pub struct Inputs {
    /// Which namespaces have rules by name.
    pub overview: watch::Receiver<Arc<Overview>>,
    /// The servers behind the Services.
    pub endpoints: Option<watch::Receiver<Option<Endpoints>>>,
    /// The cluster's own networks.
    pub networks: watch::Receiver<Option<Arc<Networks>>>,
    /// Whether this replica leads.
    pub leader: Leader,
}

/// What it tells.
#[derive(Debug)]
pub struct Outputs {
    /// Whose pods clients are. It knows none while this replica does not lead.
    pub clients: Clients,
    /// What there is to know; `None` while this replica does not lead.
    pub view: watch::Sender<Option<Arc<PodsView>>>,
    /// The servers that may be asked because pods ask them.
    pub trusted: watch::Sender<Servers>,
    /// What the authors of EgressFirewalls are told.
    pub reporter: Reporter,
}

enum Change {
    /// Of a namespace.
    Pods(String, Box<Event<PodDns>>),
    /// The addresses of a Service.
    Service(ObjectKey, Vec<IpAddr>),
}

type Changes = SelectAll<BoxStream<'static, Change>>;

/// Watches until the token is cancelled.
///
/// # Errors
/// None: what goes wrong is logged and tried again.
pub async fn run(
    config: Config,
    cluster: Cluster,
    mut inputs: Inputs,
    outputs: Outputs,
    token: CancellationToken,
) -> anyhow::Result<()> {
    let mut task = Task::new(config, cluster, outputs);
    let mut endpoints = inputs.endpoints.take();
    loop {
        let namespaces = inputs.overview.borrow_and_update().dns.clone();
        let behind = endpoints
            .as_mut()
            .map(|found| found.borrow_and_update().clone());
        task.set_networks(inputs.networks.borrow_and_update().clone());
        task.lead(inputs.leader.is_leading(), &namespaces);
        task.set_endpoints(behind.flatten().as_ref());
        let wake = task.wake();
        tokio::select! {
            () = token.cancelled() => return Ok(()),
            Some(change) = task.changes.next() => task.take(change),
            () = inputs.leader.changed() => {}
            Ok(()) = inputs.overview.changed() => {}
            Ok(()) = inputs.networks.changed() => {}
            () = changed(&mut endpoints) => {}
            () = sleep_until(wake) => task.tell(),
        }
    }
}

/// Returns when there are other endpoints.
async fn changed(endpoints: &mut Option<watch::Receiver<Option<Endpoints>>>) {
    if let Some(found) = endpoints
        && found.changed().await.is_ok()
    {
        return;
    }
    pending().await
}

struct Task {
    config: Config,
    cluster: Cluster,
    outputs: Outputs,
    table: Table,
    /// Namespaces whose pods are watched.
    watched: BTreeMap<String, CancellationToken>,
    /// Of which the pods were listed.
    listed: BTreeSet<String>,
    changes: Changes,
    networks: Option<Arc<Networks>>,
    services: BTreeMap<ObjectKey, Vec<IpAddr>>,
    behind: BTreeSet<IpAddr>,
    /// The watches of pods, and of Services, that end when this replica does not lead.
    leading: Option<CancellationToken>,
    /// Nobody was told of a change yet.
    changed: Option<Instant>,
    told: Vec<Note>,
    again: Instant,
    bypassing: Series,
    multiplying: Series,
    unwatched: Series,
}

impl Task {
    fn new(config: Config, cluster: Cluster, outputs: Outputs) -> Self {
        Self {
            table: Table::new(config.trusted.clone()),
            config,
            cluster,
            outputs,
            watched: BTreeMap::new(),
            listed: BTreeSet::new(),
            changes: SelectAll::new(),
            networks: None,
            services: BTreeMap::new(),
            behind: BTreeSet::new(),
            leading: None,
            changed: None,
            told: Vec::new(),
            again: Instant::now() + AGAIN,
            bypassing: Series::of(&BYPASSING),
            multiplying: Series::of(&MULTIPLYING),
            unwatched: Series::of(&UNWATCHED),
        }
    }

    fn lead(&mut self, leads: bool, namespaces: &BTreeMap<String, DnsRules>) {
        match (&self.leading, leads) {
            (None, true) => {
                let token = CancellationToken::new();
                for service in &self.config.services {
                    let key = service.clone();
                    let events = self.cluster.watch_one::<Service>(service);
                    let events = events.filter_map(move |event| {
                        let change = addresses(event).map(|it| Change::Service(key.clone(), it));
                        ready(change)
                    });
                    let until = token.clone().cancelled_owned();
                    self.changes.push(events.take_until(until).boxed());
                }
                self.leading = Some(token);
                self.outputs.clients.watch(self.networks.clone());
                self.touch();
            }
            (Some(token), false) => {
                token.cancel();
                self.leading = None;
                self.changes = SelectAll::new();
                self.watched.clear();
                self.listed.clear();
                self.services.clear();
                self.table = Table::new(self.config.trusted.clone());
                self.table.set_networks(self.networks.clone());
                self.outputs.clients.watch(None);
                self.changed = None;
                self.told.clear();
                self.bypassing.replace::<1>([]);
                self.multiplying.replace::<0>([]);
                self.unwatched.replace::<0>([]);
                self.outputs.view.send_replace(None);
                self.outputs.trusted.send_replace(Servers::default());
            }
            _ => {}
        }
        if let Some(token) = self.leading.clone() {
            self.watch(namespaces, &token);
        }
    }

    /// Watches the pods of these namespaces, and no others.
    fn watch(&mut self, namespaces: &BTreeMap<String, DnsRules>, token: &CancellationToken) {
        if self.table.set_namespaces(namespaces) {
            self.touch();
        }
        self.watched.retain(|name, token| {
            let stays = namespaces.contains_key(name);
            if !stays {
                token.cancel();
                self.outputs.clients.retain(name, &HashSet::new());
            }
            stays
        });
        for name in namespaces.keys() {
            if self.watched.len() == MAX_WATCHES {
                break;
            }
            if !self.watched.contains_key(name) {
                let (token, name) = (token.child_token(), name.clone());
                self.watched.insert(name.clone(), token.clone());
                let scope = Scope::Namespace(name.clone());
                let events = self.cluster.watch_running::<PodDns>(scope);
                let events = events.map(move |event| Change::Pods(name.clone(), Box::new(event)));
                let events = events.take_until(token.cancelled_owned());
                self.changes.push(events.boxed());
            }
        }
        self.listed.retain(|name| self.watched.contains_key(name));
        self.look_whether_all_are_known(namespaces.len());
        let unwatched = namespaces.len() - self.watched.len();
        self.unwatched.replace([([], unwatched as f64)]);
    }

    fn take(&mut self, change: Change) {
        match change {
            Change::Pods(namespace, event) => self.take_pods(&namespace, *event),
            Change::Service(key, addresses) => {
                self.services.insert(key, addresses);
                self.set_cluster();
            }
        }
        self.touch();
    }

    fn set_networks(&mut self, networks: Option<Arc<Networks>>) {
        if self.networks == networks {
            return;
        }
        self.networks.clone_from(&networks);
        self.table.set_networks(networks.clone());
        if self.leading.is_some() && networks.is_some() {
            self.outputs.clients.watch(networks);
        }
        self.touch();
    }

    /// Whether the pods of all of so many namespaces were listed.
    fn look_whether_all_are_known(&self, namespaces: usize) {
        let is_complete = self.listed.len() == namespaces;
        self.outputs.clients.set_complete(is_complete);
    }

    fn set_pod(&mut self, pod: &PodDns) {
        let key = ObjectKey::of(pod);
        let counts = pod.runs() && !pod.is_on_host();
        self.table.set(&key, counts.then(|| ResolvConf::of(pod)));
        self.outputs.clients.set(key, pod.addresses());
    }

    fn take_pods(&mut self, namespace: &str, event: Event<PodDns>) {
        match event {
            Event::Synced(pods) => {
                let keys = pods.iter().map(ObjectKey::of).collect();
                self.outputs.clients.retain(namespace, &keys);
                self.listed.insert(namespace.to_owned());
                self.table.forget(namespace);
                pods.iter().for_each(|pod| self.set_pod(pod));
            }
            Event::Applied(pod) => self.set_pod(&pod),
            Event::Deleted(key) => {
                self.outputs.clients.end(&key);
                self.table.set(&key, None);
            }
            // What was known holds; the watch says so itself.
            Event::OutOfSync(reason) => {
                info!(%namespace, %reason, "pods cannot be read: which of them bypass the cluster's DNS is not known");
            }
            Event::Undecodable(_) => {}
        }
    }

    fn set_endpoints(&mut self, endpoints: Option<&Endpoints>) {
        let behind: BTreeSet<IpAddr> = endpoints
            .into_iter()
            .flat_map(|it| it.keys().map(|server| server.ip().to_canonical()))
            .collect();
        if behind != self.behind {
            self.behind = behind;
            self.set_cluster();
            self.touch();
        }
    }

    fn set_cluster(&mut self) {
        let all = self.services.values().flatten().copied();
        let all: BTreeSet<IpAddr> = all.chain(self.behind.iter().copied()).collect();
        // Of each Service it must be known whether it is there.
        let is_known = self.services.len() == self.config.services.len() && !all.is_empty();
        self.table.set_cluster(is_known.then_some(all));
    }

    fn touch(&mut self) {
        if self.leading.is_some() {
            self.changed.get_or_insert_with(|| Instant::now() + CALM);
        }
    }

    fn wake(&self) -> Instant {
        self.changed.map_or(self.again, |at| at.min(self.again))
    }

    /// Tells what is known now.
    fn tell(&mut self) {
        let now = Instant::now();
        if self.leading.is_none() {
            self.again = now + AGAIN;
            return;
        }
        self.changed = None;
        let view = self.table.view();
        self.bypassing.replace(Whose::OTHERS.map(|whose| {
            let count = view.counts.get(&whose).copied().unwrap_or(0);
            ([whose.as_str().to_owned()], count as f64)
        }));
        self.multiplying.replace([([], view.multiplied as f64)]);
        self.outputs.view.send_replace(Some(Arc::new(view)));
        self.trust();
        if self.again <= now {
            self.told.clear();
            self.again = now + AGAIN;
        }
        let notes = self.table.notes();
        let mut told = Vec::new();
        for note in notes {
            let is_new = !self.told.contains(&note);
            let report = || {
                let Note {
                    about,
                    reason,
                    text,
                } = note.clone();
                self.outputs
                    .reporter
                    .report(about, Severity::Warning, reason, text)
            };
            if is_new && !report() {
                self.changed = Some(now + BUSY);
            } else {
                told.push(note);
            }
        }
        self.told = told;
    }

    fn trust(&self) {
        let (trusted, more) = self.table.trusted();
        let servers: Servers = trusted
            .iter()
            .map(|address| Server::udp(SocketAddr::new(*address, PORT)))
            .collect();
        if send_if_changed(&self.outputs.trusted, servers) {
            info!(servers = ?trusted, "name servers of pods that are asked too (--trusted-nameserver)");
            if more > 0 {
                warn!(
                    more,
                    most = MAX_TRUSTED,
                    "pods ask more trusted name servers than are asked here"
                );
            }
        }
    }
}

/// The addresses of a Service that is watched, if the event tells.
fn addresses(event: Event<Service>) -> Option<Vec<IpAddr>> {
    let of = |service: &Service| -> Vec<IpAddr> {
        let spec = service.spec.as_ref();
        let ips = spec.and_then(|spec| spec.cluster_ips.as_ref());
        let ips = ips.into_iter().flatten();
        ips.filter_map(|text| text.parse().ok()).collect()
    };
    match event {
        Event::Synced(services) => Some(services.iter().flat_map(of).collect()),
        Event::Applied(service) => Some(of(&service)),
        Event::Deleted(_) => Some(Vec::new()),
        // What was read holds.
        Event::OutOfSync(_) | Event::Undecodable(_) => None,
    }
}
