//! The task that runs the [controller](crate::controller): events in, writes out.

use std::{pin::pin, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use futures_util::StreamExt;
use metrics::counter;
use proto::api::{DnsName, DnsNameResolver};
use runtime::{
    admin::Gate,
    clock::{Clock, Timestamp},
    cluster_cidrs::Networks,
    kube_events::{Reporter, Severity},
    leader::Leader,
    log_rate_limiter::LogRateLimiter,
    store::{Event, ObjectKey, Scope, Store},
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    controller::{Config, StatusController},
    guards::SharedGuards,
    hearing::Hearing,
    lookup::{LookupResult, Request},
    objects::{
        InspectRequest,
        publish::{Outcome, Write},
    },
    observation::Observation,
    observe::{
        LossTracker,
        names::{Index, SharedIndex},
        queue,
    },
    rules::Wanted,
};

/// Observations that are taken in before writes are computed.
const BATCH: usize = 1024;

/// For how long observations are taken in before anything else is looked at.
const SLICE: Duration = Duration::from_millis(50);

/// The same for answers that are recalled, since a rule came for their names.
const RECALL_SLICE: Duration = Duration::from_millis(5);

/// How long a reader may take with what it has in its hands.
const READER: Duration = Duration::from_millis(1);

/// Gauges are set and the wall clock is looked at this often.
const TICK: Duration = Duration::from_secs(1);

/// The wall clock and the monotonic one may drift apart by this much between two looks, and a look may come this late. More is
/// a gap: the process slept, or the clock was set.
const GAP: Duration = Duration::from_secs(5);

/// For how long an ending program writes what it still knows. A task that takes 5 s in all is aborted.
const DRAIN: Duration = Duration::from_secs(3);

/// For how long of that it takes in observations that wait: what is not written is worth nothing.
const TAKE_IN: Duration = Duration::from_secs(1);

/// What the task is fed, and what it feeds.
#[derive(Debug)]
pub struct Channels {
    /// Answers for wanted names.
    pub observations: queue::Receiver,
    /// What was lost of them.
    pub loss_tracker: LossTracker,
    /// The names in use.
    pub wanted: watch::Receiver<Wanted>,
    /// The cluster's own networks, whose addresses are refused. Nothing is written before they are first told.
    pub networks: watch::Receiver<Option<Arc<Networks>>>,
    /// What look-ups gave.
    pub rounds: mpsc::Receiver<LookupResult>,
    /// What servers said that are asked beside the others; closed if there are none.
    pub beside: mpsc::Receiver<LookupResult>,
    /// How well the DNS servers are heard.
    pub hearing: watch::Receiver<Hearing>,
    /// How many of the other collectors have a lower address.
    pub rank: watch::Receiver<usize>,
    /// Whether this collector leads.
    pub leader: Leader,
    /// Names to look up.
    pub requests: mpsc::Sender<Request>,
    /// Wanted names, for the readers.
    pub index: SharedIndex,
    /// What they and the look-ups refuse.
    pub guards: SharedGuards,
    /// What is said of objects.
    pub reporter: Reporter,
    /// What people want to know.
    pub questions: mpsc::Receiver<InspectRequest>,
}

/// What the program is not ready without.
pub struct Gates {
    /// The objects are known.
    pub objects: Gate,
    /// The store takes writes.
    pub writes: Gate,
    /// The names whose objects are kept are in rules.
    pub held: Gate,
}

/// While the store takes no writes the log says so this often.
const OUTAGE_LOG: Duration = Duration::from_secs(5);

/// After so many writes in a row that failed, the store counts as one that takes none.
const FAILED_WRITES: u32 = 3;

type Written = (ObjectKey, Write, Outcome);

struct Task<S> {
    controller: StatusController,
    store: S,
    clock: Clock,
    index: Index,
    guards: SharedGuards,
    /// The cluster's own networks were told.
    guarded: bool,
    writes: JoinSet<Written>,
    gates: Gates,
    reporter: Reporter,
    /// The objects were listed once.
    was_in_sync: bool,
    /// Writes in a row that failed.
    failed_writes: u32,
    outage: Arc<LogRateLimiter>,
    /// The wall clock and the monotonic one when they were last compared.
    looked: (Timestamp, Instant),
}

/// Owns the statuses until `shutdown`, then writes what is not written.
///
/// # Errors
/// An input ended too early, or a write panicked.
pub async fn run<S: Store>(
    config: Config,
    store: S,
    clock: Clock,
    channels: Channels,
    gates: Gates,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let mut events =
        pin!(store.watch::<DnsNameResolver>(Scope::Namespace(config.objects.namespace.clone())));
    let Channels {
        mut observations,
        loss_tracker,
        mut wanted,
        mut networks,
        mut rounds,
        mut beside,
        mut hearing,
        rank,
        mut leader,
        requests,
        index,
        guards,
        reporter,
        mut questions,
    } = channels;
    let looked = (clock.now(), Instant::now());
    let mut task = Task {
        controller: StatusController::new(config),
        store,
        clock,
        index: Index::new(index),
        guards,
        guarded: false,
        writes: JoinSet::new(),
        gates,
        reporter,
        was_in_sync: false,
        failed_writes: 0,
        outage: Arc::new(LogRateLimiter::every(OUTAGE_LOG)),
        looked,
    };
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut batch = Vec::with_capacity(BATCH);
    task.guard(&mut networks);
    let mut networks_come = true;
    loop {
        let lookup_is_due = task.controller.lookup_is_due(task.clock.now());
        let wake = task.next_wake(lookup_is_due);
        tokio::select! {
            () = shutdown.cancelled() => break,
            event = events.next() => {
                let Some(event) = event else { bail!("the watch of DNSNameResolver objects ended") };
                task.event(event);
            }
            changed = wanted.changed() => {
                if changed.is_err() {
                    // The EgressFirewalls' task has ended, and says why itself.
                    shutdown.cancelled().await;
                    break;
                }
                let now = task.clock.now();
                task.controller.want(&wanted.borrow_and_update(), now);
            }
            changed = networks.changed(), if networks_come => {
                networks_come = changed.is_ok();
                task.guard(&mut networks);
            }
            () = receive(&mut observations, &mut batch) => task.observe(&mut batch),
            missing = loss_tracker.next() => task.controller.missed(missing, task.clock.now()),
            Ok(()) = hearing.changed() => {
                let hearing = *hearing.borrow_and_update();
                task.controller.hear(hearing, task.clock.now());
            }
            () = leader.changed() => {}
            Some(round) = beside.recv() => task.controller.beside(&round, task.clock.now()),
            Some(round) = rounds.recv() => task.controller.round(&round, task.clock.now()),
            Some(request) = questions.recv() => request.answer(task.controller.inspect(), task.clock.now()),
            Some(written) = task.writes.join_next() => task.written(written)?,
            // There is room for a request now: below.
            Ok(_) = requests.reserve(), if lookup_is_due => {}
            () = sleep(wake) => {}
            _ = ticks.tick() => {
                task.controller.objects.standby.set_rank(*rank.borrow());
                task.report();
            }
        }
        // Asked each time: a lead that is not renewed ends by itself.
        task.controller.lead(leader.is_leading(), task.clock.now());
        task.advance();
        task.request(&requests);
    }
    task.drain(observations, batch).await
}

/// Waits for observations, unless there are some left.
async fn receive(observations: &mut queue::Receiver, batch: &mut Vec<Observation>) {
    if batch.is_empty() {
        observations.recv_many(batch, BATCH).await;
    }
}

impl<S: Store> Task<S> {
    fn event(&mut self, event: Event<DnsNameResolver>) {
        match &event {
            Event::Synced(_) => {
                self.was_in_sync = true;
                self.gates.objects.ready();
            }
            // A 503 takes every collector out of its Service, and CoreDNS loses its readers.
            Event::OutOfSync(reason) if self.was_in_sync => {
                let words =
                    format!("they cannot be read, and what was known of them holds: {reason}");
                self.gates.objects.impaired(words);
            }
            Event::OutOfSync(reason) => self.gates.objects.not_ready(reason),
            Event::Applied(_) | Event::Deleted(_) | Event::Undecodable(_) => {}
        }
        self.controller.event(event, self.clock.now());
    }

    fn guard(&mut self, networks: &mut watch::Receiver<Option<Arc<Networks>>>) {
        if let Some(networks) = networks.borrow_and_update().clone() {
            let guards = self.controller.names.guard(networks, self.clock.now());
            self.guards.store(Arc::new(guards));
            self.guarded = true;
        }
    }

    fn report(&mut self) {
        let now = self.clock.now();
        self.controller.report(now);
        match self.controller.in_use.held(now) {
            (0, _) => self.gates.held.ready(),
            (count, some) => {
                let words = held_in_words(count, &some);
                self.gates.held.impaired_with_count(words);
            }
        }
        let reporter = &self.reporter;
        self.controller.tell_evictions(now, |told| {
            reporter.report(told.about, Severity::Warning, told.reason, told.note)
        });
    }

    /// Takes observations in, for [`SLICE`]. The others stay in the batch: where each evicts a name, all of them take seconds on a
    /// busy machine, and the end and the lead would wait as long.
    fn observe(&mut self, batch: &mut Vec<Observation>) {
        let (now, began) = (self.clock.now(), Instant::now());
        let mut taken = 0;
        for observation in batch.iter_mut() {
            // The clock may have been set back since it was read.
            observation.at = observation.at.min(now);
            self.controller.observe(observation);
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
            Outcome::Failed(_) => {
                self.failed_writes = self.failed_writes.saturating_add(1);
                if self.failed_writes == FAILED_WRITES {
                    // One tenant may bring this about, with names that the store is slow to take.
                    self.gates
                        .writes
                        .impaired("the store takes no writes: the log has the reason");
                }
            }
            Outcome::Refused | Outcome::TooLarge => {}
            Outcome::Stored(_) | Outcome::Stale(_) | Outcome::Gone => {
                self.failed_writes = 0;
                self.gates.writes.ready();
            }
        }
        self.controller
            .written(&key, &write, outcome, self.clock.now());
        Ok(())
    }

    /// Starts what there is to write, and shows the readers which names are wanted.
    fn advance(&mut self) {
        let now = self.clock.now();
        self.look_for_a_gap(now);
        self.controller.tick(now);
        self.show_index();
        // What a reader holds against an index before that is remembered, and no observation.
        if self.index.is_the_only_one() {
            self.controller.recall(now, RECALL_SLICE);
        }
        let writes = match self.guarded {
            true => self.controller.writes(now),
            false => Vec::new(),
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
        if let Some(index) = self.controller.take_index() {
            self.index.replace(index);
        }
    }

    /// Hands out the names whose time has come, as far as there is room for them.
    fn request(&mut self, requests: &mpsc::Sender<Request>) {
        while let Ok(permit) = requests.try_reserve() {
            let Some(request) = self.controller.next_request(self.clock.now()) else {
                break;
            };
            permit.send(request);
        }
    }

    fn look_for_a_gap(&mut self, now: Timestamp) {
        let (wall, monotonic) = std::mem::replace(&mut self.looked, (now, Instant::now()));
        let passed = monotonic.elapsed();
        let drift = drift(wall, passed, now);
        if drift > GAP || passed > GAP {
            warn!(
                ?passed,
                ?drift,
                "a pause, or a step of the clock: names are looked up again before addresses are removed"
            );
            counter!("collector_clock_gaps_total").increment(1);
            self.controller.gap(now);
        }
    }

    /// A wall clock cannot be waited on: it may be set. So at most a second at a time. A look-up that is due waits for room
    /// and not for a time.
    fn next_wake(&mut self, lookup_is_due: bool) -> Duration {
        let next = if lookup_is_due {
            self.controller.names.wakes.next()
        } else {
            self.controller.next_wake()
        };
        let recall = self.controller.names.newly_wanted.recalls().then_some(
            match self.index.is_the_only_one() {
                true => Duration::ZERO,
                false => READER,
            },
        );
        let wait = next.map_or(TICK, |at| at.since(self.clock.now()).min(TICK));
        recall.map_or(wait, |recall| recall.min(wait))
    }

    /// The readers have ended, or are about to: takes their last observations, and writes until all is written.
    async fn drain(
        mut self,
        mut observations: queue::Receiver,
        mut batch: Vec<Observation>,
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        let deadline = began + DRAIN;
        // A queue that is long is always ready: then there is no waiting that could take too long.
        while began.elapsed() < TAKE_IN
            && let Ok(()) =
                timeout_at(began + TAKE_IN, receive(&mut observations, &mut batch)).await
            && !batch.is_empty()
        {
            self.observe(&mut batch);
        }
        self.controller.end();
        self.advance();
        while !self.controller.inspect().is_settled() {
            match timeout_at(deadline, self.writes.join_next()).await {
                // Where one write after the other is ready there is no waiting that could take too long.
                Ok(Some(written)) if began.elapsed() < DRAIN => self.written(written)?,
                // What is left waits for a retry that will not come any more.
                Ok(None) => {
                    warn!("ending without what the store refused");
                    return Ok(());
                }
                Ok(Some(_)) | Err(_) => {
                    warn!(writes = self.writes.len(), "ending with writes under way");
                    return Ok(());
                }
            }
            self.advance();
        }
        match self.controller.inspect().unwritten() {
            0 => info!("statuses are written"),
            names => warn!(names, "ending without what the store did not take"),
        }
        Ok(())
    }
}

fn held_in_words(count: usize, some: &[DnsName]) -> String {
    let some: Vec<_> = some.iter().map(DnsName::as_str).collect();
    format!(
        "{count} names are held that no EgressFirewall has any more, such as {}: too many went at once, or an EgressFirewall \
         cannot be read",
        some.join(", ")
    )
}

/// How far the wall clock is from where it should be, so long after it showed `before`.
fn drift(before: Timestamp, passed: Duration, now: Timestamp) -> Duration {
    let expected = before + passed;
    now.since(expected).max(expected.since(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_is_a_gap_in_either_direction_and_one_that_goes_is_none() {
        let at = |seconds: i64| Timestamp::from_millis(1_800_000_000_000 + seconds * 1000);
        let second = Duration::from_secs(1);
        for (now, is_gap) in [
            (1, false),
            (0, false),
            (5, false),
            (-4, false),
            (7, true),
            (-5, true),
            (3601, true),
            (-3599, true),
        ] {
            assert_eq!(drift(at(0), second, at(now)) > GAP, is_gap, "{now}");
        }
        assert_eq!(drift(at(0), 3600 * second, at(3600)), Duration::ZERO);
    }
}
