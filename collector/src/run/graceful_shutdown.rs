//! Shutdown, in the order that costs CoreDNS the least.
//!
//! When a reader disconnects, CoreDNS loses the events that it has not flushed. It dials again once
//! at once, and then only every ten seconds. So the Service must have stopped routing to this pod
//! before the streams are closed. If CoreDNS streams to two collectors, they close their streams
//! one after the other, with time for CoreDNS to reconnect in between.

use std::time::Duration;

use runtime::{
    OpenStore,
    admin::Gate,
    leader::{Leader, Leadership},
};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::args::ShutdownArgs;

/// The Lease that a collector holds while it closes its streams.
const LEASE: &str = "collector-closing";

/// How long a DNS server may take to reconnect: it dials every ten seconds.
const REDIAL: Duration = Duration::from_secs(12);

/// The steps before and after the end of the tasks.
pub(super) struct GracefulShutdown {
    args: ShutdownArgs,
    turn: Option<Leadership>,
    gate: Gate,
}

/// The turn of this process to close its streams, until it is dropped.
pub(super) struct ClosingTurn {
    contest: JoinSet<anyhow::Result<()>>,
    token: CancellationToken,
    leader: Leader,
}

impl GracefulShutdown {
    /// `gate` is ready until shutdown begins.
    pub(super) fn new(args: ShutdownArgs, store: &OpenStore, namespace: &str, gate: Gate) -> Self {
        gate.ready();
        let has_turns = !args.shutdown_turn.is_zero();
        let turn = has_turns.then(|| Leadership::of(store, namespace, LEASE).unseen());
        Self { args, turn, gate }
    }

    /// Returns when the streams may be closed.
    pub(super) async fn before(self) -> Option<ClosingTurn> {
        self.gate.not_ready("the program is shutting down");
        sleep(self.args.shutdown_delay).await;
        let mut turn = ClosingTurn::contend(self.turn?);
        let came = timeout(self.args.shutdown_turn, turn.comes()).await;
        if came.is_err() {
            warn!(
                "shutdown: closing the dnstap streams without the Lease {LEASE}: another collector holds it, or it cannot be acquired"
            );
        }
        Some(turn)
    }

    /// Returns when others may close theirs.
    pub(super) async fn after(turn: Option<ClosingTurn>) {
        if let Some(turn) = turn {
            turn.give_back().await;
        }
    }
}

impl ClosingTurn {
    fn contend(leadership: Leadership) -> Self {
        let token = CancellationToken::new();
        let leader = leadership.leader();
        let mut contest = JoinSet::new();
        contest.spawn(leadership.run(token.clone()));
        Self {
            contest,
            token,
            leader,
        }
    }

    async fn comes(&mut self) {
        while !self.leader.is_leading() {
            self.leader.changed().await;
        }
        info!("shutdown: closing the dnstap streams");
    }

    async fn give_back(mut self) {
        if self.leader.is_leading() {
            sleep(REDIAL).await;
        }
        self.token.cancel();
        while self.contest.join_next().await.is_some() {}
    }
}
