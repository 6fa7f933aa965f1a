//! `--inspect`: the state, for administrators and for the program `egress`.

use std::sync::Arc;

use parking_lot::Mutex;
use proto::facts::{Asked, Explanation, Query, QueryError, Status, Verification};
use runtime::{
    clock::Clock,
    inspect::{
        Process, QueryPacer, Source,
        history::{History, Plot},
    },
    store::ObjectKey,
};

use crate::{facts, plan::Planner, writer::now};

/// The values of the last hour.
pub fn history() -> History {
    History::new([
        Plot::Gauge("DNSResolvers", "egress_policy_writer_dnsresolvers"),
        Plot::MeanMillis(
            "ms from a change to its objects",
            "egress_policy_writer_sync_lag_seconds",
        ),
        Plot::Gauge("addresses", "egress_policy_writer_addresses"),
        Plot::Rate("writes to the store/s", "egress_store_writes_total"),
    ])
}

/// Answers queries about the state.
pub struct Inspector {
    pub planner: Arc<Mutex<Planner>>,
    pub process: Process,
    /// A query searches everything, and must not delay the writer.
    pub pacer: QueryPacer,
}

impl Source for Inspector {
    async fn status(&self, query: Query) -> Result<Option<Status>, QueryError> {
        let after = query.after.as_deref().map(str::parse::<ObjectKey>);
        let after = after.transpose();
        let after = after.map_err(|error| QueryError::AfterObject(error.to_string()))?;
        let answer = self.ask(|planner| {
            let mut status = self
                .process
                .status(planner.is_leading, Clock::system().now());
            facts::fill(&mut status, planner, &query, after.as_ref());
            status
        });
        Ok(Some(answer.await))
    }

    async fn explain(&self, asked: Asked) -> Option<Explanation> {
        let answer = self.ask(|planner| Explanation {
            head: self.process.head(planner.is_leading, Clock::system().now()),
            policy_writer: Some(facts::explain(planner, &asked, now())),
            ..Explanation::default()
        });
        Some(answer.await)
    }

    async fn verify(&self) -> Option<Verification> {
        let answer = self.ask(|planner| Verification {
            head: self.process.head(planner.is_leading, Clock::system().now()),
            policy_writer: Some(facts::compare(planner, now())),
            ..Verification::default()
        });
        Some(answer.await)
    }
}

impl Inspector {
    async fn ask<T>(&self, question: impl FnOnce(&Planner) -> T) -> T {
        let answer = async { question(&self.planner.lock()) };
        self.pacer.ask(answer).await
    }
}
