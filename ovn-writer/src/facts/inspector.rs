//! `--inspect`: the writer's state, for administrators.

use std::time::Duration;

use proto::facts::{
    Asked, Comparison, Explanation, Query, QueryError, SetsExplained, Status, Verification,
};
use runtime::{
    clock::Clock,
    inspect::{
        Process, QueryPacer, Source,
        history::{History, Plot},
    },
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::facts::WriterStatus;

/// The number of parallel queries; further ones wait.
pub const QUEUE: usize = 4;

/// The time-out of the writer's answer.
const ANSWER_DEADLINE: Duration = Duration::from_secs(5);

/// A query to the writer, with the channel for its answer and whether this process leads.
#[derive(Debug)]
pub enum WriterQuery {
    /// A summary of the state.
    Status(Box<Query>, oneshot::Sender<(WriterStatus, bool)>),
    /// Explains a name or an address.
    Explain(Box<Asked>, oneshot::Sender<(SetsExplained, bool)>),
    /// Compares the store with the database.
    Verify(oneshot::Sender<(Comparison, bool)>),
}

/// The values of the last hour.
pub fn history() -> History {
    History::new([
        Plot::Rate(
            "addresses added/s",
            "egress_ovn_writer_addresses_inserted_total",
        ),
        Plot::MeanMillis(
            "ms from an object's event to its row",
            "egress_ovn_writer_sync_lag_seconds",
        ),
        Plot::Gauge("address sets", "egress_ovn_writer_rows"),
        Plot::Rate("transactions/s", "egress_ovn_writer_transactions_total"),
    ])
}

/// Asks the writer.
#[derive(Debug)]
pub struct Inspector {
    pub writer: mpsc::Sender<WriterQuery>,
    pub process: Process,
    /// A query searches all names, and must not delay the writer.
    pub pacer: QueryPacer,
}

impl Source for Inspector {
    async fn status(&self, mut query: Query) -> Result<Option<Status>, QueryError> {
        query.after = query.after_name()?.map(|it| it.to_string());
        let asked = |sender| WriterQuery::Status(Box::new(query), sender);
        let Some((writer, leader)) = self.ask(asked).await else {
            return Ok(None);
        };
        let mut status = self.process.status(leader, Clock::system().now());
        status.problems.append(writer.problems);
        status.ovn_writer = Some(writer.facts);
        Ok(Some(status))
    }

    async fn explain(&self, asked: Asked) -> Option<Explanation> {
        let asked = |sender| WriterQuery::Explain(Box::new(asked), sender);
        let (explained, leader) = self.ask(asked).await?;
        Some(Explanation {
            head: self.process.head(leader, Clock::system().now()),
            ovn_writer: Some(explained),
            ..Explanation::default()
        })
    }

    async fn verify(&self) -> Option<Verification> {
        let (comparison, leader) = self.ask(WriterQuery::Verify).await?;
        Some(Verification {
            head: self.process.head(leader, Clock::system().now()),
            ovn_writer: Some(comparison),
            ..Verification::default()
        })
    }
}

impl Inspector {
    /// `None` if the writer does not answer.
    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> WriterQuery) -> Option<T> {
        let asked = async {
            let (sender, answer) = oneshot::channel();
            self.writer.send(question(sender)).await.ok()?;
            answer.await.ok()
        };
        let asked = self.pacer.ask(asked);
        timeout(ANSWER_DEADLINE, asked).await.ok().flatten()
    }
}
