//! The collector's own look-ups: names in, the answers of the DNS servers out.
//!
//! A and AAAA are queried separately and at the same time. Queries use UDP, then TCP if the answer
//! does not fit. One server cannot delay the names of another: each has a limit of queries in
//! flight, and a silent server is skipped while others answer.

mod exchange;
mod fan_out;
mod pool;
mod result;
pub mod servers;
mod sockets;

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use metrics::{counter, gauge, histogram};
use names::{Failure, LookupResult, Request, schedule::CONCURRENCY};
use runtime::{clock::Clock, metrics::Label};
use tokio::{
    sync::{mpsc, watch},
    task::{JoinError, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::debug;

pub use self::servers::{ResolvConf, ResolverSpec, Servers, servers_of_host};
pub(crate) use self::sockets::failure_of;
use self::{exchange::Exchange, pool::Pool};
use crate::matching::query_origin::OwnQueries;

/// The limits of look-ups.
#[derive(Clone, Debug)]
pub struct Config {
    /// Queries in flight to one server, at least 1. A name takes two, A and AAAA.
    pub per_server: usize,
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
}

impl Default for Config {
    fn default() -> Self {
        Self {
            // One server can take all look-ups.
            per_server: 2 * CONCURRENCY,
            resend: Duration::from_millis(200),
            silence: Duration::from_millis(400),
            impatient: Duration::from_millis(500),
            timeout: Duration::from_secs(2),
            remaining_wait: Duration::from_millis(1500),
            total: Duration::from_secs(5),
        }
    }
}

/// Looks up each requested name once and sends the results, in the order in which they end. A look-up
/// counts as running until there is room for its result. A name is requested again only after its
/// result. `own` records every socket.
///
/// Look-ups wait for the first list of `servers`; an empty list fails them all. If its channel closes,
/// the last list stays.
///
/// Runs until `shutdown`, which aborts running look-ups.
///
/// # Errors
/// A look-up panicked.
pub async fn run(
    config: Config,
    servers: watch::Receiver<Servers>,
    requests: mpsc::Receiver<Request>,
    results: mpsc::Sender<LookupResult>,
    clock: Clock,
    own: OwnQueries,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let resolver = Resolver {
        exchange: Exchange::new(config, own),
        clock,
        results,
    };
    let run = resolver.run(servers, requests, &shutdown);
    shutdown.run_until_cancelled(run).await.unwrap_or(Ok(()))
}

struct Resolver {
    exchange: Exchange,
    clock: Clock,
    results: mpsc::Sender<LookupResult>,
}

impl Resolver {
    async fn run(
        self,
        mut servers: watch::Receiver<Servers>,
        mut requests: mpsc::Receiver<Request>,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<()> {
        let this = Arc::new(self);
        let mut can_change = true;
        // Names wait for the first list of servers: its absence is no failure of theirs.
        let mut is_listed = servers.has_changed().unwrap_or(true);
        let mut pool = Arc::new(this.pool(&Pool::default(), &mut servers));
        is_listed |= pool.count().0 > 0;
        let mut lookups = JoinSet::new();
        loop {
            gauge!("egress_collector_lookups_in_flight").set(lookups.len() as f64);
            tokio::select! {
                changed = servers.changed(), if can_change => {
                    can_change = changed.is_ok();
                    is_listed = true;
                    pool = Arc::new(this.pool(&pool, &mut servers));
                }
                Some(ended) = lookups.join_next() => check(ended)?,
                request = requests.recv(), if is_listed => {
                    let Some(request) = request else { break };
                    pool.report();
                    let (this, pool) = (Arc::clone(&this), Arc::clone(&pool));
                    lookups.spawn(async move { this.look_up(request, &pool).await });
                }
            }
        }
        // The publisher has ended, and reports the reason itself. Running look-ups end too.
        while let Some(ended) = lookups.join_next().await {
            check(ended)?;
        }
        shutdown.cancelled().await;
        Ok(())
    }

    fn pool(&self, old: &Pool, servers: &mut watch::Receiver<Servers>) -> Pool {
        let servers = Arc::clone(&servers.borrow_and_update());
        let pool = old.with(&servers, self.exchange.config.per_server.max(1));
        pool.report();
        pool
    }

    async fn look_up(&self, request: Request, pool: &Pool) {
        let began = Instant::now();
        let late = self.clock.now().since(request.due);
        histogram!("egress_collector_lookup_lateness_seconds").record(late);
        let result = fan_out::look_up(request, &self.exchange, pool, &self.clock).await;
        counter!("egress_collector_lookups_total", "outcome" => outcome(&result)).increment(1);
        histogram!("egress_collector_lookup_duration_seconds").record(began.elapsed());
        if let Some(failure) = result.failed() {
            counter!("egress_collector_lookup_failures_total", "reason" => failure.label())
                .increment(1);
            debug!(name = %result.name, %failure, "look-up failed");
        }
        // The send fails if the publisher has ended, which reports the reason itself.
        let _ = self.results.send(result).await;
    }
}

fn check<T>(ended: Result<T, JoinError>) -> anyhow::Result<T> {
    ended.context("a look-up failed")
}

/// The value of the label `outcome`.
fn outcome(result: &LookupResult) -> &'static str {
    match result.failed() {
        Some(_) => "failed",
        None if result.v4.has_addresses() || result.v6.has_addresses() => "addresses",
        None => "no_data",
    }
}

const TRANSPORT: Label = Label::one_of("transport", &["udp", "tcp"]);

const REASON: Label = Label::one_of("reason", Failure::LABELS);

runtime::metrics! {
    pub const METRICS;

    counter "egress_collector_lookups_total" [Label::one_of("outcome", &["addresses", "no_data", "failed"])]
        "Look-ups of names, A and AAAA together. `no_data`: NOERROR without an address. `failed`: no server answered NOERROR, neither for IPv4 nor for IPv6; NXDOMAIN counts here";
    counter "egress_collector_lookup_failures_total" [REASON] "Look-ups that failed: no server answered NOERROR, neither for IPv4 nor for IPv6. Most reasons are response codes; NXDOMAIN is normal for names that do not exist. `Timeout`: no server answered. `Network`: no server could be reached. `BadReply`: the answer cannot be decoded. `NoServer`: the collector knows no DNS server";
    histogram "egress_collector_lookup_lateness_seconds"
        "Delay of look-ups: from the time due to the start; due is an address's expiry plus up to a second of jitter";
    histogram "egress_collector_lookup_duration_seconds" "From a look-up's first query to its end";
    gauge "egress_collector_lookups_in_flight" "Look-ups in progress";
    counter "egress_collector_lookup_queries_total" [TRANSPORT] "Queries sent, including datagrams sent again";
    counter "egress_collector_lookup_query_failures_total" [Label::one_of("reason", &["Timeout", "Network", "BadReply"])] "Queries without an answer that can be decoded. `Timeout`: the server did not answer in time. `Network`: the server cannot be reached. `BadReply`: the answer cannot be decoded. Answers with a response code such as SERVFAIL do not count here";
    histogram "egress_collector_lookup_query_duration_seconds" [TRANSPORT] "From a query to its answer";
    counter "egress_collector_lookup_truncated_total" "Truncated answers over UDP, whose query was repeated over TCP";
    gauge "egress_collector_lookup_servers" "DNS servers that look-ups may query";
    gauge "egress_collector_lookup_servers_silent" "DNS servers that did not answer the last queries; look-ups use the others";
}

#[cfg(test)]
mod tests;
