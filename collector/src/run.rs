//! The program, put together.

use std::{sync::Arc, time::Duration};

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
use runtime::{
    UsageError,
    admin::{Admin, Health},
    clock::Clock,
    endpoints::{Discovery, Endpoints, ServiceName},
    leader::Leadership,
    report::Reporter,
    shutdown::Tasks,
    store::OpenStore,
    telemetry,
};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    args::Args,
    guards::Guards,
    ingest::{self, ConnectionLimits, Ingest, Listener},
    inspect::{self, Inspect},
    names::SharedIndex,
    owner::{
        self,
        task::{Channels, Gates},
    },
    policy::{self, Wanted},
    remember::Remembered,
    resolve::{self, OwnQueries, ResolverSpec, Server},
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
    let health = Health::new();

    let admin = Admin::bind(args.common.admin).await?;
    let mut listeners = Vec::new();
    for address in &args.listen {
        listeners.push(Listener::bind(address).await?);
    }
    let mut inspect = None;
    if let Some(address) = &args.inspect {
        inspect = Some(Inspect::bind(address).await?);
    }

    let clock = Clock::system();
    let guards = Arc::new(Guards::new(args.deny_answer.clone()));
    let index = SharedIndex::default();
    let own = OwnQueries::default();
    let remembered = Remembered::new(args.remember_names);
    let (wanted, wanted_names) = watch::channel(Wanted::default());
    let (observations, observed) = mpsc::channel(ingest::QUEUE);
    let (requests, requested) = mpsc::channel(resolve::QUEUE);
    let (rounds, resolved) = mpsc::channel(args.resolve_concurrency.get());

    let (reporter, reporting) = Reporter::new(&store);
    tasks.spawn("reports", reporting.run(tasks.token()));
    let gate = health.gate("egress-firewalls", "they were not listed yet");
    let (overview, shown) = watch::channel(Arc::default());
    let outputs = policy::Outputs {
        wanted,
        overview,
        reporter: reporter.clone(),
    };
    tasks.spawn(
        "policy",
        policy::run(store.clone(), args.terms(), outputs, gate, tasks.token()),
    );

    if let Some(servers) = servers(&args, &store, &mut tasks)? {
        let config = resolve::Config {
            concurrency: args.resolve_concurrency.get(),
            fanout: args.resolver_fanout,
            ..resolve::Config::default()
        };
        let inputs = resolve::Inputs {
            servers,
            requests: requested,
        };
        let guards = Arc::clone(&guards);
        tasks.spawn(
            "resolver",
            resolve::run(
                config,
                inputs,
                rounds,
                guards,
                clock.clone(),
                own.clone(),
                tasks.token(),
            ),
        );
    }

    let config = owner::Config {
        namespace: args.common.objects_namespace.clone(),
        manage_objects: args.manage_objects,
        create_after: match &store {
            OpenStore::Dir(_) => Duration::ZERO,
            OpenStore::Kube(_) => CREATE_AFTER,
        },
        limits,
        guards: guards.as_ref().clone(),
        times_interval: args.status_times_interval,
        rates: args.rates(),
        remembered: remembered.clone(),
    };
    let gates = Gates {
        objects: health.gate("dns-name-resolvers", "they were not listed yet"),
        writes: health.gate("store-writes", "unknown"),
    };
    // Until one fails there is nothing to say against them.
    gates.writes.ready();
    let leadership = Leadership::of(&store, &args.common.objects_namespace, "collector");
    let leader = leadership.leader();
    tasks.spawn("leadership", leadership.run(tasks.token()));
    let (views, viewers) = mpsc::channel(inspect::QUEUE);
    if let Some(inspect) = inspect {
        let sources = inspect::Sources {
            owner: views,
            overview: shown,
            health: health.clone(),
            bad_objects: store.bad_objects(),
        };
        tasks.spawn("inspect", inspect.serve(sources, tasks.token()));
    }
    let channels = Channels {
        observations: observed,
        wanted: wanted_names,
        rounds: resolved,
        leader,
        requests,
        index: Arc::clone(&index),
        reporter,
        viewers,
    };
    tasks.spawn(
        "owner",
        owner::task::run(config, store, clock.clone(), channels, gates, tasks.token()),
    );

    let ingest = Ingest {
        names: index,
        guards,
        clock,
        remembered,
        own,
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
    // The owner drains until the last reader has let go of the queue.
    drop(ingest);

    tasks.spawn("admin", admin.serve(health, prometheus, tasks.token()));
    tasks.run().await
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
    mut found: watch::Receiver<Option<Endpoints>>,
    servers: watch::Sender<resolve::Servers>,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    loop {
        if let Some(endpoints) = found.borrow_and_update().clone() {
            let ready = endpoints.iter().filter(|(_, conditions)| conditions.ready);
            servers.send_replace(ready.map(|(address, _)| Server::udp(*address)).collect());
        }
        if !matches!(
            shutdown.run_until_cancelled(found.changed()).await,
            Some(Ok(()))
        ) {
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
