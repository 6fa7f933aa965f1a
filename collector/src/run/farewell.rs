//! The end of the program, in an order that costs CoreDNS the least.
//!
//! What CoreDNS had not flushed when its reader goes is lost, and it dials again once at once and then only every ten seconds. So
//! nobody may be sent here any more when the streams are closed; and where CoreDNS streams to two collectors, they close theirs
//! one after the other, with time for CoreDNS to come back in between.

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

/// What is held by who closes its streams.
const LEASE: &str = "collector-closing";

/// How long a DNS server may take to be back elsewhere: it dials every ten seconds.
const REDIAL: Duration = Duration::from_secs(12);

/// What is to be done around the end of the tasks.
pub(super) struct Farewell {
    args: ShutdownArgs,
    turn: Option<Leadership>,
    gate: Gate,
}

/// It is the turn of this process to close its streams. It lasts until this is given back.
pub(super) struct Turn {
    contest: JoinSet<anyhow::Result<()>>,
    token: CancellationToken,
    leader: Leader,
}

impl Farewell {
    /// `gate` holds until the end begins.
    pub(super) fn new(args: ShutdownArgs, store: &OpenStore, namespace: &str, gate: Gate) -> Self {
        gate.ready();
        let has_turns = !args.shutdown_turn.is_zero();
        let turn = has_turns.then(|| Leadership::of(store, namespace, LEASE).unseen());
        Self { args, turn, gate }
    }

    /// Ends when the streams may be closed.
    pub(super) async fn before(self) -> Option<Turn> {
        self.gate.not_ready("it is about to end");
        sleep(self.args.shutdown_delay).await;
        let mut turn = Turn::contend(self.turn?);
        let came = timeout(self.args.shutdown_turn, turn.comes()).await;
        if came.is_err() {
            warn!(
                "others are closing their streams, or the Lease {LEASE} cannot be had: closing ours"
            );
        }
        Some(turn)
    }

    /// Ends when others may close theirs.
    pub(super) async fn after(turn: Option<Turn>) {
        if let Some(turn) = turn {
            turn.give_back().await;
        }
    }
}

impl Turn {
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
        info!("closing the streams");
    }

    async fn give_back(mut self) {
        if self.leader.is_leading() {
            sleep(REDIAL).await;
        }
        self.token.cancel();
        while self.contest.join_next().await.is_some() {}
    }
}
