//! Writes the addresses of DNS names into IPMaps, NetworkPolicies, and NetworkSets of Calico, as `DNSResolver` objects ask.
//!
//! Data flows in one direction:
//!
//! - [`names`] keeps what the statuses of `DNSNameResolver` objects say about each name.
//! - [`content`] chooses the addresses within the limits, and [`egress`] makes the rules of a policy.
//! - [`planner`] compares the objects with the stored ones ([`output`], [`ownership`]) and says when to write
//!   ([`budget`]) and what the `DNSResolver`'s status says ([`status`]).
//!
//! [`Writer`] is the loop around them, and [`mod@write`] carries its jobs out. [`inspect`] tells why an address is there.

mod args;
pub mod backoff;
pub mod budget;
pub mod content;
pub mod egress;
pub mod inspect;
mod metrics;
pub mod names;
pub mod output;
pub mod ownership;
pub mod planner;
pub mod resolver;
pub mod status;
pub mod write;
mod writer;

use std::{future::pending, pin::pin, time::Duration};

use anyhow::Context;
use futures_util::{Stream, StreamExt};
use proto::api::{CrdNetworkSet, NetworkSet};
use runtime::{
    OpenStore,
    admin::{Admin, Health},
    inspect::Inspect,
    instance::Instance,
    kube_events::Reporter,
    leader::{Leader, Leadership},
    shutdown::Tasks,
    store::{Event, Kind, Scope, Store},
    telemetry,
};
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use self::planner::SetApi;
pub use self::{
    args::{ADMIN, Args, PREFIX},
    metrics::METRICS,
    writer::{Input, Writer},
};

/// The name of the program, and of its Lease.
pub const PROGRAM: &str = "policy-writer";

/// The buffer for events of the store.
const EVENTS: usize = 64;

/// How often the API server is asked whether it serves NetworkSets.
const DISCOVERY: Duration = Duration::from_secs(30);

/// The plural of Calico's NetworkSet.
const NETWORK_SETS: &str = "networksets";

/// The groups of Calico's NetworkSet, the better one first.
const SET_APIS: [(&str, SetApi); 2] = [
    ("projectcalico.org/v3", SetApi::V3),
    ("crd.projectcalico.org/v1", SetApi::Crd),
];

/// Runs the program until it is told to end.
///
/// # Errors
/// A store that cannot be opened, an address in use, and any error that ends a task.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let options = args.options();
    let namespace = args.namespace();
    let Args {
        common,
        leader_elect,
        inspect,
        ..
    } = args;
    telemetry::init_logging(common.log_format);
    let exporter = telemetry::init_metrics(PROGRAM, METRICS)?;
    let store = OpenStore::open(&common.store, PROGRAM).await?;
    let (health, mut tasks) = (Health::new(), Tasks::new());
    let admin = Admin::bind(common.admin).await.context("--admin")?;
    let inspect = match &inspect {
        Some(address) => Some(Inspect::bind(address).await.context("--inspect")?),
        None => None,
    };
    let leadership = leader_elect.then(|| Leadership::of(&store, &namespace, PROGRAM));
    let leader = leadership
        .as_ref()
        .map_or_else(Leader::sole, Leadership::leader);
    let (reporter, reporting) = Reporter::new(&store);
    let gate = health.gate("store", "the objects have not been read yet");
    let writer = Writer::new(options, store.clone(), leader, reporter, gate);
    let (sender, inputs) = mpsc::channel(EVENTS);
    let (asked, questions) = mpsc::channel(inspect::QUEUE);
    if let Some(listener) = inspect {
        let sources = inspect::StatusSources {
            instance: Instance::from_env(),
            health: health.clone(),
            bad_objects: store.bad_objects(),
        };
        tasks.spawn(
            "inspect",
            inspect::serve(listener, asked, sources, tasks.token()),
        );
    }
    let names = store.watch(Scope::Namespace(namespace)).map(Input::Names);
    tasks.spawn("names", forward(names, sender.clone(), tasks.token()));
    let resolvers = store.watch(Scope::All).map(Input::Resolvers);
    tasks.spawn(
        "resolvers",
        forward(resolvers, sender.clone(), tasks.token()),
    );
    let policies = store.watch(Scope::All).map(Input::Policies);
    tasks.spawn("policies", forward(policies, sender.clone(), tasks.token()));
    let maps = store.watch(Scope::All).map(Input::Maps);
    tasks.spawn("maps", forward(maps, sender.clone(), tasks.token()));
    tasks.spawn(
        "sets",
        sets(store, writer.wants_sets(), sender, tasks.token()),
    );
    tasks.spawn("reports", reporting.run(tasks.token()));
    tasks.spawn("admin", admin.serve(health, exporter, tasks.token()));
    if let Some(leadership) = leadership {
        tasks.spawn("leadership", leadership.run(tasks.token()));
    }
    tasks.spawn("writer", writer.run(inputs, questions, tasks.token()));
    tasks.run().await
}

/// Forwards events until the token is cancelled. If either end closes earlier, the receiver reports why.
async fn forward(
    events: impl Stream<Item = Input>,
    sender: mpsc::Sender<Input>,
    token: CancellationToken,
) -> anyhow::Result<()> {
    let all = async {
        let mut events = pin!(events);
        while let Some(event) = events.next().await
            && sender.send(event).await.is_ok()
        {}
    };
    token.run_until_cancelled(all).await;
    token.cancelled().await;
    Ok(())
}

/// Watches NetworkSets once a `DNSResolver` asks for one and a group of Calico serves them.
async fn sets(
    store: OpenStore,
    mut wanted: watch::Receiver<bool>,
    sender: mpsc::Sender<Input>,
    token: CancellationToken,
) -> anyhow::Result<()> {
    let all = async {
        // The writer ends only with the program.
        if wanted.wait_for(|wanted| *wanted).await.is_err() {
            return;
        }
        loop {
            let api = served(&store, &sender).await;
            if sender.send(Input::SetApi(api)).await.is_err() {
                return;
            }
            let is_gone = if api == SetApi::Crd {
                forward_sets::<CrdNetworkSet>(&store, api, Input::CrdSets, &sender).await
            } else {
                forward_sets::<NetworkSet>(&store, api, Input::Sets, &sender).await
            };
            if !is_gone {
                return;
            }
        }
    };
    token.run_until_cancelled(all).await;
    token.cancelled().await;
    Ok(())
}

/// Forwards events until the API server says that the group does not serve NetworkSets any more. Returns whether it
/// does.
async fn forward_sets<K: Kind>(
    store: &OpenStore,
    api: SetApi,
    input: fn(Event<K>) -> Input,
    sender: &mpsc::Sender<Input>,
) -> bool {
    let mut events = pin!(store.watch::<K>(Scope::All));
    let mut is_out_of_sync = false;
    loop {
        let next = if is_out_of_sync {
            timeout(DISCOVERY, events.next()).await
        } else {
            Ok(events.next().await)
        };
        match next {
            Ok(Some(event)) => {
                match &event {
                    Event::OutOfSync(_) => is_out_of_sync = true,
                    Event::Synced(_) => is_out_of_sync = false,
                    _ => {}
                }
                if sender.send(input(event)).await.is_err() {
                    return false;
                }
            }
            Ok(None) => return false,
            Err(_elapsed) => {}
        }
        if is_out_of_sync && is_gone(store, api).await {
            return true;
        }
    }
}

/// Whether the API server says that the group does not serve NetworkSets.
async fn is_gone(store: &OpenStore, api: SetApi) -> bool {
    let OpenStore::Kube(store) = store else {
        return false;
    };
    let mut groups = SET_APIS.into_iter().filter(|(_, it)| *it == api);
    let Some((group, _)) = groups.next() else {
        return false;
    };
    store.cluster().serves(group, NETWORK_SETS).await == Ok(false)
}

/// Waits until a group serves NetworkSets.
async fn served(store: &OpenStore, sender: &mpsc::Sender<Input>) -> SetApi {
    let OpenStore::Kube(store) = store else {
        return SetApi::V3;
    };
    let mut is_told = false;
    loop {
        let mut answers = 0;
        for (group, api) in SET_APIS {
            match store.cluster().serves(group, NETWORK_SETS).await {
                Ok(true) => return api,
                Ok(false) => answers += 1,
                Err(error) => {
                    debug!(
                        group,
                        "the API server does not say whether it serves NetworkSets: {error}"
                    );
                    // The better group may be the one that did not answer.
                    break;
                }
            }
        }
        if answers == SET_APIS.len() && !std::mem::replace(&mut is_told, true) {
            warn!(
                "a DNSResolver asks for a NetworkSet of Calico, which the cluster does not serve now"
            );
            if sender.send(Input::SetApi(SetApi::Missing)).await.is_err() {
                return pending().await;
            }
        }
        sleep(DISCOVERY).await;
    }
}
