//! Starts the tasks of the program and connects them.

mod dns_servers;
mod hold;
mod instances;
mod rules;

use std::{sync::Arc, time::Duration};

use runtime::{
    OpenStore,
    admin::{Admin, Gate, Health},
    args::StoreAddress,
    clock::Clock,
    inspect::{Inspect, Process, QueryPacer},
    kube_events::Reporter,
    reload::Reloaded,
    shutdown::Tasks,
    telemetry,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use self::dns_servers::Blocks;
use crate::{
    METRICS,
    args::{Args, Following},
    cluster::{networks::Networks, reading::Reading},
    facts::{
        self, InspectSources, RuleSources,
        answers::Decoding,
        captures::{self, Captures},
    },
    hold::{FILES as FILES_OF_QUERIES, HoldState},
    listen::{
        ConnectionTable, DnsServers, Ingest, Listener, MAX_CONNECTIONS, PeerAcl, secret::Secrets,
    },
    lookup,
    matching::{answer_cache::AnswerCache, index::SharedIndex, query_origin::OwnQueries, queue},
    publish::{
        self, InspectRequest, ObjectPolicy, Shared,
        guards::CurrentGuards,
        task::{self, Channels, Gates, ObjectGates},
    },
};
use names::{LookupResult, MAX_TTL, NamespaceCaps, Request, schedule::CONCURRENCY};

/// File descriptors for everything except connections of DNS servers.
const FILES: u64 = 1024;

/// The bytes of answers that wait to be processed. One peer may fill a quarter of them. Further answers are dropped, and their names
/// looked up.
const OBSERVATIONS: usize = 16 << 20;

/// Runs the collector until a signal ends it.
///
/// # Errors
/// A setting that is unusable, an address that cannot be bound, or the first task that fails.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    args.listen.check(args.common.store == StoreAddress::Kube)?;
    args.sources
        .check(&args.common.store, &args.objects_namespace)?;
    let store = OpenStore::open(&args.common.store, "collector").await?;
    let exporter = telemetry::init_metrics("collector", METRICS)?;
    let mut tasks = Tasks::new();
    let admin = Admin::bind(args.common.admin).await?;
    let sockets = Sockets::bind(&args, &mut tasks).await?;
    raise_file_limit(args.hold_listen.is_some());
    let program = Program::new(args, store, &mut tasks);
    let (rules, rule_changes) = program.rules(&mut tasks);
    let networks = program.networks(&mut tasks);
    let endpoints = program.endpoints(&mut tasks);
    let lookup_servers = program.lookup_servers(endpoints.clone(), &mut tasks)?;
    let flush_servers = dns_servers::flush_servers(&endpoints, &lookup_servers, &mut tasks);
    program.own_queries(&networks, &mut tasks);
    let (probes, blocks) = program.flush(flush_servers.clone(), &mut tasks);
    let (requests, lookups) = program.lookups(lookup_servers.clone(), &mut tasks);
    let (observations, queued) = queue::channel(OBSERVATIONS);
    let ingest = Ingest {
        remembered: program.shared.remembered.clone(),
        peer_ids: program.shared.peers.clone(),
        own: program.own.clone(),
        probes,
        peer_acl: PeerAcl {
            allowed: program.args.listen.allow_peer.clone().into(),
            servers: endpoints.map(|listed| DnsServers::new(listed, networks.clone())),
            secrets: sockets.secrets,
        },
        ..Ingest::new(
            Arc::clone(&program.index),
            program.clock.clone(),
            ConnectionTable::new(observations),
        )
    };
    let connections = ingest.connections.clone();
    let coverage = program.coverage(connections, blocks.clone(), flush_servers, &mut tasks);
    let leader = program.leader(coverage.clone(), &mut tasks);
    let (hold, held) = program
        .hold(&leader, &networks, &lookup_servers, &mut tasks)
        .await?;
    let guards = CurrentGuards {
        guards: program.args.guards(),
        networks: networks.clone(),
    };
    let (questions, asked) = mpsc::channel(facts::QUEUE);
    let channels = Channels {
        observations: queued,
        held,
        loss_tracker: ingest.loss_tracker.clone(),
        rules: rule_changes,
        networks,
        lookups,
        coverage,
        leader,
        requests,
        index: Arc::clone(&program.index),
        reporter: program.reporter.clone(),
        questions: asked,
    };
    program.publish(channels, &mut tasks);
    if let Some(inspect) = sockets.inspect {
        let process = Process::start(
            proto::facts::Program::Collector,
            &program.health,
            program.store.bad_objects(),
            facts::history(),
            &exporter,
            &mut tasks,
        );
        let sources = InspectSources {
            hold: hold.clone(),
            ..program.inspect_sources(process, questions, rules, blocks, &ingest, guards.clone())
        };
        let captures = match program
            .args
            .inspect
            .as_ref()
            .is_some_and(|it| it.has_captures)
        {
            true => {
                let decoding = Decoding {
                    own: program.own.clone(),
                    guards: guards.clone(),
                };
                Captures::new(ingest.captures.clone(), decoding).routes()
            }
            false => captures::refused(),
        };
        let others = captures.merge(HoldState::routes(hold));
        let serving = inspect.serve(sources, others, tasks.token());
        tasks.spawn("inspect", serving);
    }
    for listener in sockets.dnstap {
        tasks.spawn("listener", listener.run(ingest.clone(), tasks.token()));
    }
    // The publisher drains until the last reader has ended.
    drop(ingest);
    let running = program.health.gate("running", "the program is starting");
    running.ready();
    let after_service = leave_service(program.args.shutdown_delay, running);
    let health = program.health.clone();
    tasks.spawn("admin", admin.serve(health, exporter, tasks.token()));
    tasks.run_after(after_service).await
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
        let secrets = keep_up("secret", args.listen.secrets()?, tasks);
        let inspect = match &args.inspect {
            Some(inspect) => Some(Inspect::bind(&inspect.address).await?),
            None => None,
        };
        Ok(Self {
            dnstap,
            secrets,
            inspect,
        })
    }
}

/// The state shared by the tasks. Each method starts one task, and returns its outputs.
struct Program {
    args: Args,
    store: OpenStore,
    clock: Clock,
    health: Health,
    reporter: Reporter,
    index: SharedIndex,
    own: OwnQueries,
    shared: Shared,
}

impl Program {
    /// Starts the task that writes Events.
    fn new(args: Args, store: OpenStore, tasks: &mut Tasks) -> Self {
        let (reporter, reporting) = Reporter::new(&store);
        tasks.spawn("reports", reporting.run(tasks.token()));
        let own = match &store {
            OpenStore::Dir(_) => OwnQueries::from_loopback(),
            OpenStore::Kube(_) => OwnQueries::default(),
        };
        Self {
            args,
            store,
            clock: Clock::system(),
            health: Health::new(),
            reporter,
            index: SharedIndex::default(),
            own,
            shared: Shared {
                remembered: AnswerCache::new(AnswerCache::NAMES, MAX_TTL),
                ..Shared::default()
            },
        }
    }

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

    /// The requests of look-ups, and their results.
    fn lookups(
        &self,
        servers: Option<watch::Receiver<lookup::Servers>>,
        tasks: &mut Tasks,
    ) -> (mpsc::Sender<Request>, mpsc::Receiver<LookupResult>) {
        let (requests, requested) = mpsc::channel(CONCURRENCY);
        let (results, resolved) = mpsc::channel(CONCURRENCY);
        if let Some(servers) = servers {
            let resolver = lookup::run(
                lookup::Config::default(),
                servers,
                requested,
                results,
                self.clock.clone(),
                self.own.clone(),
                tasks.token(),
            );
            tasks.spawn("resolver", resolver);
        }
        (requests, resolved)
    }

    /// The publisher, which owns the names and writes their objects.
    fn publish(&self, channels: Channels, tasks: &mut Tasks) {
        let config = publish::Config {
            objects: ObjectPolicy::new(self.source_policies()),
            limits: self.args.limits(),
            guards: self.args.guards(),
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
            "publisher",
            task::run(config, store, clock, channels, gates, tasks.token()),
        );
    }

    /// The sources of the facts.
    fn inspect_sources(
        &self,
        process: Process,
        publisher: mpsc::Sender<InspectRequest>,
        rules: RuleSources,
        blocks: Blocks,
        ingest: &Ingest,
        guards: CurrentGuards,
    ) -> InspectSources {
        InspectSources {
            process,
            publisher,
            rules,
            blocks,
            remembered: self.shared.remembered.clone(),
            index: Arc::clone(&self.index),
            guards,
            peers: self.shared.peers.clone(),
            connections: ingest.connections.clone(),
            clock: self.clock.clone(),
            new_addresses: self.shared.new_addresses.clone(),
            pacer: QueryPacer::default(),
            hold: None,
        }
    }
}

/// Returns when the streams may be closed. `gate` is ready until shutdown begins.
///
/// When a reader disconnects, CoreDNS loses the events that it has not flushed. It dials again once at once, and then only
/// every ten seconds. So the Service must have stopped routing to this pod before the streams are closed. If CoreDNS streams
/// to two collectors, their delays differ by 15 s, so that it has reconnected to one before the other closes its streams.
async fn leave_service(delay: Duration, gate: Gate) {
    gate.not_ready("the program is shutting down");
    sleep(delay).await;
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
fn raise_file_limit(forwards: bool) {
    let of_queries = if forwards { FILES_OF_QUERIES } else { 0 };
    let wanted = MAX_CONNECTIONS as u64 + FILES + of_queries;
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
            "the limit of open files is too low for as many connections and queries as the collector accepts: raise it"
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
