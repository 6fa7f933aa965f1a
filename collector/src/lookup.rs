//! The collector's own look-ups: names in, the answers of the DNS servers out.
//!
//! A and AAAA are queried separately and at the same time. Queries use UDP, then TCP if the answer
//! does not fit. One server cannot delay the names of another: each has a limit of queries in
//! flight, and a silent server is skipped while others answer.

mod ask;
mod exchange;
pub mod metrics;
mod pool;
mod provider;
mod result;
pub mod servers;
mod spec;
mod tcp;

use std::{sync::Arc, time::Duration};

use ::metrics::{counter, gauge, histogram};
use anyhow::Context;
use names::{LookupResult, Request, schedule::CONCURRENCY};
use proto::api::DnsName;
use runtime::clock::Clock;
use tokio::{
    sync::{mpsc, watch},
    task::{JoinError, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use self::{exchange::Exchange, pool::Pool};
pub use self::{
    servers::{ResolvConf, Server, Servers},
    spec::ResolverSpec,
};
use crate::{
    matching::{guards::SharedGuards, query_origin::OwnQueries},
    rules::notices::Rebindings,
};

/// The limits of look-ups.
#[derive(Clone, Debug)]
pub struct Config {
    /// Queries in flight to one server, at least 1. A name takes two, A and AAAA.
    pub per_server: usize,
    /// Servers queried for a name with two or more known addresses. Each server may have its own
    /// upstream, or its own position in a rotation, so one may give addresses that another does
    /// not.
    pub fanout: usize,
    /// A datagram without an answer is sent again after this time.
    pub resend: Duration,
    /// A server that answers nothing for this long is silent. Less than `impatient`, so that a look-up
    /// moves to another server in its time.
    pub silence: Duration,
    /// The longest time of a look-up that is not patient.
    pub impatient: Duration,
    /// The time that one server has for one query.
    pub timeout: Duration,
    /// How long a look-up continues after the first NOERROR, for the other family and for other
    /// servers. More than `resend`, so that one lost datagram loses no answer.
    pub remaining_wait: Duration,
    /// The longest time of a patient look-up, from its first query.
    pub total: Duration,
    /// Reports answers with refused addresses to the authors of rules.
    pub rebindings: Rebindings,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            // One server can take all look-ups.
            per_server: 2 * CONCURRENCY,
            fanout: 5,
            resend: Duration::from_millis(200),
            silence: Duration::from_millis(400),
            impatient: Duration::from_millis(500),
            timeout: Duration::from_secs(2),
            remaining_wait: Duration::from_millis(1500),
            total: Duration::from_secs(5),
            rebindings: Rebindings::default(),
        }
    }
}

/// The inputs of the task.
#[derive(Debug)]
pub struct Inputs {
    /// The servers to query. Look-ups wait for the first list; an empty list fails them all. If the
    /// channel closes, the last list stays.
    pub servers: watch::Receiver<Servers>,
    /// The names to look up. A name comes again only after its result.
    pub requests: mpsc::Receiver<Request>,
}

/// Looks up each requested name once and sends the results into `rounds`, in the order in which
/// they end. A look-up counts as running until `rounds` has room for its result. `own` records
/// every socket.
///
/// Runs until `shutdown`, which aborts running look-ups.
///
/// # Errors
/// A look-up panicked.
pub async fn run(
    config: Config,
    inputs: Inputs,
    rounds: mpsc::Sender<LookupResult>,
    guards: SharedGuards,
    clock: Clock,
    own: OwnQueries,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let resolver = Resolver {
        exchange: Exchange::new(config.clone(), guards, own),
        config,
        clock,
        rounds,
    };
    let run = resolver.run(inputs, &shutdown);
    shutdown.run_until_cancelled(run).await.unwrap_or(Ok(()))
}

struct Resolver {
    exchange: Exchange,
    config: Config,
    clock: Clock,
    rounds: mpsc::Sender<LookupResult>,
}

impl Resolver {
    async fn run(self, mut inputs: Inputs, shutdown: &CancellationToken) -> anyhow::Result<()> {
        let this = Arc::new(self);
        let mut lists_come = true;
        // Names wait for the first list of servers: its absence is no failure of theirs.
        let mut listed = inputs.servers.has_changed().unwrap_or(true);
        let mut pool = Arc::new(this.pool(&Pool::default(), &mut inputs));
        listed |= pool.count().0 > 0;
        let (mut rounds, mut retries) = (JoinSet::new(), JoinSet::new());
        loop {
            gauge!("egress_collector_lookups_in_flight").set(rounds.len() as f64);
            tokio::select! {
                changed = inputs.servers.changed(), if lists_come => {
                    lists_come = changed.is_ok();
                    listed = true;
                    pool = Arc::new(this.pool(&pool, &mut inputs));
                }
                Some(ended) = rounds.join_next() => check(ended)?,
                Some(ended) = retries.join_next() => check(ended)?,
                request = inputs.requests.recv(), if listed => {
                    let Some(request) = request else { break };
                    this.retry_silent(&pool, &request.name, &mut retries);
                    let (this, pool) = (Arc::clone(&this), Arc::clone(&pool));
                    rounds.spawn(async move { this.result(request, &pool).await });
                }
            }
        }
        // The controller has ended, and reports the reason itself. Running look-ups end too.
        while let Some(ended) = rounds.join_next().await {
            check(ended)?;
        }
        shutdown.cancelled().await;
        Ok(())
    }

    fn pool(&self, old: &Pool, inputs: &mut Inputs) -> Pool {
        let servers = Arc::clone(&inputs.servers.borrow_and_update());
        let pool = old.with(&servers, self.config.per_server.max(1));
        pool.show();
        pool
    }

    async fn result(&self, request: Request, pool: &Pool) {
        let began = Instant::now();
        let late = self.clock.now().since(request.due);
        histogram!("egress_collector_lookup_lateness_seconds").record(late);
        let result = ask::look_up(request, &self.exchange, pool, &self.config, &self.clock).await;
        counter!("egress_collector_lookups_total", "outcome" => metrics::outcome(&result))
            .increment(1);
        histogram!("egress_collector_lookup_duration_seconds").record(began.elapsed());
        if let Some(failure) = result.failed() {
            counter!("egress_collector_lookup_failures_total", "reason" => failure.label())
                .increment(1);
            debug!(name = %result.name, %failure, "look-up failed");
        }
        // The send fails if the controller has ended, which reports the reason itself.
        let _ = self.rounds.send(result).await;
    }

    /// Queries each silent server whose retry is due, beside the look-up that skips it. The result
    /// counts only as a sign of life.
    fn retry_silent(self: &Arc<Self>, pool: &Arc<Pool>, name: &DnsName, retries: &mut JoinSet<()>) {
        let (all, silent) = pool.show();
        // If all are silent, the look-ups themselves query them.
        if silent == 0 || silent == all {
            return;
        }
        for upstream in pool.take_retries(Instant::now()) {
            let (this, name) = (Arc::clone(self), name.clone());
            retries.spawn(async move { this.exchange.retry(&upstream, &name).await });
        }
    }
}

fn check<T>(ended: Result<T, JoinError>) -> anyhow::Result<T> {
    ended.context("a look-up failed")
}

#[cfg(test)]
mod tests;
