//! The task that runs the [publisher](super::publisher): events in, writes out.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, bail};
use futures_util::StreamExt;
use metrics::counter;
use names::{LookupResult, Observation, Request};
use proto::api::DnsNameResolver;
use runtime::{
    admin::Gate,
    clock::{Clock, Timestamp},
    kube_events::Reporter,
    leader::Leader,
    log_rate_limiter::LogRateLimiter,
    store::{Event, ObjectKey, Store},
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use super::object_watch::ObjectGates;
use super::{
    Config, HeldAnswer, InspectRequest, Publisher, object_watch,
    write::{Write, WriteOutcome},
};
use crate::{
    cluster::networks::Networks,
    flush::coverage::StreamCoverage,
    matching::{LossTracker, index::SharedIndex, queue},
    rules::{RuleChanges, Source},
};

/// The most observations applied before writes are computed.
const BATCH: usize = 1024;

/// The longest time for observations before other events are handled.
const SLICE: Duration = Duration::from_millis(50);

/// The interval of setting gauges and comparing the clocks.
const TICK: Duration = Duration::from_secs(1);

/// The most by which the wall clock and the monotonic one may drift apart between two comparisons.
/// Also the most by which a comparison may be late. Beyond it, the process slept or the clock was
/// set.
const CLOCK_JUMP: Duration = Duration::from_secs(5);

/// How long an ending program writes. A task that takes 5 s in all is aborted.
const DRAIN: Duration = Duration::from_secs(3);

/// How much of that time waiting observations may take: an observation that is never written is
/// worthless.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// The inputs and outputs of the task.
#[derive(Debug)]
pub struct Channels {
    /// Answers for wanted names.
    pub observations: queue::Receiver,
    /// Answers that the forwarder holds.
    pub held: mpsc::Receiver<HeldAnswer>,
    /// The answers that were lost.
    pub loss_tracker: LossTracker,
    /// Changes of the names in use.
    pub rules: mpsc::Receiver<RuleChanges>,
    /// The cluster's own networks, whose addresses are refused. No status is written before they
    /// are known.
    pub networks: watch::Receiver<Option<Arc<Networks>>>,
    /// The results of look-ups.
    pub lookups: mpsc::Receiver<LookupResult>,
    /// Which DNS servers stream here.
    pub coverage: watch::Receiver<StreamCoverage>,
    pub leader: Leader,
    /// Names to look up.
    pub requests: mpsc::Sender<Request>,
    /// The wanted names, for the readers.
    pub index: SharedIndex,
    /// Reports Events on objects.
    pub reporter: Reporter,
    /// Requests of administrators.
    pub questions: mpsc::Receiver<InspectRequest>,
}

/// The conditions of readiness.
pub struct Gates {
    /// The objects of each source are listed.
    pub objects: ObjectGates,
    /// The store accepts writes.
    pub writes: Gate,
}

/// The interval of log lines while the store refuses writes.
const OUTAGE_LOG: Duration = Duration::from_secs(5);

/// After this many failed writes in a row, the store counts as refusing all.
const FAILED_WRITES: u32 = 3;

type Written = (ObjectKey, Write, WriteOutcome);

struct Task<S> {
    publisher: Publisher,
    store: S,
    clock: Clock,
    index: SharedIndex,
    /// The cluster's own networks are known.
    guarded: bool,
    writes: JoinSet<Written>,
    gates: Gates,
    reporter: Reporter,
    /// Failed writes in a row.
    failed_writes: u32,
    outage: Arc<LogRateLimiter>,
    /// The wall clock and the monotonic one at their last comparison.
    compared: (Timestamp, Instant),
}

/// Runs the controller until `shutdown`, then writes all changes.
///
/// # Errors
/// An input ended too early, or a write panicked.
pub async fn run<S: Store>(
    config: Config,
    store: S,
    clock: Clock,
    mut channels: Channels,
    gates: Gates,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let mut events = object_watch::events(&store, &config.objects);
    let compared = (clock.now(), Instant::now());
    let mut task = Task {
        publisher: Publisher::new(config),
        store,
        clock,
        index: channels.index,
        guarded: false,
        writes: JoinSet::new(),
        gates,
        reporter: channels.reporter,
        failed_writes: 0,
        outage: Arc::new(LogRateLimiter::every(OUTAGE_LOG)),
        compared,
    };
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut batch = Vec::with_capacity(BATCH);
    task.guard(&mut channels.networks);
    let mut networks_come = true;
    loop {
        let wake = task.next_wake();
        tokio::select! {
            () = shutdown.cancelled() => break,
            event = events.next() => {
                let Some((source, event)) = event else { bail!("the watch of DNSNameResolver objects ended") };
                task.event(source, event);
            }
            Some(changes) = channels.rules.recv() => task.publisher.apply_rules(changes, task.clock.now()),
            changed = channels.networks.changed(), if networks_come => {
                networks_come = changed.is_ok();
                task.guard(&mut channels.networks);
            }
            () = receive(&mut channels.observations, &mut batch) => task.observe(&mut batch),
            Some(answer) = channels.held.recv() => task.publisher.hold(answer, task.clock.now()),
            missing = channels.loss_tracker.next() => task.publisher.on_stream_gap(missing, task.clock.now()),
            Ok(()) = channels.coverage.changed() => {
                let coverage = *channels.coverage.borrow_and_update();
                task.publisher.set_coverage(coverage, task.clock.now());
            }
            () = channels.leader.changed() => {}
            Some(result) = channels.lookups.recv() => task.publisher.apply_lookup(result, task.clock.now()),
            Some(request) = channels.questions.recv() => request.answer(&task.publisher, task.clock.now()),
            Some(written) = task.writes.join_next() => task.written(written)?,
            () = sleep(wake) => {}
            _ = ticks.tick() => task.report(),
        }
        // Read each time: a lead that is not renewed ends by itself.
        task.publisher
            .set_leads(channels.leader.is_leading(), task.clock.now());
        task.advance();
        task.request(&channels.requests);
    }
    task.drain(channels.observations, batch).await
}

/// Waits for observations, unless there are some left.
async fn receive(observations: &mut queue::Receiver, batch: &mut Vec<Observation>) {
    if batch.is_empty() {
        observations.recv_many(batch, BATCH).await;
    }
}

impl<S: Store> Task<S> {
    fn event(&mut self, source: Source, event: Event<DnsNameResolver>) {
        self.gates.objects.show(source, &event);
        self.publisher.apply_event(source, event, self.clock.now());
    }

    fn guard(&mut self, networks: &mut watch::Receiver<Option<Arc<Networks>>>) {
        if let Some(networks) = networks.borrow_and_update().clone() {
            self.publisher.set_networks(networks);
            self.guarded = true;
        }
    }

    fn report(&mut self) {
        self.publisher.report();
        self.publisher.report_evictions(&self.reporter);
    }

    /// Applies observations for [`SLICE`]. The rest stays in the batch. If each one evicts a name,
    /// a batch takes seconds on a busy machine, which would delay shutdown and the lead.
    fn observe(&mut self, batch: &mut Vec<Observation>) {
        let (now, began) = (self.clock.now(), Instant::now());
        let mut taken = 0;
        for observation in batch.iter_mut() {
            // The clock may have been set back since it was received.
            observation.at = observation.at.min(now);
            self.publisher.apply_answer(observation);
            taken += 1;
            if began.elapsed() > SLICE {
                break;
            }
        }
        batch.drain(..taken);
    }

    fn written(&mut self, written: Result<Written, tokio::task::JoinError>) -> anyhow::Result<()> {
        let (key, write, outcome) = written.context("a write to the store failed")?;
        match outcome {
            WriteOutcome::Failed => {
                self.failed_writes = self.failed_writes.saturating_add(1);
                if self.failed_writes == FAILED_WRITES {
                    // Only impaired: one tenant may cause this, with names that the store writes
                    // slowly.
                    self.gates
                        .writes
                        .impaired("the store refuses writes: see the log for the reason");
                }
            }
            WriteOutcome::Refused | WriteOutcome::TooLarge => {}
            WriteOutcome::Stored(_) | WriteOutcome::Conflict(_) | WriteOutcome::Gone => {
                self.failed_writes = 0;
                self.gates.writes.ready();
            }
        }
        self.publisher
            .apply_written(&key, &write, outcome, self.clock.now());
        Ok(())
    }

    /// Starts the writes, and gives the readers the index of wanted names.
    fn advance(&mut self) {
        let now = self.clock.now();
        self.detect_clock_jump(now);
        self.publisher.advance(now);
        // First, since a reader with the old index still caches answers for new names.
        self.show_index();
        self.publisher.recall(now);
        let writes = if self.guarded {
            self.publisher.writes(now)
        } else {
            Vec::new()
        };
        for write in writes {
            let (store, outage) = (self.store.clone(), Arc::clone(&self.outage));
            self.writes.spawn(async move {
                let outcome = write.clone().attempt(&store, &outage).await;
                (write.key(), write, outcome)
            });
        }
        self.show_index();
    }

    fn show_index(&mut self) {
        if let Some(index) = self.publisher.take_index() {
            self.index.store(Arc::new(index));
        }
    }

    /// Sends due names to the look-ups, as far as there is room.
    fn request(&mut self, requests: &mpsc::Sender<Request>) {
        while let Ok(permit) = requests.try_reserve() {
            let Some(request) = self.publisher.next_due(self.clock.now()) else {
                break;
            };
            permit.send(request);
        }
    }

    fn detect_clock_jump(&mut self, now: Timestamp) {
        let (wall, monotonic) = std::mem::replace(&mut self.compared, (now, Instant::now()));
        let passed = monotonic.elapsed();
        let drift = drift(wall, passed, now);
        if drift > CLOCK_JUMP || passed > CLOCK_JUMP {
            warn!(
                since_last_check = ?passed,
                clock_step = ?drift,
                "the process was suspended, or the clock was set: the collector looks names up again before it removes addresses"
            );
            counter!("egress_collector_clock_gaps_total").increment(1);
            self.publisher.on_clock_jump(now);
        }
    }

    /// At most a second: the wall clock may be set, so it cannot be waited on. A due look-up waits
    /// for room and not for a time.
    fn next_wake(&self) -> Duration {
        let next = self.publisher.next_wake();
        next.map_or(TICK, |at| at.since(self.clock.now()).min(TICK))
    }

    /// The readers have ended or are about to: applies their last observations, and carries out all
    /// writes.
    async fn drain(
        mut self,
        mut observations: queue::Receiver,
        mut batch: Vec<Observation>,
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        let deadline = began + DRAIN;
        // A long queue is always ready, so the time-out alone would never fire.
        while began.elapsed() < DRAIN_TIME
            && let Ok(()) =
                timeout_at(began + DRAIN_TIME, receive(&mut observations, &mut batch)).await
            && !batch.is_empty()
        {
            self.observe(&mut batch);
        }
        self.publisher.end();
        self.advance();
        while !self.publisher.is_settled() {
            match timeout_at(deadline, self.writes.join_next()).await {
                // If the next write is always ready, the time-out alone would never fire.
                Ok(Some(written)) if began.elapsed() < DRAIN => self.written(written)?,
                // The rest waits for a retry, which the program does not live to make.
                Ok(None) => {
                    warn!(
                        "shutdown: the last status updates were not written, since the store refused them"
                    );
                    return Ok(());
                }
                Ok(Some(_)) | Err(_) => {
                    warn!(
                        writes = self.writes.len(),
                        "shutdown: the last writes did not complete in time"
                    );
                    return Ok(());
                }
            }
            self.advance();
        }
        match self.publisher.unwritten() {
            0 => info!("shutdown: all statuses are written"),
            names => warn!(
                names,
                "shutdown: the statuses of some names were not written"
            ),
        }
        Ok(())
    }
}

/// The distance of the wall clock from the expected time, `passed` after it showed `before`.
fn drift(before: Timestamp, passed: Duration, now: Timestamp) -> Duration {
    let expected = before + passed;
    now.since(expected).max(expected.since(now))
}
