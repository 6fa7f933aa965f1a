//! The lateness of look-ups. The controller's task and the resolver run as in the program, with a
//! folder as the store, all on one core. The DNS servers are in the same process on another core.
//!
//! All names are new at once, so they also expire at about the same time. Only chance and the
//! jitter spread them. `cargo bench --bench refresh_lag` takes two minutes. `-- quick` takes half a
//! minute, with a third of the names and of the TTL. `-- five` has five DNS servers instead of two,
//! so ten queries a look-up. Other load on the machine makes the result worse.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout)]

mod server;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    fs,
    process::ExitCode,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use collector::{
    control_loop, controller,
    guards::Guards,
    lookup::{self, FamilyOutcome, Inputs, LookupResult, Request, Server, Servers},
    objects::{ManageObjects, ObjectPolicy},
    observe::{self, names::SharedIndex},
    query_origin::OwnQueries,
    rules::{BySource, RetentionPolicy, Source, Wanted, WantedName},
    state::Limits,
};
use futures_util::Stream;
use proto::api::{DnsName, Family};
use runtime::{
    admin::Health,
    clock::{Clock, Timestamp},
    kube_events::Reporter,
    leader::Leader,
    store::{Event, Kind, ObjectKey, Precondition, Scope, Store, StoreError, dir::DirStore},
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// The limit, at the 99th percentile.
const LIMIT: Duration = Duration::from_millis(100);

struct Case {
    names: usize,
    /// Two replicas of CoreDNS, as most clusters have, or five, the most that a look-up queries. A
    /// name with two addresses is queried at all of them.
    servers: usize,
    /// In seconds.
    ttl: u32,
    measured: Duration,
}

/// Measurements of the look-ups.
#[derive(Default)]
struct Samples {
    due: HashMap<DnsName, Timestamp>,
    /// The latest expiry, by name and family.
    expiry: HashMap<(DnsName, Family), Timestamp>,
    looked_up: HashSet<DnsName>,
    phase: Phase,
}

/// The measurements of one phase.
#[derive(Default)]
struct Phase {
    /// Only look-ups that were due after this count.
    from: Option<Timestamp>,
    starts: Vec<Duration>,
    answers: Vec<Duration>,
    /// Look-ups by second.
    seconds: HashMap<i64, usize>,
    /// Addresses that no answer renewed before their expiry and grace were over.
    overdue: usize,
    failed: usize,
}

impl Samples {
    fn take(&mut self, round: &LookupResult, now: Timestamp, grace: Duration) {
        let is_new = self.looked_up.insert(round.name.clone());
        let phase = &mut self.phase;
        phase.failed += usize::from(round.failed().is_some());
        for family in Family::ALL {
            let FamilyOutcome::Addresses { addresses, at, .. } = round.family(family) else {
                continue;
            };
            let ttl = addresses.iter().map(|(_, ttl)| *ttl).min().unwrap_or(0);
            let expiry = *at + Duration::from_secs(ttl.into());
            let before = self.expiry.insert((round.name.clone(), family), expiry);
            phase.overdue += usize::from(before.is_some_and(|before| before + grace < *at));
        }
        let due = self.due[&round.name];
        if !is_new && phase.from.is_some_and(|from| due > from) {
            phase.starts.push(round.started.since(due));
            phase.answers.push(now.since(due));
            let second = round.started.as_millis() / 1000;
            *phase.seconds.entry(second).or_default() += 1;
        }
    }

    /// Ends a phase and begins another.
    fn next(&mut self, now: Timestamp) -> Phase {
        let from = Some(now);
        std::mem::replace(
            &mut self.phase,
            Phase {
                from,
                ..Phase::default()
            },
        )
    }
}

/// The store, with the objects that exist and those that have their addresses.
#[derive(Clone)]
struct Counting {
    store: DirStore,
    created: watch::Sender<usize>,
    filled: Arc<Mutex<HashSet<ObjectKey>>>,
    filled_count: watch::Sender<usize>,
    statuses: watch::Sender<usize>,
}

impl Counting {
    fn new(store: DirStore) -> Self {
        Self {
            store,
            created: watch::Sender::new(0),
            filled: Arc::default(),
            filled_count: watch::Sender::new(0),
            statuses: watch::Sender::new(0),
        }
    }
}

impl Store for Counting {
    fn watch<K: Kind>(&self, scope: Scope) -> impl Stream<Item = Event<K>> + Send + 'static {
        self.store.watch(scope)
    }

    async fn list_keys<K: Kind>(&self, scope: &Scope) -> Result<BTreeSet<ObjectKey>, StoreError> {
        self.store.list_keys::<K>(scope).await
    }

    async fn get<K: Kind>(&self, key: &ObjectKey) -> Result<K, StoreError> {
        self.store.get(key).await
    }

    async fn create<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        let created = self.store.create(object).await?;
        self.created.send_modify(|count| *count += 1);
        Ok(created)
    }

    async fn delete<K: Kind>(
        &self,
        key: &ObjectKey,
        precondition: &Precondition,
    ) -> Result<(), StoreError> {
        self.store.delete::<K>(key, precondition).await
    }

    async fn replace_status<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        let stored = self.store.replace_status(object).await?;
        self.statuses.send_modify(|count| *count += 1);
        self.filled.lock().unwrap().insert(ObjectKey::of(object));
        let filled = self.filled.lock().unwrap().len();
        self.filled_count.send_replace(filled);
        Ok(stored)
    }
}

/// The processor time of all threads except the servers' (proc_pid_schedstat(5)).
fn processor_time() -> Duration {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    threads
        .map(|thread| thread.unwrap().path())
        .filter_map(|thread| {
            // The thread may have ended meanwhile.
            let name = fs::read_to_string(thread.join("comm")).ok()?;
            let text = fs::read_to_string(thread.join("schedstat")).ok()?;
            let nanoseconds = text.split(' ').next().unwrap().parse().unwrap();
            (name.trim() != server::THREAD).then(|| Duration::from_nanos(nanoseconds))
        })
        .sum()
}

fn cores() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU)
        .filter(|core| allowed.is_set(*core))
        .collect()
}

/// Keeps this thread, and those that it starts, on one core.
fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).unwrap();
}

fn percentile(sorted: &[Duration], part: f64) -> Duration {
    let last = sorted.len() - 1;
    sorted[((last as f64) * part).round() as usize]
}

fn row(what: &str, value: String, note: &str) {
    println!("{what:<44}{value:>24}   {note}");
}

fn late(what: &str, mut samples: Vec<Duration>, note: &str) -> Duration {
    samples.sort_unstable();
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|part| percentile(&samples, part));
    let value = format!(
        "{} / {} / {} ms",
        p50.as_millis(),
        p99.as_millis(),
        max.as_millis()
    );
    row(what, value, note);
    p99
}

async fn until(count: &watch::Sender<usize>, reached: usize) {
    let mut count = count.subscribe();
    count.wait_for(|count| *count >= reached).await.unwrap();
}

#[allow(clippy::too_many_lines)]
async fn run(case: Case, servers: Vec<Server>) -> bool {
    let clock = Clock::system();
    let limits = Limits::default();
    let grace = limits.grace;
    let terms = RetentionPolicy {
        grace,
        min_ttl: limits.min_ttl,
        allowed: true,
        ..RetentionPolicy::default()
    };
    let wanted = |count: usize| {
        let name = |i: usize| format!("host{i}.team{}.example.com", i % 100);
        let in_use = Arc::new(WantedName::with_retention(terms));
        let names = (0..count).map(|i| (DnsName::parse(&name(i)).unwrap(), Arc::clone(&in_use)));
        Wanted {
            names: names.collect(),
            in_sync: true,
            ..Wanted::default()
        }
    };

    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Counting::new(DirStore::open(folder.path()).unwrap());
    let shutdown = CancellationToken::new();
    let (_servers, server_list) = watch::channel(Servers::from(servers));
    let (wanted_sender, wanted_names) = watch::channel(BySource::default());
    let (_observations, observed) = observe::queue::channel(1);
    let config = lookup::Config::default();
    let (requests, mut requested) = mpsc::channel::<Request>(1);
    let (asked, to_ask) = mpsc::channel(lookup::QUEUE);
    let (answered, mut answers) = mpsc::channel::<LookupResult>(config.concurrency);
    let (rounds, resolved) = mpsc::channel(config.concurrency);
    let samples = Arc::new(Mutex::new(Samples::default()));

    // Taps both channels.
    tokio::spawn({
        let samples = Arc::clone(&samples);
        async move {
            while let Some(request) = requested.recv().await {
                let due = request.due;
                samples
                    .lock()
                    .unwrap()
                    .due
                    .insert(request.name.clone(), due);
                if asked.send(request).await.is_err() {
                    break;
                }
            }
        }
    });
    let looked_up = watch::Sender::new(0);
    tokio::spawn({
        let (samples, looked_up, clock) = (Arc::clone(&samples), looked_up.clone(), clock.clone());
        async move {
            while let Some(round) = answers.recv().await {
                {
                    let mut samples = samples.lock().unwrap();
                    samples.take(&round, clock.now(), grace);
                    looked_up.send_replace(samples.looked_up.len());
                }
                if rounds.send(round).await.is_err() {
                    break;
                }
            }
        }
    });

    let resolver = tokio::spawn(lookup::run(
        config,
        Inputs {
            servers: server_list,
            requests: to_ask,
        },
        answered,
        Guards::default().shared(),
        clock.clone(),
        OwnQueries::default(),
        shutdown.clone(),
    ));
    let health = Health::new();
    let (reporter, _reporting) = Reporter::new(&runtime::OpenStore::Dir(store.store.clone()));
    let (_askers, questions) = mpsc::channel(1);
    let controller = tokio::spawn(control_loop::run(
        controller::Config {
            objects: ObjectPolicy::of_egress_firewalls("ovn-kubernetes", ManageObjects::Auto),
            limits,
            ..controller::Config::default()
        },
        store.clone(),
        clock.clone(),
        control_loop::Channels {
            observations: observed,
            loss_tracker: collector::observe::LossTracker::default(),
            wanted: wanted_names,
            networks: watch::channel(Some(Arc::default())).1,
            rounds: resolved,
            coverage: watch::channel(Default::default()).1,
            leader: Leader::sole(),
            requests,
            index: SharedIndex::default(),
            guards: Guards::default().shared(),
            reporter,
            questions,
        },
        control_loop::Gates {
            objects: control_loop::ObjectGates::new(&health, &[Source::EgressFirewall]),
            writes: health.gate("writes", "not yet"),
        },
        shutdown.clone(),
    ));

    let (start, busy) = (Instant::now(), processor_time());
    wanted_sender.send_replace(wanted(case.names).into());
    let first = {
        let store = store.clone();
        let names = case.names;
        tokio::spawn(async move {
            until(&store.created, names).await;
            let created = start.elapsed();
            until(&store.filled_count, names).await;
            (created, start.elapsed())
        })
    };
    until(&looked_up, case.names).await;
    let took = start.elapsed();
    let rate = case.names as f64 / took.as_secs_f64();
    row(
        "first look-up of all names",
        format!("{:.2} s", took.as_secs_f64()),
        &format!("{rate:.0}/s"),
    );
    samples.lock().unwrap().next(clock.now());
    let busy_first = processor_time() - busy;
    let busy = processor_time();
    tokio::time::sleep(case.measured).await;
    let busy = processor_time() - busy;
    let Phase {
        starts,
        answers,
        seconds,
        overdue,
        failed,
        ..
    } = samples.lock().unwrap().next(clock.now());
    let measured = case.measured.as_secs_f64();
    row(
        "  processor time of that",
        format!("{:.2} s", busy_first.as_secs_f64()),
        "",
    );
    row(
        &format!("look-ups in the {measured:.0} s after that"),
        starts.len().to_string(),
        &format!(
            "{:.0}/s, {} in the busiest second",
            starts.len() as f64 / measured,
            seconds.values().max().unwrap()
        ),
    );
    row(
        "processor time meanwhile",
        format!("{:.1} %", 100.0 * busy.as_secs_f64() / measured),
        "of one core",
    );
    let p99 = late(
        "late at the start: p50 / p99 / max",
        starts,
        &format!("at most {} ms at p99", LIMIT.as_millis()),
    );
    late("late at the answer: p50 / p99 / max", answers, "");
    row(
        "addresses not seen again in expiry + grace",
        overdue.to_string(),
        "none",
    );
    row("failed look-ups", failed.to_string(), "none");
    if first.is_finished() {
        let (created, filled) = first.await.unwrap();
        let seconds = |took: Duration| format!("{:.1} s", took.as_secs_f64());
        row("all names have their objects after", seconds(created), "");
        row(
            "all objects have their addresses after",
            seconds(filled),
            "",
        );
    } else {
        let there = store.created.borrow().to_string();
        row("objects that are there", there, "not all");
    }
    row(
        "writes of statuses in all",
        store.statuses.borrow().to_string(),
        "",
    );

    // The known names are due at about this time too.
    let start = Instant::now();
    wanted_sender.send_replace(wanted(2 * case.names).into());
    until(&looked_up, 2 * case.names).await;
    let took = start.elapsed().as_secs_f64();
    let Phase {
        starts: known,
        overdue: overdue_then,
        failed: failed_then,
        ..
    } = samples.lock().unwrap().next(clock.now());
    row(
        "first look-up of as many names again",
        format!("{took:.2} s"),
        &format!("and {} look-ups of the known ones", known.len()),
    );
    let p99_then = match known.len() {
        0 => Duration::ZERO,
        _ => late("  known ones late: p50 / p99 / max", known, ""),
    };
    shutdown.cancel();
    drop(_observations);
    controller.await.unwrap().unwrap();
    resolver.await.unwrap().unwrap();
    p99.max(p99_then) <= LIMIT && overdue + overdue_then + failed + failed_then == 0
}

fn main() -> ExitCode {
    let is_said = |word: &str| std::env::args().any(|argument| argument == word);
    let quick = is_said("quick");
    let case = Case {
        names: if quick { 3_333 } else { 10_000 },
        servers: if is_said("five") { 5 } else { 2 },
        ttl: if quick { 10 } else { 30 },
        measured: Duration::from_secs(if quick { 30 } else { 90 }),
    };
    println!(
        "lateness: {} names with a TTL of {} s, {} DNS servers, the collector on one core",
        case.names, case.ttl, case.servers
    );
    if cores().len() == 1 {
        println!("there is one core: the DNS servers are on it too");
    }
    let on_the_last_core = || pin(*cores().last().unwrap());
    let servers = (0..case.servers)
        .map(|_| Server::udp(server::start(case.ttl, on_the_last_core).unwrap()))
        .collect();
    pin(cores()[0]);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        // Otherwise the time of a thread that ends is lost.
        .thread_keep_alive(Duration::from_secs(3600))
        .enable_all()
        .build()
        .unwrap();
    let held = runtime.block_on(async { tokio::spawn(run(case, servers)).await.unwrap() });
    println!(
        "{}",
        if held {
            "the limits hold"
        } else {
            "THE LIMITS DO NOT HOLD"
        }
    );
    ExitCode::from(u8::from(!held))
}
