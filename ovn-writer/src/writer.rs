//! The loop around [`Reconciler`]: events of the store, the database and time on one side, transactions on the other.

use std::{collections::VecDeque, future::pending, pin::pin, time::Duration};

use anyhow::Context;
use futures_util::{Stream, StreamExt};
use ovsdb_replica::{Client, ClientOptions, Outcome, Remotes, TransactionId};
use proto::api::DnsNameResolver;
use runtime::{
    admin::{Gate, Health},
    leader::Leader,
    store,
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::{
    dry_run::DryRun,
    facts::{WriterQuery, comparison::compare},
    metrics,
    plan::{Finished, Policy, Reconciler, StartOver, SyncEvent},
    references::{Northbound, NorthboundChanges},
};

/// How long the end waits for a pending transaction; the program has 5 s in all.
const DRAIN: Duration = Duration::from_secs(4);

/// Why the store is not in sync before its first list.
const STORE_UNREAD: &str = "the store has not been read yet";

/// The maximum age of the reported state while a transaction is pending.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

mod questions;

/// Keeps the rows of a database equal to the statuses of a store.
pub struct Writer {
    sync: Reconciler,
    client: Client<Northbound>,
    mode: Mode,
    /// Queries of people.
    questions: mpsc::Receiver<WriterQuery>,
    /// The oldest first.
    in_flight: VecDeque<TransactionId>,
    /// Whether this process was on standby at its last check: those names must be checked again when it leads.
    stood_by: bool,
    /// Why the store cannot be read, or has not been yet; `None` while it is in sync.
    store_problem: Option<String>,
    store_gate: Gate,
    database_gate: Gate,
}

/// Whether the process writes.
enum Mode {
    /// Writes while this process leads.
    Write(Leader),
    /// Never writes.
    DryRun(DryRun),
}

impl Writer {
    /// Creates a writer; it starts with [`Writer::run`]. `health` gets two gates: the store was read, and the database
    /// was read and matches the store.
    pub fn new(remotes: &Remotes, options: ClientOptions, policy: Policy, health: &Health) -> Self {
        Self {
            sync: Reconciler::new(policy),
            client: Client::new(remotes, options),
            mode: Mode::Write(Leader::sole()),
            questions: mpsc::channel(1).1,
            in_flight: VecDeque::new(),
            stood_by: false,
            store_problem: Some(STORE_UNREAD.to_owned()),
            store_gate: health.gate("store", STORE_UNREAD),
            database_gate: health.gate("northbound", format!("not connected to {remotes} yet")),
        }
    }

    /// Writes only while this process leads. A standby is ready, too.
    #[must_use]
    pub fn led_by(self, leader: Leader) -> Self {
        let mode = Mode::Write(leader);
        Self { mode, ..self }
    }

    /// Reports the planned changes instead of writing them.
    #[must_use]
    pub fn dry_run(self, dry_run: DryRun) -> Self {
        let mode = Mode::DryRun(dry_run);
        Self { mode, ..self }
    }

    #[must_use]
    pub fn inspected(self, questions: mpsc::Receiver<WriterQuery>) -> Self {
        Self { questions, ..self }
    }

    /// Works until the token is cancelled. Then it waits for the pending transaction, at most 4 s.
    ///
    /// # Errors
    /// The end of `objects`, which should have none. In a dry run, a closed output.
    pub async fn run(
        mut self,
        objects: impl Stream<Item = store::Event<DnsNameResolver>>,
        token: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut objects = pin!(objects);
        // Freeing an event with thousands of addresses takes long, so it waits until its consequences are done.
        let mut taken_over = None;
        let mut reported = None::<Instant>;
        loop {
            self.work()?;
            let is_due = |reported: Instant| reported.elapsed() > REPORT_INTERVAL;
            if self.in_flight.is_empty() {
                drop(taken_over.take());
            }
            if self.in_flight.is_empty() || reported.is_none_or(is_due) {
                self.report();
                reported = Some(Instant::now());
            }
            let timer = self.next_timer();
            tokio::select! {
                () = token.cancelled() => break,
                event = objects.next() => match event {
                    Some(event) => {
                        self.store_changed(&event);
                        taken_over = Some(event);
                    }
                    // The store's stream may end first at a shutdown.
                    None if token.is_cancelled() => break,
                    None => anyhow::bail!("the watch of the store ended"),
                },
                event = self.client.next() => self.database_changed(event),
                Some(question) = self.questions.recv() => self.answer(question),
                () = until(timer) => {}
                () = lead_changes(&mut self.mode) => {}
            }
        }
        let ended = async {
            while !self.in_flight.is_empty() {
                let event = self.client.next().await;
                self.database_changed(event);
            }
        };
        if timeout(DRAIN, ended).await.is_err() {
            warn!("the server did not answer the last transaction in time");
        }
        Ok(())
    }

    /// Starts the next transaction, if there is room for it.
    fn work(&mut self) -> anyhow::Result<()> {
        let writes = matches!(&self.mode, Mode::Write(leader) if leader.is_leading());
        let may_follow = writes && self.sync.has_room();
        if !self.in_flight.is_empty() && !may_follow {
            return Ok(());
        }
        let Some(replica) = self.client.replica() else {
            return Ok(());
        };
        let operations = match &mut self.mode {
            Mode::Write(leader) if !leader.is_leading() => {
                // A standby also computes differences, and its delays run.
                self.stood_by = true;
                self.sync.next_plans(replica, now());
                None
            }
            Mode::Write(_) => {
                if std::mem::take(&mut self.stood_by) {
                    self.sync.handle(SyncEvent::DatabaseRead(replica), now());
                }
                self.sync.next_transaction(replica, now())
            }
            Mode::DryRun(dry_run) => {
                let is_probed = dry_run.is_probed();
                let probe = self.sync.probe().filter(|_| !is_probed);
                if probe.is_some() {
                    probe
                } else {
                    let plans = self.sync.next_plans(replica, now());
                    if dry_run.must_ask(&plans, now()) {
                        let names = plans.into_iter().map(|(name, _)| name);
                        Some(self.sync.ask_names(names))
                    } else {
                        let state = self.sync.state();
                        if state.is_compared && self.store_problem.is_none() {
                            dry_run
                                .print(&compare(state, replica, now()))
                                .context("cannot write the planned changes")?;
                        }
                        None
                    }
                }
            }
        };
        if let Some(operations) = operations {
            match self.client.transact(operations) {
                Some(id) => self.in_flight.push_back(id),
                None => self.sync.handle(SyncEvent::DatabaseLost, now()),
            }
        }
        Ok(())
    }

    /// When [`Writer::work`] has something to do even without an event. A time in the past must not wake the loop
    /// repeatedly while nothing can be done.
    fn next_timer(&self) -> Option<std::time::Instant> {
        let can_work = self.in_flight.is_empty() && self.client.replica().is_some();
        can_work.then(|| self.sync.next_timer()).flatten()
    }

    fn store_changed(&mut self, event: &store::Event<DnsNameResolver>) {
        match event {
            store::Event::Synced(objects) => {
                info!(objects = objects.len(), "the store was read");
                self.store_problem = None;
            }
            store::Event::OutOfSync(reason) => {
                self.store_problem = Some(reason.clone());
            }
            store::Event::Applied(_) | store::Event::Deleted(_) | store::Event::Undecodable(_) => {}
        }
        self.sync.handle(SyncEvent::Store(event), now());
    }

    fn database_changed(&mut self, event: ovsdb_replica::Event<NorthboundChanges>) {
        match event {
            ovsdb_replica::Event::Changed(changes) => {
                if let Some(replica) = self.client.replica() {
                    let event = SyncEvent::DatabaseChanged(replica, changes);
                    self.sync.handle(event, now());
                }
            }
            ovsdb_replica::Event::Ended { id, outcome } => self.transaction_ended(id, outcome),
            ovsdb_replica::Event::Up { remote, resumed } => {
                if let Some(replica) = self.client.replica() {
                    let rows = replica.0.len();
                    info!(%remote, rows, resumed, "the northbound database was read");
                    self.sync.handle(SyncEvent::DatabaseRead(replica), now());
                }
                metrics::session();
                self.database_gate
                    .not_ready("the first synchronisation is under way");
                if let Mode::DryRun(dry_run) = &mut self.mode {
                    dry_run.begin();
                }
            }
            ovsdb_replica::Event::Down {
                remote,
                was_up,
                error,
                unknown,
            } => {
                if was_up {
                    metrics::session_end("lost");
                    warn!(%remote, %error, "the session with the northbound database ended");
                } else {
                    metrics::connection_failure();
                }
                self.database_gate.not_ready(format!("{remote}: {error}"));
                self.in_flight.clear();
                for _ in unknown {
                    metrics::transaction("unknown");
                }
                self.sync.handle(SyncEvent::DatabaseLost, now());
            }
        }
    }

    fn transaction_ended(&mut self, id: TransactionId, outcome: Outcome) {
        let Some(place) = self.in_flight.iter().position(|other| *other == id) else {
            return;
        };
        self.in_flight.remove(place);
        metrics::transaction(metrics::outcome_label(&outcome));
        let Some(replica) = self.client.replica() else {
            return;
        };
        if let Mode::DryRun(_) = self.mode {
            self.sync.handle(SyncEvent::Answered(&outcome), now());
            match outcome {
                Outcome::Done(_) => {}
                // The refusal says that ovn-kubernetes manages the database.
                Outcome::Refused(refusal) => debug!(%refusal, "the server refused a query"),
                Outcome::Unknown(error) => {
                    warn!(%error, "reconnecting to the northbound database");
                    self.client.restart();
                }
            }
            return;
        }
        match self.sync.finished(place, outcome, replica, now()) {
            Finished::Done(done) => metrics::done(&done),
            Finished::Refused(refusal) => debug!(%refusal, "the server refused a transaction"),
            Finished::Managed => {
                info!(
                    "ovn-kubernetes manages the address sets: this program creates only missing sets in use"
                );
            }
            Finished::StartOver(reason) => {
                warn!(%reason, "reading the northbound database again");
                metrics::session_end("start_over");
                self.database_gate.not_ready(reason.to_string());
                match reason {
                    StartOver::Unknown(_) => self.client.restart(),
                    StartOver::ReplicaMismatch(_) => self.client.start_over(),
                }
                for _ in self.in_flight.drain(..) {
                    metrics::transaction("unknown");
                }
                self.sync.handle(SyncEvent::DatabaseLost, now());
            }
        }
    }

    fn report(&self) {
        let rows = self.client.replica().map(|replica| replica.0.len());
        let is_read = self.store_problem.is_none() && rows.is_some();
        let state = self.sync.state();
        match &self.store_problem {
            Some(problem) => self.store_gate.not_ready(problem.clone()),
            None => self.store_gate.ready(),
        }
        if is_read && self.sync.is_idle() {
            match self.sync.refused() {
                0 => self.database_gate.ready(),
                // One refused name must not take the pod out of service.
                _ => self
                    .database_gate
                    .impaired("not in sync: the server refuses changes; the log has the names"),
            }
        }
        let in_sync = is_read && self.sync.is_idle() && state.differences.count() == 0;
        metrics::state(&self.sync, rows, in_sync);
    }
}

/// Returns when this process begins or ceases to lead.
async fn lead_changes(mode: &mut Mode) {
    match mode {
        Mode::Write(leader) => leader.changed().await,
        Mode::DryRun(_) => pending().await,
    }
}

/// The time; tests may pause it.
fn now() -> std::time::Instant {
    Instant::now().into_std()
}

async fn until(time: Option<std::time::Instant>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use futures_util::stream;
    use runtime::store::{Event, ObjectKey};

    use super::*;
    use crate::{address_set::NORTHBOUND, desired::Filter, testing::object};

    #[tokio::test]
    async fn a_store_that_ends_at_shutdown_is_no_error_and_one_before_it_is() {
        for is_cancelled in [true, false] {
            let remotes = "unix:/nowhere/nb.sock".parse().unwrap();
            let policy = Policy::new("s", Filter::default());
            let writer = Writer::new(
                &remotes,
                ClientOptions::new(NORTHBOUND),
                policy,
                &Health::new(),
            );
            let token = CancellationToken::new();
            let end = token.clone();
            let objects = stream::poll_fn(move |_| {
                if is_cancelled {
                    end.cancel();
                }
                std::task::Poll::Ready(None)
            });
            let ended = writer.run(objects, token).await;
            assert_eq!(ended.is_ok(), is_cancelled, "{ended:?}");
        }
    }

    /// Paused time only passes while the loop is idle.
    #[test]
    fn a_past_deadline_does_not_spin_the_loop_without_a_database() {
        let (ended, end) = mpsc::channel();
        thread::spawn(move || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_all().start_paused(true).build().unwrap();
            runtime.block_on(async {
                let remotes = "unix:/nowhere/nb.sock".parse().unwrap();
                let options = ClientOptions::new(NORTHBOUND);
                let policy = Policy::new("s", Filter::default());
                let writer = Writer::new(&remotes, options, policy, &Health::new());
                let object = object("o", "www.example.com.", &[&["10.0.0.1"]]);
                let deleted = Event::Deleted(ObjectKey::of(&object));
                let events =
                    stream::iter([Event::Synced(vec![object]), deleted]).chain(stream::pending());
                let token = CancellationToken::new();
                let running = tokio::spawn(writer.run(events, token.clone()));
                // The addresses of the deleted object are held for 5 s.
                tokio::time::sleep(Duration::from_secs(60)).await;
                token.cancel();
                running.await.unwrap().unwrap();
            });
            ended.send(()).unwrap();
        });
        let patience = Duration::from_secs(30);
        end.recv_timeout(patience).expect("the loop is never idle");
    }
}
