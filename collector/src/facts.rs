//! The facts of the collector, as JSON, and its [`captures`].
//!
//! The publisher hands over a copy, and never waits for a reader.

pub mod answers;
mod capture;
pub mod captures;
mod explain;
mod problems;

use std::{sync::Arc, time::Duration};

use proto::facts::{
    Asked, Explanation, Query, QueryError, Status, Subject, UnallowedName, Verification,
};
use runtime::{
    clock::Clock,
    inspect::{
        Process, QueryPacer, Source as Facts,
        history::{History, Plot},
    },
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};

use crate::{
    flush::BlockView,
    hold::HoldState,
    listen::{ConnectionTable, PeerIds},
    matching::{answer_cache::AnswerCache, index::SharedIndex},
    publish::{InspectRequest, NewAddresses, guards::CurrentGuards},
    rules::{BySource, Overview, ReferencesRequest},
};

/// The most requests that wait for the publisher; further ones wait at the sender.
pub const QUEUE: usize = 4;

/// The time-out of the publisher's answer.
const ANSWER_DEADLINE: Duration = Duration::from_secs(5);

/// The most names without a rule in a status.
const MOST_UNALLOWED: usize = 10;

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
    /// The names with a rule.
    pub index: SharedIndex,
    pub guards: CurrentGuards,
    /// The peers by their numbers.
    pub peers: PeerIds,
    /// The connected peers.
    pub connections: ConnectionTable,
    pub clock: Clock,
    /// The latest new addresses.
    pub new_addresses: NewAddresses,
    /// The forwarder, if there is one.
    pub hold: Option<HoldState>,
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

impl InspectSources {
    /// The names without a rule that clients asked for most. A name whose addresses are all refused is one of the cluster.
    fn not_allowed_by_name(&self) -> Vec<UnallowedName> {
        let (index, guards) = (self.index.load(), self.guards.now());
        self.remembered
            .most_asked(MOST_UNALLOWED, |name, addresses| {
                index.find(name).is_none() && addresses.iter().any(|ip| guards.admit(*ip).is_ok())
            })
    }
}

impl Facts for InspectSources {
    async fn status(&self, mut query: Query) -> Result<Option<Status>, QueryError> {
        query.after = query.after_name()?.map(|it| it.to_string());
        let (recent, is_first) = (query.recent, query.after.is_none());
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
        facts.hold = self.hold.as_ref().map(HoldState::facts);
        if is_first {
            facts.not_allowed_by_name = self.not_allowed_by_name();
        }
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
