//! The loop around [`Planner`]: events of the store, time and results on one side, jobs on the other.

use std::{collections::BTreeMap, future::pending, time::Duration};

use k8s_openapi::api::networking::v1::NetworkPolicy;
use proto::api::{CrdNetworkSet, DnsNameResolver, DnsResolver, IpMap, NetworkSet};
use runtime::{
    admin::Gate,
    clock::Clock,
    kube_events::Reporter,
    leader::Leader,
    store::{Event, Replace},
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    inspect::{Question, Snapshot},
    metrics,
    planner::{Done, Now, Options, PlannedReport, Planner, SetApi},
    write::carry_out,
};

/// How many jobs are under way at once.
const AT_ONCE: usize = 32;

/// The most inputs that are taken before the next plan.
const INPUTS: usize = 64;

/// How long the end waits for jobs; the program has 5 s in all.
const DRAIN: Duration = Duration::from_secs(4);

/// The pause between updates of metrics.
const PAUSE: Duration = Duration::from_secs(1);

/// An event of the store.
#[derive(Debug)]
pub enum Input {
    Names(Event<DnsNameResolver>),
    Resolvers(Event<DnsResolver>),
    Policies(Event<NetworkPolicy>),
    Maps(Event<IpMap>),
    Sets(Event<NetworkSet>),
    CrdSets(Event<CrdNetworkSet>),
    SetApi(SetApi),
}

/// Keeps the objects of all `DNSResolver` objects as they should be.
pub struct Writer<S> {
    planner: Planner,
    store: S,
    clock: Clock,
    leader: Leader,
    reporter: Reporter,
    /// Whether a `DNSResolver` asks for a NetworkSet.
    wants_sets: watch::Sender<bool>,
    set_api: SetApi,
    /// Why kinds cannot be read now.
    out_of_sync: BTreeMap<&'static str, String>,
    gate: Gate,
    jobs: JoinSet<Done>,
}

impl<S: Replace> Writer<S> {
    /// Creates a writer; it starts with [`Writer::run`]. The gate is ready once everything was read.
    pub fn new(options: Options, store: S, leader: Leader, reporter: Reporter, gate: Gate) -> Self {
        Self {
            planner: Planner::new(options),
            store,
            clock: Clock::system(),
            leader,
            reporter,
            wants_sets: watch::channel(false).0,
            set_api: SetApi::default(),
            out_of_sync: BTreeMap::new(),
            gate,
            jobs: JoinSet::new(),
        }
    }

    /// Tells when a `DNSResolver` asks for a NetworkSet.
    pub fn wants_sets(&self) -> watch::Receiver<bool> {
        self.wants_sets.subscribe()
    }

    fn now(&self) -> Now {
        Now {
            instant: Instant::now().into_std(),
            time: self.clock.now(),
        }
    }

    /// Works until the token is cancelled. Then it waits for the jobs under way, at most 4 s.
    ///
    /// # Errors
    /// The end of the inputs, which should have none, and a panic of a job.
    pub async fn run(
        mut self,
        mut inputs: mpsc::Receiver<Input>,
        mut questions: mpsc::Receiver<Question>,
        token: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut measured = Instant::now();
        let mut taken = Vec::with_capacity(INPUTS);
        loop {
            self.work();
            if measured.elapsed() >= PAUSE {
                metrics::totals(&self.planner.totals());
                measured = Instant::now();
            }
            let timer = self
                .planner
                .next_timer(self.now())
                .filter(|_| self.jobs.len() < AT_ONCE);
            tokio::select! {
                () = token.cancelled() => break,
                // A list of all kinds comes in parts: many of them are taken before the next plan.
                count = inputs.recv_many(&mut taken, INPUTS) => match count {
                    0 if token.is_cancelled() => break,
                    0 => anyhow::bail!("the watches of the store ended"),
                    _ => taken.drain(..).for_each(|input| self.take(input)),
                },
                Some(done) = self.jobs.join_next() => {
                    self.finished(done?);
                    while let Some(done) = self.jobs.try_join_next() {
                        self.finished(done?);
                    }
                }
                Some(question) = questions.recv() => self.answer(question),
                () = until(timer.map(Instant::from)) => {}
                () = self.leader.changed() => {}
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

    fn work(&mut self) {
        let now = self.now();
        self.planner.set_leading(self.leader.is_leading(), now);
        let room = AT_ONCE.saturating_sub(self.jobs.len());
        let has_crd_sets = self.set_api == SetApi::Crd;
        for job in self.planner.next_jobs(room, now) {
            let (store, leader) = (self.store.clone(), self.leader.clone());
            self.jobs.spawn(carry_out(store, job, has_crd_sets, leader));
        }
        for report in self.planner.take_reports() {
            let PlannedReport {
                about,
                severity,
                reason,
                note,
            } = report;
            self.reporter.report(about, severity, reason, note);
        }
        let wants_sets = self.planner.wants_sets();
        runtime::changes::send_if_changed(&self.wants_sets, wants_sets);
        self.report_gate();
    }

    /// Names each kind that cannot be read. Other kinds are written all the same.
    fn report_gate(&self) {
        let unread = self.planner.unread().into_iter();
        let first_lists = unread
            .filter(|kind| !self.out_of_sync.contains_key(kind))
            .map(|kind| format!("{kind} objects have not been read yet"));
        let failed = self
            .out_of_sync
            .iter()
            .map(|(kind, reason)| format!("{kind} objects cannot be read: {reason}"));
        let reasons: Vec<_> = first_lists.chain(failed).collect();
        if reasons.is_empty() {
            self.gate.ready();
        } else {
            self.gate.not_ready(reasons.join("; "));
        }
    }

    fn take(&mut self, input: Input) {
        let now = self.now();
        match input {
            Input::Names(event) => {
                self.synced("DNSNameResolver", &event);
                self.planner.apply_names(&event, now);
            }
            Input::Resolvers(event) => {
                self.synced("DNSResolver", &event);
                self.planner.apply_resolvers(&event, now);
            }
            Input::Policies(event) => {
                self.synced("NetworkPolicy", &event);
                self.planner.apply_output(&event, now);
            }
            Input::Maps(event) => {
                self.synced("IPMap", &event);
                self.planner.apply_output(&event, now);
            }
            Input::Sets(event) => {
                self.synced("NetworkSet", &event);
                self.planner.apply_output(&event, now);
            }
            Input::CrdSets(event) => {
                self.synced("NetworkSet", &event);
                self.planner.apply_output(&event, now);
            }
            Input::SetApi(api) => {
                info!(?api, "the group of NetworkSets");
                // The reason of another group is over.
                self.out_of_sync.remove("NetworkSet");
                self.set_api = api;
                self.planner.set_api(api, now);
            }
        }
    }

    fn synced<K>(&mut self, kind: &'static str, event: &Event<K>) {
        match event {
            Event::Synced(objects) => {
                info!(kind, objects = objects.len(), "objects were read");
                self.out_of_sync.remove(kind);
            }
            Event::OutOfSync(reason) => {
                self.out_of_sync.insert(kind, reason.clone());
            }
            Event::Applied(_) | Event::Deleted(_) | Event::Undecodable(_) => {}
        }
    }

    fn finished(&mut self, done: Done) {
        let now = self.now();
        let since = done.since.filter(|_| done.is_success());
        if let Some(since) = since {
            metrics::written(since, now.instant);
        }
        self.planner.finished(done, now);
    }

    /// Answers a query, whose sender may be gone.
    fn answer(&self, question: Question) {
        let planner = &self.planner;
        let _gone = match question {
            Question::Snapshot(sender) => {
                let totals = planner.totals();
                let (dns_resolvers, more_with_faults) = planner.shown();
                let more_dns_resolvers = totals.resolvers.saturating_sub(dns_resolvers.len());
                let snapshot = Snapshot {
                    leader: planner.is_leading(),
                    totals,
                    dns_resolvers,
                    more_dns_resolvers,
                    more_with_faults,
                };
                sender.send(snapshot).is_err()
            }
            Question::Explain(asked, sender) => {
                sender.send(planner.explain(&asked, self.now())).is_err()
            }
            Question::List(query, sender) => sender.send(planner.list(&query)).is_err(),
            Question::Compare(sender) => sender.send(planner.compare(self.now())).is_err(),
        };
    }
}

async fn until(timer: Option<Instant>) {
    match timer {
        Some(timer) => sleep_until(timer).await,
        None => pending().await,
    }
}
