//! The loop around [`Planner`]: events of the store, time and results on one side, jobs on the other.

mod watches;
mod write;

use std::{future::pending, sync::Arc, time::Duration};

use parking_lot::Mutex;
use runtime::{
    OpenStore,
    admin::Gate,
    clock::Clock,
    kube_events::Reporter,
    leader::Leader,
    shutdown::Tasks,
    store::{Event, Kind, Scope},
};
use tokio::{
    select,
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::{
    watches::{Input, forward, forward_sets},
    write::{SetApi, carry_out},
};
use crate::{
    metrics,
    plan::{Done, Now, Planner},
};

/// How many jobs are under way at once.
const AT_ONCE: usize = 32;

/// The buffer for events of the store, and the most of them that are taken before the next plan.
const INPUTS: usize = 64;

/// How long the end waits for jobs; the program has 5 s in all.
const DRAIN: Duration = Duration::from_secs(4);

/// The pause between updates of metrics.
const PAUSE: Duration = Duration::from_secs(1);

/// Keeps the objects of all `DNSResolver` objects as they should be.
pub struct Writer {
    /// Shared with the listener that shows it.
    pub planner: Arc<Mutex<Planner>>,
    pub store: OpenStore,
    pub leader: Leader,
    pub reporter: Reporter,
    /// It is ready once everything was read.
    pub gate: Gate,
}

/// The loop, with its jobs.
struct Running {
    writer: Writer,
    /// Whether a `DNSResolver` asks for a NetworkSet.
    wants_sets: watch::Sender<bool>,
    set_api: SetApi,
    jobs: JoinSet<Done>,
}

/// The moment of now.
pub fn now() -> Now {
    Now {
        instant: Instant::now().into_std(),
        time: Clock::system().now(),
    }
}

impl Writer {
    /// Adds the tasks of the watches and the loop. `namespace` is that of the DNSNameResolver objects.
    pub fn spawn(self, namespace: String, tasks: &mut Tasks) {
        let (sender, inputs) = mpsc::channel(INPUTS);
        let (wants_sets, wanted) = watch::channel(false);
        let names = Scope::Namespace(namespace);
        self.watch("names", names, Input::Names, &sender, tasks);
        self.watch("resolvers", Scope::All, Input::Resolvers, &sender, tasks);
        self.watch("policies", Scope::All, Input::Policies, &sender, tasks);
        self.watch("maps", Scope::All, Input::Maps, &sender, tasks);
        let store = self.store.clone();
        let sets = forward_sets(store, wanted, sender, tasks.token());
        tasks.spawn("sets", sets);
        let running = Running {
            writer: self,
            wants_sets,
            set_api: SetApi::default(),
            jobs: JoinSet::new(),
        };
        tasks.spawn("writer", running.run(inputs, tasks.token()));
    }

    fn watch<K: Kind>(
        &self,
        name: &'static str,
        scope: Scope,
        input: fn(Event<K>) -> Input,
        sender: &mpsc::Sender<Input>,
        tasks: &mut Tasks,
    ) {
        let (store, token) = (self.store.clone(), tasks.token());
        let forwarding = forward(store, scope, input, sender.clone(), token);
        tasks.spawn(name, forwarding);
    }
}

impl Running {
    /// Works until the token is cancelled. Then it waits for the jobs under way, at most 4 s.
    async fn run(
        mut self,
        mut inputs: mpsc::Receiver<Input>,
        token: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut measured = Instant::now();
        let mut taken = Vec::with_capacity(INPUTS);
        loop {
            let timer = self.work();
            if measured.elapsed() >= PAUSE {
                metrics::update(&self.writer.planner.lock());
                measured = Instant::now();
            }
            select! {
                () = token.cancelled() => break,
                // A list of all kinds comes in parts: many of them are taken before the next plan.
                count = inputs.recv_many(&mut taken, INPUTS) => match count {
                    0 if token.is_cancelled() => break,
                    0 => anyhow::bail!("the watches of the store ended"),
                    _ => taken.drain(..).for_each(|input| self.apply(input)),
                },
                Some(done) = self.jobs.join_next() => {
                    self.finished(done?);
                    while let Some(done) = self.jobs.try_join_next() {
                        self.finished(done?);
                    }
                }
                () = until(timer) => {}
                () = self.writer.leader.changed() => {}
                // Metrics are current even if nothing happens.
                () = sleep_until(measured + PAUSE) => {}
            }
        }
        let ended = async { while self.jobs.join_next().await.is_some() {} };
        if timeout(DRAIN, ended).await.is_err() {
            warn!("the store did not answer the last writes in time");
        }
        Ok(())
    }

    /// Begins the jobs that are due. Returns when the next one is.
    fn work(&mut self) -> Option<Instant> {
        let (writer, now) = (&self.writer, now());
        let mut planner = writer.planner.lock();
        planner.set_leading(writer.leader.is_leading(), now);
        let room = AT_ONCE.saturating_sub(self.jobs.len());
        for job in planner.next_jobs(room, now) {
            let (store, leader) = (writer.store.clone(), writer.leader.clone());
            self.jobs.spawn(carry_out(store, job, self.set_api, leader));
        }
        for it in planner.take_reports() {
            let reporter = &writer.reporter;
            reporter.report(it.about, it.severity, it.reason, it.note);
        }
        runtime::changes::send_if_changed(&self.wants_sets, planner.wants_sets());
        let unread = planner.unread();
        if unread.is_empty() {
            writer.gate.ready();
        } else {
            writer.gate.not_ready(unread.join("; "));
        }
        let next = planner.next_timer(now).map(Instant::from);
        next.filter(|_| self.jobs.len() < AT_ONCE)
    }

    fn apply(&mut self, input: Input) {
        let (mut planner, now) = (self.writer.planner.lock(), now());
        match input {
            Input::Names(event) => planner.apply_names(&event, now),
            Input::Resolvers(event) => planner.apply_resolvers(&event, now),
            Input::Policies(event) => planner.apply_output(&event, now),
            Input::Maps(event) => planner.apply_output(&event, now),
            Input::Sets(event) => planner.apply_output(&event, now),
            Input::SetApi(api) => {
                info!(?api, "the group of NetworkSets");
                self.set_api = api.unwrap_or_default();
                planner.reset_sets(api.is_some(), now);
            }
        }
    }

    fn finished(&mut self, done: Done) {
        let now = now();
        if let Some(since) = done.since.filter(|_| done.is_success()) {
            metrics::written(since, now.instant);
        }
        self.writer.planner.lock().finished(done, now);
    }
}

async fn until(timer: Option<Instant>) {
    match timer {
        Some(timer) => sleep_until(timer).await,
        None => pending().await,
    }
}
