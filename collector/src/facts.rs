//! The facts of the collector, as JSON, and captures at `/capture`.
//!
//! The publisher hands over a copy, and never waits for a reader.

mod capture;
mod explain;
mod problems;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::{Path, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use proto::facts::{
    Asked, Explanation, LONGEST_CAPTURE, Query, QueryError, Status, Subject, Verification,
};
use runtime::{
    clock::Clock,
    http::Exchange,
    inspect::{
        Process, QueryPacer, Source as Facts,
        history::{History, Plot},
        refusal,
    },
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};

use crate::{
    flush::BlockView,
    listen::{CaptureSubscribers, ConnectionTable, PeerIds},
    matching::answer_cache::AnswerCache,
    publish::{InspectRequest, NewAddresses},
    rules::{BySource, Overview, ReferencesRequest},
};

/// The most requests that wait for the publisher; further ones wait at the sender.
pub const QUEUE: usize = 4;

/// The time-out of the publisher's answer.
const ANSWER_DEADLINE: Duration = Duration::from_secs(5);

/// How much longer than its duration a capture may take.
const CAPTURE_EXTRA_TIME: Duration = Duration::from_secs(10);

/// The values of the last hour.
pub fn history() -> History {
    History::new([
        Plot::Rate("dnstap events/s", "egress_collector_events_total"),
        Plot::MeanMillis(
            "ms from an answer to its status",
            "egress_collector_status_lag_seconds",
        ),
        Plot::Gauge("addresses", "egress_collector_addresses"),
        Plot::Rate("writes to the store/s", "egress_store_writes_total"),
    ])
}

/// The sources of the answers.
#[derive(Debug)]
pub struct InspectSources {
    pub process: Process,
    /// The publisher of the statuses.
    pub publisher: mpsc::Sender<InspectRequest>,
    pub rules: RuleSources,
    /// The server blocks of DNS servers.
    pub blocks: watch::Receiver<Arc<Vec<BlockView>>>,
    /// Cached answers for names without a rule.
    pub remembered: AnswerCache,
    /// The peers by their numbers.
    pub peers: PeerIds,
    /// The connected peers.
    pub connections: ConnectionTable,
    pub clock: Clock,
    /// The latest new addresses.
    pub new_addresses: NewAddresses,
    /// A query may search all names, and must not delay the publisher.
    pub pacer: QueryPacer,
}

/// The sources about rules.
#[derive(Clone, Debug)]
pub struct RuleSources {
    /// The tasks that know the rules, one for each kind.
    pub tasks: Vec<mpsc::Sender<ReferencesRequest>>,
    pub overview: watch::Receiver<BySource<Arc<Overview>>>,
}

impl Facts for InspectSources {
    async fn status(&self, mut query: Query) -> Result<Option<Status>, QueryError> {
        query.after = query.after_name()?.map(|it| it.to_string());
        let recent = query.recent;
        let asked = async {
            let (sender, answer) = oneshot::channel();
            let question = InspectRequest::Status(Box::new(query), sender);
            self.publisher.send(question).await.ok()?;
            answer.await.ok()
        };
        let names = timeout(ANSWER_DEADLINE, self.pacer.ask(asked)).await;
        let Some(names) = names.ok().flatten() else {
            return Ok(None);
        };
        let mut status = self.process.status(names.leader, self.clock.now());
        let mut facts = names.facts;
        let blocks = self.blocks.borrow().clone();
        facts.streams = blocks.iter().map(problems::stream).collect();
        facts.peers = self.connections.view();
        facts.new_addresses = self.new_addresses.facts(&self.peers, recent);
        let streams = facts.streams.iter().filter_map(problems::of_stream);
        status.problems.extend(streams);
        for (kind, overview) in self.rules.overview.borrow().iter() {
            facts.sources.push(problems::source(kind, overview));
            status.problems.extend(problems::of_rules(kind, overview));
        }
        status.problems.append(names.problems);
        status.collector = Some(facts);
        Ok(Some(status))
    }

    async fn explain(&self, asked: Asked) -> Option<Explanation> {
        let facts = async {
            let facts = self.facts(&asked);
            match asked.subject {
                // Explaining an address searches all names, so only one such request runs at a
                // time.
                Ok(Subject::Address(_)) => self.pacer.ask(facts).await,
                _ => facts.await,
            }
        };
        let facts = timeout(ANSWER_DEADLINE, facts).await.ok().flatten();
        let (facts, leader) = facts?;
        Some(Explanation {
            head: self.process.head(leader, self.clock.now()),
            collector: Some(facts),
            ..Explanation::default()
        })
    }

    /// Writers compare, and a collector only says that it is none.
    async fn verify(&self) -> Option<Verification> {
        Some(Verification {
            head: self.process.head(false, self.clock.now()),
            ..Verification::default()
        })
    }
}

/// The route of captures.
pub fn captures(captures: CaptureSubscribers) -> Router {
    Router::new()
        .route("/capture/{milliseconds}/{bytes}", get(captured))
        .with_state(captures)
}

async fn captured(
    State(captures): State<CaptureSubscribers>,
    Extension(exchange): Extension<Exchange>,
    Path((milliseconds, bytes)): Path<(u64, usize)>,
) -> Response {
    let Some(capture) = captures.open() else {
        let words = "too many captures are running: try again when one has ended";
        return refusal(StatusCode::SERVICE_UNAVAILABLE, words);
    };
    let duration = Duration::from_millis(milliseconds).min(LONGEST_CAPTURE);
    exchange.last(duration + CAPTURE_EXTRA_TIME);
    let body = capture::body(capture, duration, bytes);
    ([(CONTENT_TYPE, "application/octet-stream")], body).into_response()
}
