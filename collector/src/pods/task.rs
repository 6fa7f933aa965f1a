//! The task that watches pods while this replica leads. The cost of a pod's event does not depend
//! on the number of namespaces.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    future::ready,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use futures_util::{
    StreamExt,
    stream::{BoxStream, SelectAll},
};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{ObjectReference, Service};
use runtime::{
    changes::send_if_changed,
    cluster::Cluster,
    cluster_cidrs::Networks,
    endpoints::Endpoints,
    kube_events::{Reporter, Severity},
    leader::Leader,
    metrics::Series,
    store::{Event, ObjectKey, Scope},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    BYPASSING,
    pod::PodDns,
    resolv_conf::ResolvConf,
    table::{MAX_TRUSTED, Note, PodsView, Table, Whose},
    watches::PodWatches,
};
use crate::{
    clients::Clients,
    lookup::{Server, Servers},
    rules::{BySource, Overview},
};

/// Changes within this time are handled together.
const CALM: Duration = Duration::from_millis(500);

/// The reason of the Event.
const REASON: &str = "ForeignNameServers";

const PORT: u16 = 53;

/// The settings by flags.
#[derive(Clone, Debug)]
pub struct Config {
    /// The Services of the cluster's DNS.
    pub services: Vec<ObjectKey>,
    /// Servers in these networks are queried if pods use them.
    pub trusted: Vec<IpNet>,
}

#[derive(Debug)]
pub struct Inputs {
    /// The namespaces with rules by name.
    pub overview: watch::Receiver<BySource<Arc<Overview>>>,
    /// The servers behind the Services.
    pub endpoints: Option<watch::Receiver<Option<Endpoints>>>,
    /// The cluster's own networks.
    pub networks: watch::Receiver<Option<Arc<Networks>>>,
    pub leader: Leader,
}

#[derive(Debug)]
pub struct Outputs {
    /// The pods by address. Empty while this replica does not lead.
    pub clients: Clients,
    /// The summary for the status page; `None` while this replica does not lead.
    pub view: watch::Sender<Option<Arc<PodsView>>>,
    /// The trusted servers of pods, which look-ups query too.
    pub trusted: watch::Sender<Servers>,
    /// Reports Events to the authors of EgressFirewalls.
    pub reporter: Reporter,
}

/// The addresses of Services, as they change.
type ServiceAddresses = SelectAll<BoxStream<'static, (ObjectKey, Vec<IpAddr>)>>;

/// Watches until the token is cancelled.
///
/// # Errors
/// None: failures are logged and retried.
pub async fn run(
    config: Config,
    cluster: Cluster,
    mut inputs: Inputs,
    outputs: Outputs,
    token: CancellationToken,
) -> anyhow::Result<()> {
    let pods = cluster.clone();
    let watches = PodWatches::new(move |scope| pods.watch_running(scope).boxed());
    let mut task = Task::new(config, cluster, watches, outputs);
    let endpoints = inputs.endpoints.take();
    let mut endpoints = endpoints.unwrap_or_else(|| watch::channel(None).1);
    // The first values count as changes too.
    inputs.overview.mark_changed();
    inputs.networks.mark_changed();
    endpoints.mark_changed();
    loop {
        task.lead(inputs.leader.is_leading());
        let changed = task.changed;
        tokio::select! {
            () = token.cancelled() => return Ok(()),
            Some((scope, event)) = task.watches.next() => task.take_pods(&scope, event),
            Some((service, addresses)) = task.services.next() => task.set_service(service, addresses),
            () = inputs.leader.changed() => {}
            Ok(()) = inputs.overview.changed() => {
                let rules = inputs.overview.borrow_and_update().with_names();
                task.set_rules(rules);
            }
            Ok(()) = inputs.networks.changed() => {
                let networks = inputs.networks.borrow_and_update().clone();
                task.set_networks(networks);
            }
            Ok(()) = endpoints.changed() => task.set_endpoints(endpoints.borrow_and_update().as_ref()),
            () = sleep_until(changed.unwrap_or_else(Instant::now)), if changed.is_some() => task.tell(),
        }
    }
}

struct Task {
    config: Config,
    cluster: Cluster,
    outputs: Outputs,
    table: Table,
    watches: PodWatches,
    services: ServiceAddresses,
    /// The addresses of each Service, as far as they are known.
    cluster_ips: BTreeMap<ObjectKey, Vec<IpAddr>>,
    behind: BTreeSet<IpAddr>,
    leads: bool,
    /// The first change that is not published yet.
    changed: Option<Instant>,
    notes: BTreeMap<String, Note>,
    bypassing: Series,
}

impl Task {
    fn new(config: Config, cluster: Cluster, watches: PodWatches, outputs: Outputs) -> Self {
        Self {
            table: Table::new(config.trusted.clone()),
            config,
            cluster,
            outputs,
            watches,
            services: SelectAll::new(),
            cluster_ips: BTreeMap::new(),
            behind: BTreeSet::new(),
            leads: false,
            changed: None,
            notes: BTreeMap::new(),
            bypassing: Series::of(&BYPASSING),
        }
    }

    fn lead(&mut self, leads: bool) {
        if leads == self.leads {
            return;
        }
        self.leads = leads;
        if leads {
            for service in &self.config.services {
                let key = service.clone();
                let events = self.cluster.watch_one::<Service>(service);
                let events = events.filter_map(move |event| {
                    ready(addresses(event).map(|addresses| (key.clone(), addresses)))
                });
                self.services.push(events.boxed());
            }
            self.outputs.clients.watch(self.table.networks.clone());
            self.watch();
            self.touch();
        } else {
            self.services = SelectAll::new();
            self.watches.end();
            self.cluster_ips.clear();
            self.table.forget(&Scope::All);
            self.set_cluster();
            self.outputs.clients.watch(None);
            self.changed = None;
            self.notes.clear();
            self.bypassing.replace::<1>([]);
            self.outputs.view.send_replace(None);
            self.outputs.trusted.send_replace(Servers::default());
        }
    }

    fn set_rules(&mut self, rules: Arc<BTreeMap<String, ObjectReference>>) {
        let known = &self.table.rules;
        if Arc::ptr_eq(known, &rules) || *known == rules {
            return;
        }
        self.table.rules = rules;
        self.watch();
        self.touch();
    }

    /// Watches the pods of namespaces with rules.
    fn watch(&mut self) {
        if !self.leads {
            return;
        }
        for namespace in self.watches.watch(&self.table.rules) {
            let scope = Scope::Namespace(namespace);
            self.outputs.clients.retain(&scope, &HashSet::new());
            self.table.forget(&scope);
        }
        self.show_whether_all_are_known();
    }

    fn set_service(&mut self, service: ObjectKey, addresses: Vec<IpAddr>) {
        self.cluster_ips.insert(service, addresses);
        self.set_cluster();
        self.touch();
    }

    fn set_networks(&mut self, networks: Option<Arc<Networks>>) {
        if self.table.networks == networks {
            return;
        }
        self.table.networks.clone_from(&networks);
        if self.leads && networks.is_some() {
            self.outputs.clients.watch(networks);
        }
        self.touch();
    }

    /// Once the pods of all namespaces with rules were listed, any other pod belongs to none of
    /// them.
    fn show_whether_all_are_known(&self) {
        self.outputs
            .clients
            .set_complete(self.watches.is_complete());
    }

    fn set_pod(&mut self, pod: &PodDns) {
        let key = ObjectKey::of(pod);
        let counts = pod.runs() && !pod.is_on_host();
        if self.table.set(&key, counts.then(|| ResolvConf::of(pod))) {
            self.touch();
        }
        self.outputs.clients.set(key, &pod.addresses());
    }

    fn take_pods(&mut self, scope: &Scope, event: Event<PodDns>) {
        match event {
            Event::Synced(pods) => {
                let keys = pods.iter().map(ObjectKey::of).collect();
                self.outputs.clients.retain(scope, &keys);
                self.table.forget(scope);
                pods.iter().for_each(|pod| self.set_pod(pod));
                self.show_whether_all_are_known();
                self.touch();
            }
            Event::Applied(pod) => self.set_pod(&pod),
            Event::Deleted(key) => {
                self.outputs.clients.end(&key);
                if self.table.set(&key, None) {
                    self.touch();
                }
            }
            // The last known pods stay; the watch logs the reason.
            Event::OutOfSync(reason) => {
                warn!(namespace = %scope, %reason, "cannot read pods: the collector keeps the last known ones. It does not know which new pods bypass the cluster's DNS, and to which namespace a new client belongs. Allow it to list and watch pods");
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
        let all = self.cluster_ips.values().flatten().copied();
        let all: BTreeSet<IpAddr> = all.chain(self.behind.iter().copied()).collect();
        // Known only once each Service was found to exist or not.
        let is_known = self.cluster_ips.len() == self.config.services.len() && !all.is_empty();
        self.table.cluster = is_known.then_some(all);
    }

    fn touch(&mut self) {
        if self.leads {
            self.changed.get_or_insert_with(|| Instant::now() + CALM);
        }
    }

    /// Publishes the state.
    fn tell(&mut self) {
        self.changed = None;
        if self.leads {
            self.show();
        }
    }

    /// Publishes the summary and the metric.
    fn show(&mut self) {
        let view = self.table.view();
        self.bypassing.replace(Whose::OTHERS.map(|whose| {
            let count = view.counts.get(&whose).copied().unwrap_or(0);
            ([whose.as_str().to_owned()], count as f64)
        }));
        self.outputs.view.send_replace(Some(Arc::new(view)));
        self.trust();
        let notes = self.table.notes();
        let is_new =
            |(namespace, note): &(&String, &Note)| self.notes.get(*namespace) != Some(note);
        for (_, Note { about, text }) in notes.iter().filter(is_new) {
            let reporter = &self.outputs.reporter;
            reporter.report(about.clone(), Severity::Warning, REASON, text.as_str());
        }
        self.notes = notes;
    }

    fn trust(&self) {
        let (trusted, more) = self.table.trusted();
        let servers: Servers = trusted
            .iter()
            .map(|address| Server::udp(SocketAddr::new(*address, PORT)))
            .collect();
        if send_if_changed(&self.outputs.trusted, servers) {
            info!(servers = ?trusted, "look-ups also query these name servers of pods (--trusted-nameserver)");
            if more > 0 {
                warn!(
                    more,
                    most = MAX_TRUSTED,
                    "pods use more trusted name servers than look-ups query, so some of their answers may be missing. Let pods use fewer"
                );
            }
        }
    }
}

/// The addresses of a watched Service, if the event has them.
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
        // The last addresses stay.
        Event::OutOfSync(_) | Event::Undecodable(_) => None,
    }
}
