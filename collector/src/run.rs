//! The program, put together.

use std::{sync::Arc, time::Duration};

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
use runtime::{
    UsageError,
    admin::{Admin, Health},
    clock::Clock,
    endpoints::{Discovery, Endpoints, ServiceName},
    leader::{Leader, Leadership},
    networks::{Networks, Reading},
    report::Reporter,
    shutdown::Tasks,
    store::OpenStore,
    telemetry,
};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    args::Args,
    guards::{Guards, SharedGuards},
    ingest::{self, ConnectionLimits, Ingest, Listener},
    inspect::{self, Inspect},
    names::SharedIndex,
    observation::Observation,
    owner::{
        self,
        task::{Channels, Gates},
    },
    policy::{self, Wanted},
    remember::Remembered,
    resolve::{self, OwnQueries, ResolverSpec, Round, Server},
    state::Limits,
};

/// In a cluster, ovn-kubernetes' cluster manager may make an object first; it deletes others at once.
const CREATE_AFTER: Duration = Duration::from_secs(10);

/// Runs the collector until it is told to end.
///
/// # Errors
/// What cannot be used or bound, and the first task that fails.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let limits = args.limits()?;
    let store = OpenStore::open(&args.common.store, "collector").await?;
    serve(args, limits, store).await
}

async fn serve(args: Args, limits: Limits, store: OpenStore) -> anyhow::Result<()> {
    let prometheus = telemetry::init_metrics()?;
    describe();
    let mut tasks = Tasks::new();
    let admin = Admin::bind(args.common.admin).await?;
    let sockets = Sockets::bind(&args).await?;
    let (reporter, reporting) = Reporter::new(&store);
    tasks.spawn("reports", reporting.run(tasks.token()));
    let program = Program {
        guards: Guards::new(args.deny_answer.clone()).shared(),
        index: SharedIndex::default(),
        own: OwnQueries::default(),
        remembered: Remembered::new(args.remember_names),
        clock: Clock::system(),
        health: Health::new(),
        args,
        store,
        reporter,
    };
    let (wanted, overview) = program.policy(&mut tasks);
    let networks = program.networks(&mut tasks);
    let (requests, rounds) = program.resolver(&mut tasks)?;
    let (views, viewers) = mpsc::channel(inspect::QUEUE);
    let observations = program.ingest(sockets.dnstap, &mut tasks);
    let channels = Channels {
        observations,
        wanted,
        networks,
        rounds,
        leader: program.leader(&mut tasks),
        requests,
        index: Arc::clone(&program.index),
        guards: Arc::clone(&program.guards),
        reporter: program.reporter.clone(),
        viewers,
    };
    program.owner(limits, channels, &mut tasks);
    if let Some(inspect) = sockets.inspect {
        let sources = inspect::Sources {
            owner: views,
            overview,
            health: program.health.clone(),
            bad_objects: program.store.bad_objects(),
        };
        tasks.spawn("inspect", inspect.serve(sources, tasks.token()));
    }
    tasks.spawn(
        "admin",
        admin.serve(program.health, prometheus, tasks.token()),
    );
    tasks.run().await
}

/// What is bound before anything else is done.
struct Sockets {
    dnstap: Vec<Listener>,
    inspect: Option<Inspect>,
}

impl Sockets {
    async fn bind(args: &Args) -> anyhow::Result<Self> {
        let mut dnstap = Vec::new();
        for address in &args.listen {
            dnstap.push(Listener::bind(address).await?);
        }
        let inspect = match &args.inspect {
            Some(address) => Some(Inspect::bind(address).await?),
            None => None,
        };
        Ok(Self { dnstap, inspect })
    }
}

/// What the tasks share. Each method starts those of one part, and gives what they bring forth.
struct Program {
    args: Args,
    store: OpenStore,
    clock: Clock,
    health: Health,
    reporter: Reporter,
    guards: SharedGuards,
    index: SharedIndex,
    own: OwnQueries,
    remembered: Remembered,
}

impl Program {
    /// The names in use, and what there is to say of their rules.
    fn policy(
        &self,
        tasks: &mut Tasks,
    ) -> (
        watch::Receiver<Wanted>,
        watch::Receiver<Arc<policy::Overview>>,
    ) {
        let (wanted, wanted_names) = watch::channel(Wanted::default());
        let (overview, shown) = watch::channel(Arc::default());
        let outputs = policy::Outputs {
            wanted,
            overview,
            reporter: self.reporter.clone(),
        };
        let gate = self
            .health
            .gate("egress-firewalls", "they were not listed yet");
        tasks.spawn(
            "policy",
            policy::run(
                self.store.clone(),
                self.args.terms(),
                outputs,
                gate,
                tasks.token(),
            ),
        );
        (wanted_names, shown)
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

    /// What is to be looked up, and what that gave.
    fn resolver(
        &self,
        tasks: &mut Tasks,
    ) -> anyhow::Result<(mpsc::Sender<resolve::Request>, mpsc::Receiver<Round>)> {
        let (requests, requested) = mpsc::channel(resolve::QUEUE);
        let (rounds, resolved) = mpsc::channel(self.args.resolve_concurrency.get());
        if let Some(servers) = servers(&self.args, &self.store, tasks)? {
            let config = resolve::Config {
                concurrency: self.args.resolve_concurrency.get(),
                fanout: self.args.resolver_fanout,
                ..resolve::Config::default()
            };
            let inputs = resolve::Inputs {
                servers,
                requests: requested,
            };
            let resolver = resolve::run(
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
        Ok((requests, resolved))
    }

    fn leader(&self, tasks: &mut Tasks) -> Leader {
        let namespace = &self.args.common.objects_namespace;
        let leadership = Leadership::of(&self.store, namespace, "collector");
        let leadership = leadership.announce(self.own.addresses());
        let (leader, announced) = (leadership.leader(), leadership.announced());
        let own = self.own.clone();
        tasks.spawn(
            "leader's addresses",
            follow(announced, tasks.token(), move |addresses| {
                own.led_from(addresses)
            }),
        );
        tasks.spawn("leadership", leadership.run(tasks.token()));
        leader
    }

    /// What the streams say of wanted names. Ends when the last reader has ended, so that the owner drains until then.
    fn ingest(&self, listeners: Vec<Listener>, tasks: &mut Tasks) -> mpsc::Receiver<Observation> {
        let (observations, observed) = mpsc::channel(ingest::QUEUE);
        let ingest = Ingest {
            names: Arc::clone(&self.index),
            guards: Arc::clone(&self.guards),
            clock: self.clock.clone(),
            remembered: self.remembered.clone(),
            own: self.own.clone(),
            observations,
            limits: ConnectionLimits::default(),
            complaints: Arc::default(),
            bad_events: Arc::default(),
        };
        let permits = Arc::new(Semaphore::new(ingest.limits.connections));
        for listener in listeners {
            tasks.spawn(
                "listener",
                listener.run(ingest.clone(), Arc::clone(&permits), tasks.token()),
            );
        }
        observed
    }

    fn owner(&self, limits: Limits, channels: Channels, tasks: &mut Tasks) {
        let config = owner::Config {
            namespace: self.args.common.objects_namespace.clone(),
            manage_objects: self.args.manage_objects,
            create_after: match &self.store {
                OpenStore::Dir(_) => Duration::ZERO,
                OpenStore::Kube(_) => CREATE_AFTER,
            },
            limits,
            guards: self.guards.load().as_ref().clone(),
            times_interval: self.args.status_times_interval,
            rates: self.args.rates(),
            remembered: self.remembered.clone(),
        };
        let gates = Gates {
            objects: self
                .health
                .gate("dns-name-resolvers", "they were not listed yet"),
            writes: self.health.gate("store-writes", "unknown"),
        };
        // Until one fails there is nothing to say against them.
        gates.writes.ready();
        let (store, clock) = (self.store.clone(), self.clock.clone());
        tasks.spawn(
            "owner",
            owner::task::run(config, store, clock, channels, gates, tasks.token()),
        );
    }
}

/// Where the servers to ask are listed; nothing if nothing is looked up.
fn servers(
    args: &Args,
    store: &OpenStore,
    tasks: &mut Tasks,
) -> anyhow::Result<Option<watch::Receiver<resolve::Servers>>> {
    let (sender, servers) = watch::channel(resolve::Servers::default());
    match (args.resolver(), store) {
        (ResolverSpec::None, _) => return Ok(None),
        (ResolverSpec::Kube, OpenStore::Kube(store)) => {
            let services = match args.resolver_service.as_slice() {
                [] => ServiceName::of_dns(),
                services => services.to_vec(),
            };
            let discovery = Discovery::new(store.cluster(), &services);
            tasks.spawn(
                "resolver servers",
                list(discovery.found(), sender, tasks.token()),
            );
            tasks.spawn("discovery", discovery.run(tasks.token()));
        }
        (ResolverSpec::Kube, OpenStore::Dir(_)) => {
            return Err(UsageError("--resolver kube needs --store kube".to_owned()).into());
        }
        (resolver, _) => {
            if let Some(source) = resolve::Source::of(&resolver) {
                tasks.spawn("resolver servers", source.run(sender, tasks.token()));
            }
        }
    }
    Ok(Some(servers))
}

/// Passes on the DNS servers that are found and ready.
async fn list(
    found: watch::Receiver<Option<Endpoints>>,
    servers: watch::Sender<resolve::Servers>,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let pass_on = |endpoints: Option<Endpoints>| {
        if let Some(endpoints) = endpoints {
            let ready = endpoints.iter().filter(|(_, conditions)| conditions.ready);
            servers.send_replace(ready.map(|(address, _)| Server::udp(*address)).collect());
        }
    };
    follow(found, shutdown, pass_on).await
}

/// Passes on a value, and what it changes to, until `shutdown`.
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
            // Without a sender the value is the last.
            shutdown.cancelled().await;
            return Ok(());
        }
    }
}

/// Tells the exporter what the metrics mean.
fn describe() {
    ingest::metrics::describe();
    resolve::metrics::describe();
    describe_gauge!("collector_names", "Names in use, and names of objects");
    describe_gauge!(
        "collector_objects",
        "DNSNameResolver objects in the objects namespace"
    );
    describe_gauge!(
        "collector_addresses",
        "Addresses that are known, each name's counted for itself"
    );
    describe_gauge!(
        "collector_egress_firewall_names_refused",
        "DNS names in EgressFirewalls that can be no DNSNameResolver"
    );
    describe_counter!(
        "collector_objects_ignored_total",
        "DNSNameResolver objects with an unusable spec.name"
    );
    describe_counter!(
        "collector_addresses_expired_total",
        "Addresses removed because expiry and grace were over"
    );
    describe_counter!(
        "collector_addresses_purged_total",
        "Addresses that were let in before a guard came that refuses them, by reason"
    );
    describe_gauge!(
        "collector_guarded_networks",
        "Networks of the cluster's own whose addresses are refused, by what they are for"
    );
    describe_counter!(
        "collector_evictions_total",
        "Addresses and names removed because a limit was reached"
    );
    describe_counter!(
        "collector_store_writes_total",
        "Writes to the store by what was written and what came of it"
    );
    describe_histogram!(
        "collector_status_lag_seconds",
        Unit::Seconds,
        "From an observation to the stored status that has it"
    );
}
