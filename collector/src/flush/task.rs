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
    task::{AbortHandle, JoinSet},
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    plan::{BlockState, Collectors, Config, Notice, Plan, Probe},
    probe::Template,
    prober::{IN_FLIGHT, ProbeAnswer, Prober},
    streams::Told,
    view::{self, BlockView},
};
use crate::{
    query_origin::OwnQueries,
    rules::{BySource, Wanted},
};

/// The interval of publishing the states.
const SHOW: Duration = Duration::from_secs(1);

/// The most answers that wait.
const ANSWERS: usize = 1_024;

#[derive(Debug)]
pub struct Inputs {
    pub servers: watch::Receiver<BTreeSet<SocketAddr>>,
    pub wanted: watch::Receiver<BySource<Wanted>>,
    /// The source addresses of the other collectors' queries.
    pub collectors: watch::Receiver<Collectors>,
    /// The reports of the readers.
    pub told: Told,
}

/// Probes until the token is cancelled. `names`: the queries, in the order of the configured names.
/// `blocks` gets the states.
///
/// # Errors
/// A task of its own panicked.
pub async fn run(
    config: Config,
    names: Arc<[Template]>,
    mut inputs: Inputs,
    blocks: watch::Sender<Arc<Vec<BlockView>>>,
    own: OwnQueries,
    token: CancellationToken,
) -> anyhow::Result<()> {
    let (answers, mut answered) = mpsc::channel(ANSWERS);
    let mut task = Task {
        plan: Plan::new(config, Instant::now()),
        probers: BTreeMap::new(),
        running: JoinSet::new(),
        names,
        own,
        answers,
        blocks,
        blind: Series::of(&super::DNS_BLOCK_BLIND),
    };
    let mut ticks = interval(SHOW);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first values count as changes too.
    inputs.servers.mark_changed();
    inputs.wanted.mark_changed();
    inputs.collectors.mark_changed();
    inputs.told.open.mark_changed();
    let mut next = None;
    loop {
        tokio::select! {
            () = token.cancelled() => return Ok(()),
            Ok(()) = inputs.servers.changed() => {
                let servers = inputs.servers.borrow_and_update().clone();
                task.set_servers(&servers);
            }
            Ok(()) = inputs.wanted.changed() => {
                let is_wanted = !inputs.wanted.borrow_and_update().is_empty();
                task.plan.is_wanted = is_wanted;
            }
            Ok(()) = inputs.collectors.changed() => {
                let collectors = Arc::clone(&inputs.collectors.borrow_and_update());
                task.plan.collectors = collectors;
            }
            Ok(()) = inputs.told.open.changed() => {
                let open = Arc::clone(&inputs.told.open.borrow_and_update());
                task.plan.set_open(open);
            }
            Some(seen) = inputs.told.seen.recv() => {
                if let Some(delay) = task.plan.seen(&seen, Instant::now()) {
                    histogram!("egress_collector_flush_delay_seconds").record(delay);
                }
            }
            Some(ProbeAnswer { probe, rcode }) = answered.recv() => {
                task.plan.answered(&probe, rcode, Instant::now());
            }
            Some(ended) = task.running.join_next(), if !task.running.is_empty() => {
                match ended {
                    Err(error) if !error.is_cancelled() => bail!("a prober failed: {error}"),
                    _ => {}
                }
            }
            _ = ticks.tick() => task.show(),
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
        next = task.turn();
    }
}

struct Task {
    plan: Plan,
    probers: BTreeMap<SocketAddr, (mpsc::Sender<Probe>, AbortHandle)>,
    running: JoinSet<()>,
    names: Arc<[Template]>,
    own: OwnQueries,
    answers: mpsc::Sender<ProbeAnswer>,
    blocks: watch::Sender<Arc<Vec<BlockView>>>,
    blind: Series,
}

impl Task {
    fn set_servers(&mut self, servers: &BTreeSet<SocketAddr>) {
        self.plan.set_servers(servers);
        self.probers.retain(|server, (_, prober)| {
            let stays = servers.contains(server);
            if !stays {
                prober.abort();
            }
            stays
        });
    }

    /// Sends the due probes. Returns the time of the next call.
    fn turn(&mut self) -> Option<Instant> {
        let (probes, next) = self.plan.due(Instant::now());
        for probe in probes {
            match self.prober(probe.server).try_send(probe) {
                Ok(()) => counter!("egress_collector_flush_probes_total").increment(1),
                Err(_) => counter!("egress_collector_flush_probes_skipped_total").increment(1),
            }
        }
        for notice in self.plan.take_notices() {
            self.say(notice);
        }
        next
    }

    fn prober(&mut self, server: SocketAddr) -> &mpsc::Sender<Probe> {
        let start = || {
            let (sender, probes) = mpsc::channel(IN_FLIGHT);
            let prober = Prober {
                server,
                names: Arc::clone(&self.names),
                own: self.own.clone(),
                probes,
                answers: self.answers.clone(),
            };
            (sender, self.running.spawn(prober.run()))
        };
        &self.probers.entry(server).or_insert_with(start).0
    }

    fn say(&self, notice: Notice) {
        let (Notice::Forwards(key) | Notice::NotReporting(key) | Notice::Reporting(key)) = notice;
        let Some((server, name)) = self.plan.block(key) else {
            return;
        };
        match notice {
            Notice::Forwards(_) => warn!(
                %server, %name,
                "the DNS server forwards the flush probe: it gets no more of them, and its stream may be a second late. \
                 Give a name that it answers by itself (--flush-name)"
            ),
            Notice::NotReporting(_) => warn!(
                %server, %name,
                "a DNS server does not stream to this collector: no probe came back for 30 s, so its answers are missing; check its `dnstap` line"
            ),
            Notice::Reporting(_) => {
                info!(%server, %name, "the DNS server streams again, or is no longer in use");
            }
        }
    }

    fn show(&mut self) {
        let blocks = view::view(&self.plan, Instant::now());
        gauge!("egress_collector_flush_interval_seconds").set(self.plan.interval());
        for state in BlockState::WORDS {
            let those = blocks.iter().filter(|it| it.state.as_str() == *state);
            gauge!("egress_collector_dns_blocks", "state" => *state).set(those.count() as f64);
        }
        self.blind.replace(blocks.iter().map(|block| {
            let is_blind = block.state == BlockState::NotReporting;
            let labels = [block.server.to_string(), block.name.clone()];
            (labels, f64::from(u8::from(is_blind)))
        }));
        self.blocks.send_replace(Arc::new(blocks));
    }
}
