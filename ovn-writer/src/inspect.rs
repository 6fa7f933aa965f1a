//! `--inspect`: the writer's state, for administrators.

mod pages;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{RawQuery, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use runtime::inspect::{
    Asked, Inspect, busy,
    explain::{self, QueryPacer},
    json, page, query, refusal,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    PROGRAM,
    explain::{Explanation, Sets},
    verify::Comparison,
};

/// The number of parallel queries; further ones wait.
pub const QUEUE: usize = 4;

/// The time-out of the writer's answer.
pub(crate) const ANSWER_DEADLINE: Duration = Duration::from_secs(5);

/// A query to the writer, with the channel for its answer.
#[derive(Debug)]
pub enum WriterQuery {
    /// Explains a name or an address.
    Explain(Asked, oneshot::Sender<Explanation>),
    /// Permits to empty the sets of the names that are absent now; the answer has these names.
    AllowEmpty(oneshot::Sender<Result<Vec<String>, NotPermitted>>),
    /// Compares the store with the database.
    Verify(oneshot::Sender<Result<Comparison, &'static str>>),
    /// The sets whose DNS name or row name contains this text.
    Sets(String, oneshot::Sender<Sets>),
}

/// Why a writer refuses a permission.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotPermitted {
    /// It does not write.
    #[error("this process does not write: {0}")]
    Idle(&'static str),
    /// It does not know which names are absent.
    #[error("the absent names are not known: {0}")]
    Unknown(&'static str),
}

#[derive(Debug)]
struct Inspector {
    writer: mpsc::Sender<WriterQuery>,
    /// A query searches all names, and must not delay the writer.
    pacer: QueryPacer,
}

/// Answers until the token is cancelled.
///
/// # Errors
/// The errors of [`Inspect::serve`].
pub async fn serve(
    inspect: Inspect,
    writer: mpsc::Sender<WriterQuery>,
    token: CancellationToken,
) -> anyhow::Result<()> {
    inspect.serve(router(writer), token).await
}

fn router(writer: mpsc::Sender<WriterQuery>) -> Router {
    let pacer = QueryPacer::default();
    Router::new()
        .route("/", get(sets))
        .route("/explain", get(explain_html))
        .route("/explain.json", get(explain_json))
        .route("/verify.json", get(verify_json))
        .with_state(Arc::new(Inspector { writer, pacer }))
}

async fn sets(State(inspector): State<Arc<Inspector>>, RawQuery(asked): RawQuery) -> Response {
    let filter = match query(asked.as_deref(), ["filter"]) {
        Ok([filter]) => filter.unwrap_or_default(),
        Err(error) => return error.into_response(),
    };
    let question = |sender| WriterQuery::Sets(filter.clone(), sender);
    match inspector.ask(question).await {
        Some(sets) => page(pages::render(&sets, &filter)),
        None => busy(PROGRAM),
    }
}

async fn explain_json(
    State(inspector): State<Arc<Inspector>>,
    RawQuery(query): RawQuery,
) -> Response {
    let explain = |asked| async move { inspector.explain(asked).await };
    explain::in_json(PROGRAM, query.as_deref(), explain).await
}

async fn explain_html(
    State(inspector): State<Arc<Inspector>>,
    RawQuery(query): RawQuery,
) -> Response {
    let explain = |asked| async move { Some(inspector.explain(asked).await?.text) };
    explain::in_html(PROGRAM, query.as_deref(), explain).await
}

async fn verify_json(State(inspector): State<Arc<Inspector>>) -> Response {
    match inspector.ask(WriterQuery::Verify).await {
        Some(Ok(comparison)) => json(&comparison),
        Some(Err(reason)) => refusal(StatusCode::SERVICE_UNAVAILABLE, reason),
        None => busy(PROGRAM),
    }
}

impl Inspector {
    async fn explain(&self, asked: Asked) -> Option<Explanation> {
        self.ask(|sender| WriterQuery::Explain(asked, sender)).await
    }

    /// `None` if the writer does not answer.
    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> WriterQuery) -> Option<T> {
        let asked = self.pacer.ask(ask(&self.writer, question));
        timeout(ANSWER_DEADLINE, asked).await.ok().flatten()
    }
}

/// Queries the writer; `None` if it has ended.
pub(crate) async fn ask<T>(
    writer: &mpsc::Sender<WriterQuery>,
    question: impl FnOnce(oneshot::Sender<T>) -> WriterQuery,
) -> Option<T> {
    let (sender, told) = oneshot::channel();
    writer.send(question(sender)).await.ok()?;
    told.await.ok()
}
