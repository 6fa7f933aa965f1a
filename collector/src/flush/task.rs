//! The flush task: it feeds the plan, and carries out its probes.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use anyhow::bail;
use metrics::{counter, gauge, histogram};
use runtime::metrics::Series;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    block::{BlockState, BlockView},
    plan::{Plan, Probe},
    probe::{SeenProbe, Template},
    prober::{ProbeAnswer, Prober},
};
use crate::matching::query_origin::OwnQueries;

/// The interval of publishing the states.
const PUBLISH: Duration = Duration::from_secs(1);

/// The most answers that wait.
const ANSWERS: usize = 1_024;

/// What the task works with.
#[derive(Debug)]
pub struct Inputs {
    /// The time between two probes of a block; not zero.
    pub interval: Duration,
    /// The queries, one for each block.
    pub templates: Arc<[Template]>,
    pub servers: watch::Receiver<BTreeSet<SocketAddr>>,
    /// The reports of the readers.
    pub seen: mpsc::Receiver<SeenProbe>,
    pub own: OwnQueries,
}

/// Probes until the token is cancelled. `blocks` gets the states.
///
/// # Errors
/// A task of its own panicked.
pub async fn run(
    mut inputs: Inputs,
    blocks: watch::Sender<Arc<Vec<BlockView>>>,
    token: CancellationToken,
) -> anyhow::Result<()> {
    let (answers, mut answered) = mpsc::channel(ANSWERS);
    let names = inputs
        .templates
        .iter()
        .map(|template| template.name().clone());
    let mut task = Task {
        plan: Plan::new(inputs.interval, names.collect()),
        probers: BTreeMap::new(),
        running: JoinSet::new(),
        templates: inputs.templates,
        own: inputs.own,
        answers,
        blocks,
        not_streaming: Series::of(&super::NOT_STREAMING),
    };
    let mut ticks = interval(PUBLISH);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first value counts as a change, too.
    inputs.servers.mark_changed();
    let mut next = Instant::now();
    loop {
        tokio::select! {
            () = token.cancelled() => return Ok(()),
            Ok(()) = inputs.servers.changed() => {
                task.set_servers(&inputs.servers.borrow_and_update());
            }
            Some(seen) = inputs.seen.recv() => {
                if let Some(delay) = task.plan.on_seen(&seen, Instant::now()) {
                    histogram!("egress_collector_flush_delay_seconds").record(delay);
                }
            }
            Some(ProbeAnswer { probe, rcode }) = answered.recv() => {
                task.plan.on_answer(&probe, rcode);
            }
            Some(ended) = task.running.join_next(), if !task.running.is_empty() => {
                if let Err(error) = ended {
                    bail!("a prober failed: {error}");
                }
            }
            _ = ticks.tick() => task.publish(),
            () = sleep_until(next) => {
                task.send_probes();
                next = Instant::now() + task.plan.interval();
            }
        }
    }
}

struct Task {
    plan: Plan,
    /// A prober ends when its sender is dropped.
    probers: BTreeMap<SocketAddr, mpsc::Sender<Vec<Probe>>>,
    running: JoinSet<()>,
    templates: Arc<[Template]>,
    own: OwnQueries,
    answers: mpsc::Sender<ProbeAnswer>,
    blocks: watch::Sender<Arc<Vec<BlockView>>>,
    not_streaming: Series,
}

impl Task {
    fn set_servers(&mut self, servers: &BTreeSet<SocketAddr>) {
        self.plan.set_servers(servers);
        self.probers.retain(|server, _| servers.contains(server));
    }

    fn send_probes(&mut self) {
        let probes = self.plan.probes(Instant::now());
        for probes in probes.chunk_by(|one, next| one.block.0 == next.block.0) {
            let Some(first) = probes.first() else {
                continue;
            };
            let metric = match self.prober(first.block.0).try_send(probes.to_vec()) {
                Ok(()) => counter!("egress_collector_flush_probes_total"),
                Err(_) => counter!("egress_collector_flush_probes_skipped_total"),
            };
            metric.increment(probes.len() as u64);
        }
    }

    fn prober(&mut self, server: SocketAddr) -> &mpsc::Sender<Vec<Probe>> {
        let start = || {
            // A server that has not taken the last probes gets no more.
            let (sender, probes) = mpsc::channel(1);
            let prober = Prober {
                server,
                templates: Arc::clone(&self.templates),
                own: self.own.clone(),
                probes,
                answers: self.answers.clone(),
            };
            self.running.spawn(prober.run());
            sender
        };
        self.probers.entry(server).or_insert_with(start)
    }

    /// Publishes the states, and logs those that changed.
    fn publish(&mut self) {
        let now = Instant::now();
        self.plan.expire(now);
        let blocks: Vec<_> = self.plan.view(now).collect();
        for state in BlockState::WORDS {
            let those = blocks.iter().filter(|block| block.state.as_str() == *state);
            gauge!("egress_collector_dns_blocks", "state" => *state).set(those.count() as f64);
        }
        self.not_streaming.replace(blocks.iter().map(|block| {
            let is_not_streaming = block.state == BlockState::NotStreaming;
            let labels = [block.server.to_string(), block.name.clone()];
            (labels, f64::from(u8::from(is_not_streaming)))
        }));
        let before = self.blocks.send_replace(Arc::new(blocks.clone()));
        let before: BTreeMap<_, _> = before
            .iter()
            .map(|block| (key(block), block.state))
            .collect();
        for block in &blocks {
            let before = before.get(&key(block)).copied().unwrap_or_default();
            if before != block.state {
                log(block, before);
            }
        }
    }
}

fn key(block: &BlockView) -> (SocketAddr, &str) {
    (block.server, &block.name)
}

fn log(block: &BlockView, before: BlockState) {
    let BlockView {
        server,
        name,
        state,
        ..
    } = block;
    match (before, state) {
        (_, BlockState::Forwards) => warn!(
            %server, %name,
            "the DNS server forwards the flush probe: it gets no more of them, and its stream may be a second late. \
             Give a name that it answers by itself (--flush-name)"
        ),
        (_, BlockState::NotStreaming) => warn!(
            %server, %name,
            "a DNS server does not stream to this collector: no probe came back for 30 s, so its answers are missing; check its `dnstap` line"
        ),
        (BlockState::NotStreaming, BlockState::Trying | BlockState::Streaming) => {
            info!(%server, %name, "the DNS server streams again");
        }
        _ => {}
    }
}
