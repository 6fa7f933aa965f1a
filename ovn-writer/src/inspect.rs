//! `--inspect`: what the writer knows, for who runs it.

mod pages;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{RawQuery, State},
    response::{IntoResponse, Response},
    routing::get,
};
use runtime::inspect::{
    Asked, Inspect, busy,
    explain::{self, Turns},
    page, query,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    PROGRAM,
    explain::{Explanation, Sets},
};

/// How many may ask at once; others wait.
pub const QUEUE: usize = 4;

/// How long the writer may take to answer.
pub(crate) const ANSWER_DEADLINE: Duration = Duration::from_secs(5);

/// What somebody wants to know of the writer, and where to send it.
#[derive(Debug)]
pub enum Question {
    /// Why something is in a set, or is not.
    Explain(Asked, oneshot::Sender<Explanation>),
    /// Permits to empty what is absent now, and asks for the names.
    AllowEmpty(oneshot::Sender<Result<Vec<String>, NotPermitted>>),
    /// The sets of names that hold this text, or whose rows' names do.
    Sets(String, oneshot::Sender<Sets>),
}

/// Why a writer permits nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotPermitted {
    /// It writes nothing.
    #[error("this process writes nothing: {0}")]
    Idle(&'static str),
    /// It does not know which names are absent.
    #[error("it is not known which names are absent: {0}")]
    Unknown(&'static str),
}

#[derive(Debug)]
struct Inspector {
    writer: mpsc::Sender<Question>,
    /// The writer looks through all names, and has something else to do.
    turns: Turns,
}

/// Answers until the token is cancelled.
///
/// # Errors
/// Those of [`Inspect::serve`].
pub async fn serve(
    inspect: Inspect,
    writer: mpsc::Sender<Question>,
    token: CancellationToken,
) -> anyhow::Result<()> {
    inspect.serve(router(writer), token).await
}

fn router(writer: mpsc::Sender<Question>) -> Router {
    let turns = Turns::default();
    Router::new()
        .route("/", get(sets))
        .route("/explain", get(explain_html))
        .route("/explain.json", get(explain_json))
        .with_state(Arc::new(Inspector { writer, turns }))
}

async fn sets(State(inspector): State<Arc<Inspector>>, RawQuery(asked): RawQuery) -> Response {
    let filter = match query(asked.as_deref(), ["filter"]) {
        Ok([filter]) => filter.unwrap_or_default(),
        Err(error) => return error.into_response(),
    };
    let question = |sender| Question::Sets(filter.clone(), sender);
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

impl Inspector {
    async fn explain(&self, asked: Asked) -> Option<Explanation> {
        self.ask(|sender| Question::Explain(asked, sender)).await
    }

    /// Nothing if the writer does not say.
    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Option<T> {
        let asked = self.turns.ask(ask(&self.writer, question));
        timeout(ANSWER_DEADLINE, asked).await.ok().flatten()
    }
}

/// Asks the writer; nothing if it is gone.
pub(crate) async fn ask<T>(
    writer: &mpsc::Sender<Question>,
    question: impl FnOnce(oneshot::Sender<T>) -> Question,
) -> Option<T> {
    let (sender, told) = oneshot::channel();
    writer.send(question(sender)).await.ok()?;
    told.await.ok()
}
