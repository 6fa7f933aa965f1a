//! One look-up: A and AAAA, asked apart and at the same time, of as many servers as it takes.

use std::sync::Arc;

use futures_util::stream::{FuturesUnordered, StreamExt};
use proto::api::Family;
use runtime::clock::Clock;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};

use super::{
    Config,
    exchange::{Exchange, Question},
    pool::{Pool, Transport, Upstream},
    result::{Answer, LookupResult, Request, Tally},
};
use crate::failure::Failure;

/// How many more servers are asked, one after the other, when the first ones gave no answer.
const MOVES: usize = 2;

/// Looks the name up. It ends when every question is answered or has failed; a while ([`Config::patience`]) after the
/// first answer, so that what is known need not wait for what is slow; and in any case [`Config::total`] after the first
/// question was sent. Waiting for room at a server is not the name's failure.
pub(super) async fn look_up(
    request: Request,
    exchange: &Exchange,
    pool: &Pool,
    config: &Config,
    clock: &Clock,
) -> LookupResult {
    let started = clock.now();
    let servers = pool.shuffled();
    let mut parts = Parts::default();
    let first = servers_at_first(request.known, &servers, config);
    let questions = (
        Question::new(&request.name, Family::V4),
        Question::new(&request.name, Family::V6),
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
            let over_tcp = request.over_tcp;
            parts
                .fill(&servers, (first, over_tcp), ask, config, clock)
                .await;
            Failure::Timeout
        }
        _ => Failure::NoServer,
    };
    LookupResult {
        name: request.name,
        started,
        finished: clock.now(),
        v4: parts.v4.tally.finish(silent),
        v6: parts.v6.tally.finish(silent),
    }
}

/// How many of the servers are asked at first. Those that are silent are spared, unless all are.
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

/// A question that is under way.
struct Asked {
    family: Family,
    server: Arc<Upstream>,
    transport: Transport,
}

impl Asked {
    fn new(family: Family, server: &Arc<Upstream>) -> Self {
        Self {
            family,
            server: Arc::clone(server),
            transport: server.transport(),
        }
    }
}

/// Sends the questions of a look-up.
#[derive(Clone, Copy)]
struct Ask<'a> {
    exchange: &'a Exchange,
    pool: &'a Pool,
    v4: &'a Question,
    v6: &'a Question,
    /// Told when a question is sent.
    sending: &'a Notify,
}

impl Ask<'_> {
    async fn send(self, asked: Asked) -> (Asked, Result<Answer, Failure>) {
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

/// A family's part of a look-up.
#[derive(Default)]
struct Part {
    tally: Tally,
    /// Questions under way.
    open: usize,
    /// How many more servers were asked.
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

    /// Asks the `first` of the servers, over TCP too if it says so, and others as it must.
    async fn fill(
        &mut self,
        servers: &[Arc<Upstream>],
        (first, tcp_too): (usize, bool),
        ask: Ask<'_>,
        config: &Config,
        clock: &Clock,
    ) {
        let over = async {
            ask.sending.notified().await;
            sleep(config.total).await;
        };
        tokio::pin!(over);
        let mut enough: Option<Instant> = None;
        let mut under_way = FuturesUnordered::new();
        for server in servers.iter().take(first) {
            for family in Family::ALL {
                let asked = Asked::new(family, server);
                if tcp_too && asked.transport == Transport::Udp {
                    self.of(family).open += 1;
                    under_way.push(ask.send(over_tcp(Asked::new(family, server))));
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
                enough.get_or_insert_with(|| Instant::now() + config.patience);
            }
        }
    }
}

impl Part {
    /// Takes a reply in. Returns what to ask next because of it.
    fn take(
        &mut self,
        asked: Asked,
        reply: Result<Answer, Failure>,
        servers: &[Arc<Upstream>],
        first: usize,
        clock: &Clock,
    ) -> Option<Asked> {
        let udp = asked.transport == Transport::Udp;
        match reply {
            // What came is as good as any answer. What did not come over UDP, TCP brings; with nothing at hand, only TCP
            // can tell whether there is anything.
            Ok(answer) if udp && answer.truncated => {
                self.tally.add_part(Some(answer), clock.now());
                return Some(over_tcp(asked));
            }
            // A datagram larger than it may be arrives cut.
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
        Some(Asked::new(asked.family, server))
    }
}

fn over_tcp(asked: Asked) -> Asked {
    Asked {
        transport: Transport::Tcp,
        ..asked
    }
}
