//! Starts the tasks of the program and connects them.

mod graceful_shutdown;
mod instances;
mod probes;
mod rules;
mod servers;

use std::sync::Arc;

use runtime::{
    OpenStore,
    admin::{Admin, Health},
    args::StoreAddress,
    certificate_expiry,
    clock::Clock,
    cluster_cidrs::{Networks, Reading},
    endpoints::{Discovery, Endpoints},
    inspect::{
        Inspect,
        html::{OVN_WRITER, Site},
    },
    instance::Instance,
    kube_events::Reporter,
    reload::Reloaded,
    shutdown::Tasks,
    telemetry,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use self::rules::RulesFollowed;
use crate::{
    METRICS,
    args::{Args, Following},
    facts,
    flush::ProbeReports,
    listen::{
        ConnectionTable, DnsServers, Ingest, Listener, MaxConnections, PeerAcl, secret::Secrets,
    },
    lookup::{self, ResolverSpec},
    matching::{
        answer_cache::AnswerCache,
        guards::{Guards, SharedGuards},
        index::SharedIndex,
        query_origin::OwnQueries,
        queue,
    },
    publish::{
        self, ObjectPolicy, Shared,
        task::{self, Channels, Gates, ObjectGates},
    },
    rules::notices::{Notices, Rebindings},
};
use names::{Limits, LookupResult, MAX_TTL, NamespaceCaps};

/// File descriptors for everything except connections of DNS servers.
const FILES: u64 = 1024;

/// The bytes of answers that wait to be processed. One peer may fill a quarter of them. Further answers are dropped, and their names
/// looked up.
const OBSERVATIONS: usize = 16 << 20;

/// The DNS servers of the cluster; `None` until they are listed.
type Found = watch::Receiver<Option<Endpoints>>;

/// Runs the collector until a signal ends it.
///
/// # Errors
/// A setting that is unusable, an address that cannot be bound, or the first task that fails.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let limits = args.limits();
    args.listen.check(args.common.store == StoreAddress::Kube)?;
    args.sources
        .check(&args.common.store, &args.objects_namespace)?;
    let store = OpenStore::open(&args.common.store, "collector").await?;
    let exporter = telemetry::init_metrics("collector", METRICS)?;
    let mut tasks = Tasks::new();
    let admin = Admin::bind(args.common.admin).await?;
    let sockets = Sockets::bind(&args, &mut tasks).await?;
    raise_file_limit(MaxConnections::default().connections);
    let (reporter, reporting) = Reporter::new(&store);
    tasks.spawn("reports", reporting.run(tasks.token()));
    let clock = Clock::system();
    let (notices, left_out) = Notices::channel();
    let shared = Shared {
        remembered: AnswerCache::new(AnswerCache::NAMES, MAX_TTL),
        notices,
        ..Shared::default()
    };
    let (rebindings, attempts) = Rebindings::channel();
    let own = match &store {
        OpenStore::Dir(_) => OwnQueries::from_loopback(),
        OpenStore::Kube(_) => OwnQueries::default(),
    };
    let program = Program {
        rebindings,
        shared,
        guards: Guards::new(args.guards.deny_answer.clone())
            .allow_nodes(args.allow_node_addresses)
            .shared(),
        index: SharedIndex::default(),
        own,
        clock,
        health: Health::new(),
        args,
        store,
        reporter,
    };
    let RulesFollowed {
        wanted,
        overview,
        questions: asked_of_rules,
    } = program.rules(attempts, left_out, &mut tasks);
    let networks = program.networks(&mut tasks);
    let endpoints = program.endpoints(&mut tasks);
    let dns_servers = endpoints
        .clone()
        .map(|it| DnsServers::new(it, networks.clone()));
    let servers = servers::servers(&program.args, endpoints.clone(), &mut tasks)?;
    let probed_servers = probes::probed_servers(&endpoints, &servers, &mut tasks);
    instances::own_queries(&program, &networks, &mut tasks);
    let (reports, blocks) = probes::probes(&program, probed_servers.clone(), &wanted, &mut tasks);
    let (requests, rounds) = program.resolver(servers, &mut tasks);
    let (asked_of_controller, questions) = mpsc::channel(facts::QUEUE);
    let names_in_use = wanted.clone();
    let (listeners, secrets) = (sockets.dnstap, sockets.secrets);
    let (observations, ingest) =
        program.observe(listeners, secrets, reports, dns_servers, &mut tasks);
    let coverage = instances::coverage(
        &program,
        ingest.connections.clone(),
        blocks.clone(),
        probed_servers,
        &mut tasks,
    );
    let leader = instances::leader(&program, coverage.clone(), &mut tasks);
    let channels = Channels {
        observations,
        loss_tracker: ingest.loss_tracker,
        wanted,
        networks: networks.clone(),
        rounds,
        coverage,
        leader,
        requests,
        index: Arc::clone(&program.index),
        guards: Arc::clone(&program.guards),
        reporter: program.reporter.clone(),
        questions,
    };
    program.controller(limits, channels, &mut tasks);
    if let Some(inspect) = sockets.inspect {
        let sources = facts::InspectSources {
            controller: asked_of_controller,
            rules: facts::RuleSources {
                tasks: asked_of_rules,
                wanted: names_in_use,
                overview,
            },
            dns: facts::DnsSources { blocks },
            remembered: program.shared.remembered.clone(),
            peers: ingest.peer_ids,
            connections: ingest.connections,
            site: Site {
                program: "collector",
                instance: Instance::from_env(),
                other: OVN_WRITER,
            },
            clock: program.clock.clone(),
            taps: ingest.taps,
            new_addresses: program.shared.new_addresses.clone(),
            health: program.health.clone(),
            bad_objects: program.store.bad_objects(),
        };
        tasks.spawn("inspect", facts::serve(inspect, sources, tasks.token()));
    }
    let running = program.health.gate("running", "the program is starting");
    running.ready();
    let leaving = graceful_shutdown::leave_service(program.args.shutdown_delay, running);
    tasks.spawn(
        "admin",
        admin.serve(program.health, exporter, tasks.token()),
    );
    tasks.run_after(leaving).await
}

/// The sockets, which are bound before any task starts.
struct Sockets {
    dnstap: Vec<Listener>,
    secrets: Option<Reloaded<Secrets>>,
    inspect: Option<Inspect>,
}

impl Sockets {
    async fn bind(args: &Args, tasks: &mut Tasks) -> anyhow::Result<Self> {
        let mut dnstap = Vec::new();
        let tls = keep_up("certificate", args.listen.tls()?, tasks);
        for address in &args.listen.listen {
            let listener = Listener::bind(address, tls.as_ref());
            dnstap.push(listener.await?);
        }
        if let Some(certificate) = args.listen.certificate.clone() {
            let files = vec![(certificate_expiry::Role::Listener, certificate)];
            tasks.spawn("expiry", certificate_expiry::run(files, tasks.token()));
        }
        let secrets = keep_up("secret", args.listen.secrets()?, tasks);
        let inspect = match &args.inspect {
            Some(address) => Some(Inspect::bind(address).await?),
            None => None,
        };
        Ok(Self {
            dnstap,
            secrets,
            inspect,
        })
    }
}

/// The state shared by the tasks. Each method starts one part, and returns its outputs.
struct Program {
    args: Args,
    store: OpenStore,
    clock: Clock,
    health: Health,
    reporter: Reporter,
    guards: SharedGuards,
    index: SharedIndex,
    own: OwnQueries,
    shared: Shared,
    rebindings: Rebindings,
}

impl Program {
    /// The cluster's own networks; a folder has none.
    fn networks(&self, tasks: &mut Tasks) -> watch::Receiver<Option<Arc<Networks>>> {
        match &self.store {
            OpenStore::Dir(_) => watch::channel(Some(Arc::default())).1,
            OpenStore::Kube(store) => {
                let reading = Reading::new(store.cluster());
                let found = reading.found();
                tasks.spawn("networks", reading.run(tasks.token()));
                found
            }
        }
    }

    /// The DNS servers of the cluster, if look-ups query them or the ACL for peers needs them.
    fn endpoints(&self, tasks: &mut Tasks) -> Option<Found> {
        let OpenStore::Kube(store) = &self.store else {
            return None;
        };
        let are_asked = self.args.resolver() == ResolverSpec::Kube;
        let are_probed = !self.args.flush.flush_probe.is_zero();
        if !are_asked && !are_probed && !self.args.listen.is_on_the_network() {
            return None;
        }
        let discovery = Discovery::new(store.cluster(), &self.args.lookups.resolver_service);
        let found = discovery.found();
        tasks.spawn("discovery", discovery.run(tasks.token()));
        Some(found)
    }

    /// The requests of look-ups, and their results.
    fn resolver(
        &self,
        servers: Option<watch::Receiver<lookup::Servers>>,
        tasks: &mut Tasks,
    ) -> (mpsc::Sender<names::Request>, mpsc::Receiver<LookupResult>) {
        let (requests, requested) = mpsc::channel(names::schedule::CONCURRENCY);
        let (rounds, resolved) = mpsc::channel(names::schedule::CONCURRENCY);
        if let Some(servers) = servers {
            let config = lookup::Config {
                rebindings: self.rebindings.clone(),
                ..lookup::Config::default()
            };
            let inputs = lookup::Inputs {
                servers,
                requests: requested,
            };
            let resolver = lookup::run(
                config,
                inputs,
                rounds,
                Arc::clone(&self.guards),
                self.clock.clone(),
                self.own.clone(),
                tasks.token(),
            );
            tasks.spawn("resolver", resolver);
        }
        (requests, resolved)
    }

    /// The observations of the streams. The channel closes when the last reader has ended, and the
    /// controller drains until then.
    fn observe(
        &self,
        listeners: Vec<Listener>,
        secrets: Option<Reloaded<Secrets>>,
        probes: ProbeReports,
        servers: Option<DnsServers>,
        tasks: &mut Tasks,
    ) -> (queue::Receiver, Ingest) {
        let (observations, observed) = queue::channel(OBSERVATIONS);
        let connections = ConnectionTable::new(MaxConnections::default(), observations);
        let ingest = Ingest {
            guards: Arc::clone(&self.guards),
            remembered: self.shared.remembered.clone(),
            own: self.own.clone(),
            probes,
            peer_acl: PeerAcl {
                allowed: self.args.listen.allow_peer.clone().into(),
                servers,
                secrets,
            },
            rebindings: self.rebindings.clone(),
            ..Ingest::new(Arc::clone(&self.index), self.clock.clone(), connections)
        };
        for listener in listeners {
            tasks.spawn("listener", listener.run(ingest.clone(), tasks.token()));
        }
        (observed, ingest)
    }

    fn controller(&self, limits: Limits, channels: Channels, tasks: &mut Tasks) {
        let config = publish::Config {
            objects: ObjectPolicy {
                sources: self.source_policies(),
                write_bytes: self.args.status_write_bytes,
            },
            limits,
            guards: self.guards.load().as_ref().clone(),
            namespace_caps: NamespaceCaps::default(),
            shared: self.shared.clone(),
        };
        let gates = Gates {
            objects: ObjectGates::new(&self.health, &self.args.sources.all()),
            writes: self.health.gate("store-writes", "unknown"),
        };
        // No failure has occurred yet.
        gates.writes.ready();
        let (store, clock) = (self.store.clone(), self.clock.clone());
        tasks.spawn(
            "controller",
            task::run(config, store, clock, channels, gates, tasks.token()),
        );
    }
}

/// Reloads files when they change, if there are any.
fn keep_up<T: Send + Sync + 'static>(
    name: &'static str,
    files: Following<T>,
    tasks: &mut Tasks,
) -> Option<Reloaded<T>> {
    let (value, reloading) = files?;
    tasks.spawn(name, reloading.run(tasks.token()));
    Some(value)
}

/// Each connection takes a file descriptor, and the rest of the program some too.
fn raise_file_limit(connections: usize) {
    let wanted = connections as u64 + FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return;
    }
    let raised = Rlimit {
        current: Some(limit.maximum.map_or(wanted, |most| most.min(wanted))),
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        warn!(%error, "cannot raise the limit of open files: the collector keeps the current one");
    } else if raised.current < Some(wanted) {
        warn!(
            limit = raised.current,
            wanted,
            "the limit of open files is too low for as many connections as the collector accepts: raise it"
        );
    }
}

/// Forwards a value and its changes until `shutdown`.
async fn follow<T: Clone>(
    mut values: watch::Receiver<T>,
    shutdown: CancellationToken,
    pass_on: impl Fn(T),
) -> anyhow::Result<()> {
    loop {
        let value = values.borrow_and_update().clone();
        pass_on(value);
        if !matches!(
            shutdown.run_until_cancelled(values.changed()).await,
            Some(Ok(()))
        ) {
            // Without a sender, the value is final.
            shutdown.cancelled().await;
            return Ok(());
        }
    }
}
