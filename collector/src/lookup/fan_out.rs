//! One look-up: A and AAAA in parallel, at as many servers as needed.

use std::{iter::Take, pin::pin, slice::Iter, sync::Arc};

use futures_util::stream::{FuturesUnordered, StreamExt};
use names::{Failure, LookupResult, Request};
use proto::api::Family;
use runtime::clock::Clock;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};

use super::{
    exchange::{Exchange, LookupQuery, QueryInFlight},
    pool::{Pool, Transport, Upstream},
    result::{ServerReply, Tally},
};

/// Servers queried for a name with two or more known addresses. Each server may have its own upstream, or its own position in
/// a rotation, so one may give addresses that another does not.
const FAN_OUT: usize = 5;

/// The most further servers, one after the other, if the first ones gave no answer.
const MAX_FURTHER_SERVERS: usize = 2;

/// Looks the name up. It ends when every query has an answer or has failed. After the first answer it waits no longer than
/// [`remaining_wait`](super::Config::remaining_wait), so a slow server does not delay the result. It ends in any case
/// [`total`](super::Config::total) after the first query, or [`impatient`](super::Config::impatient) if the request is not
/// patient. Waiting for a permit of a server does not count as the name's time.
pub(super) async fn look_up(
    request: Request,
    exchange: &Exchange,
    pool: &Pool,
    clock: &Clock,
) -> LookupResult {
    let config = &exchange.config;
    let (started, began) = (clock.now(), Instant::now());
    let servers = pool.shuffled();
    let (first, further) = servers.split_at(fan_out(request.known, &servers));
    let mut families = Families {
        v4: FamilyQueries::new(further),
        v6: FamilyQueries::new(further),
    };
    let queries = Family::ALL.map(|family| LookupQuery::new(&request.name, family));
    let mut unsent = Vec::new();
    for server in first {
        for query in queries.iter().flatten() {
            unsent.push(QueryInFlight::new(query, server));
        }
    }
    let sending = &Notify::new();
    let send = |query| async move {
        let reply = exchange.ask(pool, &query, sending).await;
        (query, reply)
    };
    let longest = if request.is_patient {
        config.total
    } else {
        config.impatient.min(config.total)
    };
    let mut is_over = pin!(async {
        sending.notified().await;
        sleep(longest).await;
    });
    let mut wait_until: Option<Instant> = None;
    let mut in_flight = FuturesUnordered::new();
    loop {
        for query in unsent.drain(..) {
            families.of(query.query.family).in_flight += 1;
            in_flight.push(send(query));
        }
        let (query, reply) = tokio::select! {
            replied = in_flight.next() => match replied {
                Some(replied) => replied,
                None => break,
            },
            () = &mut is_over => break,
            () = sleep_until(wait_until.unwrap_or(began)), if wait_until.is_some() => break,
        };
        let family = families.of(query.query.family);
        unsent.extend(family.add(query, reply, clock));
        if family.tally.noerror() {
            wait_until.get_or_insert_with(|| Instant::now() + config.remaining_wait);
        }
    }
    let silent = if servers.is_empty() {
        Failure::NoServer
    } else {
        Failure::Timeout
    };
    LookupResult {
        name: request.name,
        started,
        is_unresponsive: began.elapsed() >= config.impatient,
        v4: families.v4.tally.finish(silent),
        v6: families.v6.tally.finish(silent),
    }
}

/// The number of servers for the first queries. Silent servers are skipped, unless all are silent.
fn fan_out(known: usize, servers: &[Arc<Upstream>]) -> usize {
    let wanted = if known < 2 { 1 } else { FAN_OUT };
    match servers.iter().filter(|server| !server.is_skipped()).count() {
        0 => wanted.min(servers.len()),
        answering => wanted.min(answering),
    }
}

struct Families<'a> {
    v4: FamilyQueries<'a>,
    v6: FamilyQueries<'a>,
}

impl<'a> Families<'a> {
    fn of(&mut self, family: Family) -> &mut FamilyQueries<'a> {
        match family {
            Family::V4 => &mut self.v4,
            Family::V6 => &mut self.v6,
        }
    }
}

/// The queries of one family.
struct FamilyQueries<'a> {
    tally: Tally,
    in_flight: usize,
    /// The servers to query one after the other while none has an answer.
    further: Take<Iter<'a, Arc<Upstream>>>,
}

impl<'a> FamilyQueries<'a> {
    fn new(further: &'a [Arc<Upstream>]) -> Self {
        Self {
            tally: Tally::default(),
            in_flight: 0,
            further: further.iter().take(MAX_FURTHER_SERVERS),
        }
    }

    /// Adds a reply. Returns the follow-up query if the reply needs one.
    fn add<'q>(
        &mut self,
        query: QueryInFlight<'q>,
        reply: Result<ServerReply, Failure>,
        clock: &Clock,
    ) -> Option<QueryInFlight<'q>> {
        self.in_flight -= 1;
        let is_udp = query.transport == Transport::Udp;
        match reply {
            // The addresses of a truncated answer count, and TCP brings the rest. An empty
            // truncated answer needs TCP to show whether there is any address.
            Ok(answer) if is_udp && answer.truncated => {
                self.tally.add_part(Some(answer), clock.now());
                return Some(query.over_tcp());
            }
            // A datagram larger than the buffer arrives cut off and cannot be decoded.
            Err(Failure::BadReply) if is_udp => {
                self.tally.add_part(None, clock.now());
                return Some(query.over_tcp());
            }
            reply => {
                if reply.is_ok() && !is_udp {
                    self.tally.completed();
                }
                self.tally.add(reply, clock.now());
            }
        }
        if self.in_flight > 0 || !self.tally.is_open() {
            return None;
        }
        let server = self.further.next()?;
        Some(QueryInFlight::new(query.query, server))
    }
}
