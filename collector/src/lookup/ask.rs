//! One look-up: A and AAAA in parallel, at as many servers as needed.

use std::{sync::Arc, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use proto::api::Family;
use runtime::clock::Clock;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};

use super::{
    Config,
    exchange::{Exchange, LookupQuery},
    pool::{Pool, Transport, Upstream},
    result::{ServerReply, Tally},
};
use names::{Failure, LookupResult, Request};

/// The most further servers, one after the other, if the first ones gave no answer.
const MOVES: usize = 2;

/// Looks the name up. It ends when every query has an answer or has failed. After the first answer
/// it waits no longer than [`Config::remaining_wait`], so a slow server does not delay the result. It
/// ends in any case [`Config::total`] after the first query, or [`Config::impatient`] if the request
/// is not patient. Waiting for a permit of a server does
/// not count as the name's time.
pub(super) async fn look_up(
    request: Request,
    exchange: &Exchange,
    pool: &Pool,
    config: &Config,
    clock: &Clock,
) -> LookupResult {
    let (started, began) = (clock.now(), Instant::now());
    let servers = pool.shuffled();
    let mut parts = Parts::default();
    let first = servers_at_first(request.known, &servers, config);
    let questions = (
        LookupQuery::new(&request.name, Family::V4),
        LookupQuery::new(&request.name, Family::V6),
    );
    let silent = match &questions {
        (Some(v4), Some(v6)) if first > 0 => {
            let ask = Ask {
                exchange,
                pool,
                v4,
                v6,
                sending: &Notify::new(),
            };
            let longest = match request.is_patient {
                true => config.total,
                false => config.impatient.min(config.total),
            };
            let over_tcp = request.over_tcp;
            parts
                .fill(&servers, (first, over_tcp), longest, ask, config, clock)
                .await;
            Failure::Timeout
        }
        _ => Failure::NoServer,
    };
    LookupResult {
        name: request.name,
        started,
        finished: clock.now(),
        is_unresponsive: began.elapsed() >= config.impatient,
        v4: parts.v4.tally.finish(silent),
        v6: parts.v6.tally.finish(silent),
    }
}

/// The number of servers for the first queries. Silent servers are skipped, unless all are silent.
fn servers_at_first(known: usize, servers: &[Arc<Upstream>], config: &Config) -> usize {
    let wanted = if known < 2 {
        servers.len().min(1)
    } else {
        config.fanout.min(servers.len())
    };
    match servers.iter().filter(|server| !server.is_silent()).count() {
        0 => wanted,
        answering => wanted.min(answering),
    }
}

/// A query in flight.
struct QueryInFlight {
    family: Family,
    server: Arc<Upstream>,
    transport: Transport,
}

impl QueryInFlight {
    fn new(family: Family, server: &Arc<Upstream>) -> Self {
        Self {
            family,
            server: Arc::clone(server),
            transport: server.transport(),
        }
    }
}

/// Sends the queries of a look-up.
#[derive(Clone, Copy)]
struct Ask<'a> {
    exchange: &'a Exchange,
    pool: &'a Pool,
    v4: &'a LookupQuery,
    v6: &'a LookupQuery,
    /// Notified when a query is sent.
    sending: &'a Notify,
}

impl Ask<'_> {
    async fn send(self, asked: QueryInFlight) -> (QueryInFlight, Result<ServerReply, Failure>) {
        let question = match asked.family {
            Family::V4 => self.v4,
            Family::V6 => self.v6,
        };
        let reply = self
            .exchange
            .ask(
                self.pool,
                &asked.server,
                asked.transport,
                question,
                self.sending,
            )
            .await;
        (asked, reply)
    }
}

/// The queries of one family.
#[derive(Default)]
struct Part {
    tally: Tally,
    /// Queries in flight.
    open: usize,
    /// The number of further servers so far.
    moves: usize,
}

#[derive(Default)]
struct Parts {
    v4: Part,
    v6: Part,
}

impl Parts {
    fn of(&mut self, family: Family) -> &mut Part {
        match family {
            Family::V4 => &mut self.v4,
            Family::V6 => &mut self.v6,
        }
    }

    /// Queries the `first` servers, over TCP too if requested, and further servers as needed.
    async fn fill(
        &mut self,
        servers: &[Arc<Upstream>],
        (first, tcp_too): (usize, bool),
        longest: Duration,
        ask: Ask<'_>,
        config: &Config,
        clock: &Clock,
    ) {
        let over = async {
            ask.sending.notified().await;
            sleep(longest).await;
        };
        tokio::pin!(over);
        let mut enough: Option<Instant> = None;
        let mut under_way = FuturesUnordered::new();
        for server in servers.iter().take(first) {
            for family in Family::ALL {
                let asked = QueryInFlight::new(family, server);
                if tcp_too && asked.transport == Transport::Udp {
                    self.of(family).open += 1;
                    under_way.push(ask.send(over_tcp(QueryInFlight::new(family, server))));
                }
                self.of(family).open += 1;
                under_way.push(ask.send(asked));
            }
        }
        loop {
            let (asked, reply) = tokio::select! {
                answered = under_way.next() => match answered {
                    Some(answered) => answered,
                    None => break,
                },
                () = &mut over => break,
                () = sleep_until(enough.unwrap_or_else(Instant::now)), if enough.is_some() => break,
            };
            let part = self.of(asked.family);
            part.open -= 1;
            let next = part.take(asked, reply, servers, first, clock);
            if let Some(next) = next {
                part.open += 1;
                under_way.push(ask.send(next));
            }
            if part.tally.noerror() {
                enough.get_or_insert_with(|| Instant::now() + config.remaining_wait);
            }
        }
    }
}

impl Part {
    /// Adds a reply. Returns the follow-up query if the reply needs one.
    fn take(
        &mut self,
        asked: QueryInFlight,
        reply: Result<ServerReply, Failure>,
        servers: &[Arc<Upstream>],
        first: usize,
        clock: &Clock,
    ) -> Option<QueryInFlight> {
        let udp = asked.transport == Transport::Udp;
        match reply {
            // The addresses of a truncated answer count, and TCP brings the rest. An empty
            // truncated answer needs TCP to show whether there is any address.
            Ok(answer) if udp && answer.truncated => {
                self.tally.add_part(Some(answer), clock.now());
                return Some(over_tcp(asked));
            }
            // A datagram larger than the buffer arrives cut off and cannot be decoded.
            Err(Failure::BadReply) if udp => {
                self.tally.add_part(None, clock.now());
                return Some(over_tcp(asked));
            }
            reply => {
                if reply.is_ok() && asked.transport != asked.server.transport() {
                    self.tally.completed();
                }
                self.tally.add(reply, clock.now());
            }
        }
        if self.open > 0 || !self.tally.open() || self.moves == MOVES {
            return None;
        }
        let server = servers.get(first + self.moves)?;
        self.moves += 1;
        Some(QueryInFlight::new(asked.family, server))
    }
}

fn over_tcp(asked: QueryInFlight) -> QueryInFlight {
    QueryInFlight {
        transport: Transport::Tcp,
        ..asked
    }
}
