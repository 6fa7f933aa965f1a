//! One client queries 10,000 random labels a second under a wildcard that is full of them. The
//! bench measures the new addresses of other pods, from the frame at the socket to the status that
//! the store acknowledges.
//!
//! The reader, the queue and the controller's task are the program's, with its limits; the store is
//! in memory. Phases with and without the random labels follow each other in random order, and the
//! median of each kind counts. `-- quick` makes it short.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout
)]

mod sender;
mod store;

use std::{
    path::Path,
    process::ExitCode,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use collector::{
    clients::{Clients, Namespace},
    control_loop, controller,
    guards::Guards,
    new_names::{NewNameLimits, NewNames},
    objects::{ObjectPolicy, Rates, Shared},
    observe::{
        ConnectionTable, Ingest, Listener, LossTracker, MaxConnections, names::SharedIndex, queue,
    },
    rules::{BySource, RetentionPolicy, Source, Wanted, WantedName},
    state::Limits,
};
use proto::api::DnsName;
use runtime::{
    admin::Health,
    clock::Clock,
    cluster_cidrs::{Networks, Purpose},
    kube_events::Reporter,
    leader::Leader,
    store::ObjectKey,
};
use sender::{ATTACKER, Honest, RANDOM_LABELS, Sender};
use store::Scripted;
use tests::{cpu_wakeup::Awake, workdir::Workdir};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

/// The wildcard that is full of random labels.
const FULL: &str = "full.example.com.";

/// Other wildcards.
const ZONES: usize = 100;

/// New addresses under other wildcards, and under the full one. The full object is written at most
/// once a second, also without the random labels.
const HONEST: [Honest; 2] = [
    Honest {
        a_second: 100.0,
        zones: ZONES,
        parent: "zone{}.example.net.",
    },
    Honest {
        a_second: 20.0,
        zones: 1,
        parent: FULL,
    },
];

/// The measurements, and the most that each may grow beside the random labels.
const LIMITS: [(&str, f64); 2] = [
    ("under another wildcard", 1.2),
    ("under the same wildcard", 2.0),
];

/// Addresses in flight at the end of a phase come within this time.
const LATEST: Duration = Duration::from_secs(10);

/// The wildcards, the namespaces with rules for them, and their pods.
fn rules(clients: &Clients) -> Wanted {
    let pods = (Purpose::Pods, "10.244.0.0/16".parse().unwrap());
    clients.watch(Some(Arc::new(Networks::new([pods]))));
    clients.set_complete(true);
    let pod = |namespace: &str, name: String| ObjectKey {
        namespace: namespace.to_owned(),
        name,
    };
    for i in 0..100 {
        let address = [10, 244, 1, i].into();
        clients.set(pod("team", format!("pod-{i}")), &[address]);
    }
    clients.set(pod("noisy", "pod".to_owned()), &[ATTACKER.into()]);
    let mut namespaces: Vec<Namespace> = ["team", "noisy"].map(|it| clients.number(it)).into();
    namespaces.sort_unstable();
    let terms = RetentionPolicy {
        grace: Duration::from_secs(5),
        min_ttl: Duration::from_secs(5),
        allowed: true,
        ..RetentionPolicy::default()
    };
    let zones = (0..ZONES).map(|i| format!("*.zone{i}.example.net."));
    let names = zones.chain([format!("*.{FULL}")]);
    let in_use = Arc::new(WantedName {
        namespaces: namespaces.into(),
        ..WantedName::with_retention(terms)
    });
    let names = names.map(|name| (DnsName::parse(&name).unwrap(), Arc::clone(&in_use)));
    Wanted {
        names: names.collect(),
        in_sync: true,
        ..Wanted::default()
    }
}

/// A collector as in the program, without look-ups.
async fn collector(socket: &Path, store: Scripted, token: CancellationToken) -> JoinSet<()> {
    let shared = Shared::default();
    let (rules, mut wanted) = watch::channel(BySource::from(rules(&shared.clients)));
    wanted.mark_changed();
    let limits = NewNameLimits {
        rate: 50,
        burst: 1000,
        exempt: Vec::new(),
    };
    let (observations, observed) = queue::channel(16 << 20);
    let (index, clock, loss_tracker) = (
        SharedIndex::default(),
        Clock::system(),
        LossTracker::default(),
    );
    let connections = MaxConnections {
        connections: 8,
        of_peer: 8,
    };
    let observe = Ingest {
        loss_tracker: loss_tracker.clone(),
        new_names: NewNames::new(limits, &shared.known, &shared.notices),
        ..Ingest::new(
            index.clone(),
            clock.clone(),
            ConnectionTable::new(connections, observations),
        )
    };
    let address = format!("unix://{}", socket.display()).parse().unwrap();
    let listener = Listener::bind(&address, None);
    let listener = listener.await.unwrap();
    let health = Health::new();
    let mut tasks = JoinSet::new();
    let channels = control_loop::Channels {
        observations: observed,
        loss_tracker,
        wanted,
        networks: watch::channel(Some(Arc::default())).1,
        rounds: mpsc::channel(1).1,
        coverage: watch::channel(Default::default()).1,
        leader: Leader::sole(),
        requests: mpsc::channel(1).0,
        index,
        guards: Guards::default().shared(),
        reporter: Reporter::with_queue(1).0,
        questions: mpsc::channel(1).1,
    };
    let gates = control_loop::Gates {
        objects: control_loop::ObjectGates::new(&health, &[Source::EgressFirewall]),
        writes: health.gate("writes", "not yet"),
    };
    let config = controller::Config {
        objects: ObjectPolicy {
            rates: Rates {
                // High enough that the full object is always written as often as its spacing
                // allows: the budget is not measured here.
                bytes: 1e9,
                ..Rates::default()
            },
            ..ObjectPolicy::default()
        },
        limits: Limits {
            lookups: false,
            ..Limits::default()
        },
        shared,
        ..controller::Config::default()
    };
    let ends = token.clone();
    tasks.spawn(async move {
        listener.run(observe, ends).await.unwrap();
    });
    tasks.spawn(async move {
        let ran = control_loop::run(config, store, clock, channels, gates, token).await;
        ran.unwrap();
        drop(rules);
    });
    tasks
}

/// The delays of a phase's new addresses, by kind, sorted.
fn part(
    sender: &mut Sender,
    store: &Scripted,
    lasts: Duration,
    is_attacked: bool,
) -> [Vec<Duration>; 2] {
    sender.send(lasts, is_attacked);
    let began = Instant::now();
    while !store.sent.lock().unwrap().is_empty() {
        assert!(began.elapsed() < LATEST, "a new address is not there");
        thread::sleep(Duration::from_millis(10));
    }
    let took = std::mem::take(&mut *store.took.lock().unwrap());
    [0, 1].map(|what| {
        let of_this = took.iter().filter(|it| it.0 == what);
        let mut of_this: Vec<Duration> = of_this.map(|it| it.1).collect();
        of_this.sort_unstable();
        of_this
    })
}

fn percentile(sorted: &[Duration], part: f64) -> f64 {
    let last = sorted.len() - 1;
    sorted[(last as f64 * part).round() as usize].as_secs_f64() * 1e3
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Measures the phases, and returns whether the limits hold.
fn measure(socket: &Path, store: &Scripted, quick: bool) -> bool {
    let (parts, lasts) = match quick {
        true => (3, Duration::from_secs(3)),
        false => (9, Duration::from_secs(5)),
    };
    let mut sender = Sender::open(socket, FULL, store.sent.clone(), HONEST);
    // Until the wildcard is full, and every object exists.
    part(&mut sender, store, Duration::from_secs(3), true);
    assert_eq!(store.filled(), ZONES + 1);
    let mut order: Vec<bool> = [true, false].repeat(parts);
    fastrand::shuffle(&mut order);
    let mut all: [[Vec<Vec<Duration>>; 2]; 2] = Default::default();
    for is_attacked in order {
        let parts = part(&mut sender, store, lasts, is_attacked);
        for (what, of_this) in parts.into_iter().enumerate() {
            all[what][usize::from(is_attacked)].push(of_this);
        }
    }
    println!(
        "{:<32} {:>10} {:>12} {:>7} {:>8}",
        "new address", "alone, ms", "beside, ms", "times", "at most"
    );
    let mut holds = true;
    for ((what, limit), of_this) in LIMITS.into_iter().zip(&all) {
        for (text, at) in [("p50", 0.5), ("p99", 0.99)] {
            let middle = |parts: &Vec<Vec<Duration>>| {
                median(parts.iter().map(|it| percentile(it, at)).collect())
            };
            let [alone, beside] = [0, 1].map(|is_attacked| middle(&of_this[is_attacked]));
            let times = beside / alone;
            holds &= times <= limit;
            let mark = if times > limit { "  MISSED" } else { "" };
            println!(
                "{:<32} {alone:>10.2} {beside:>12.2} {times:>7.2} {limit:>8.2}{mark}",
                format!("{what}, {text}")
            );
        }
    }
    holds
}

fn main() -> ExitCode {
    let quick = std::env::args().any(|argument| argument == "quick");
    println!("noisy_neighbour: one client with {RANDOM_LABELS} random labels a second");
    let workdir = Workdir::transient();
    let socket = workdir.join("dnstap.sock");
    let (store, token) = (Scripted::default(), CancellationToken::new());
    let runtime = runtime::with_threads(2).unwrap();
    let _awake = Awake::keep();
    let mut tasks = runtime.block_on(collector(&socket, store.clone(), token.clone()));
    let holds = measure(&socket, &store, quick);
    token.cancel();
    runtime.block_on(async { while tasks.join_next().await.is_some() {} });
    ExitCode::from(u8::from(!holds))
}
