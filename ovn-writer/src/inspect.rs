//! `--inspect`: the writer's state, for administrators.

mod status;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{RawQuery, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use proto::facts::{NEW_ADDRESSES, RowAddresses};
use runtime::inspect::{
    Asked, Inspect, QueryError, busy,
    explain::{self, QueryPacer},
    json, list_after, query, refusal,
};
use tokio::{
    sync::{Mutex, mpsc, oneshot},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

pub use self::status::{Status, StatusSources};
use crate::{
    PROGRAM,
    explain::{Explanation, Selection, Sets, SetsQuery, Snapshot},
    verify::Comparison,
};

/// The number of parallel queries; further ones wait.
pub const QUEUE: usize = 4;

/// The time-out of the writer's answer.
const ANSWER_DEADLINE: Duration = Duration::from_secs(5);

/// How long a status is reused for other requests.
const FRESH: Duration = Duration::from_secs(1);

/// The maximum number of addresses per set in `/sets.json`.
const MOST_ADDRESSES: usize = 1_000;

/// A query to the writer, with the channel for its answer.
#[derive(Debug)]
pub enum WriterQuery {
    /// Explains a name or an address.
    Explain(Asked, oneshot::Sender<Explanation>),
    /// Compares the store with the database.
    Verify(oneshot::Sender<Result<Comparison, &'static str>>),
    /// The matching sets.
    Sets(SetsQuery, oneshot::Sender<Sets>),
    /// A summary of the state.
    Snapshot(oneshot::Sender<Snapshot>),
    /// The last new addresses of rows.
    NewAddresses(oneshot::Sender<RowAddresses>),
}

#[derive(Debug)]
struct Inspector {
    writer: mpsc::Sender<WriterQuery>,
    sources: StatusSources,
    status: Mutex<Option<(Instant, Arc<Status>)>>,
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
    sources: StatusSources,
    token: CancellationToken,
) -> anyhow::Result<()> {
    inspect.serve(router(writer, sources), token).await
}

fn router(writer: mpsc::Sender<WriterQuery>, sources: StatusSources) -> Router {
    Router::new()
        .route("/status.json", get(status_json))
        .route("/sets.json", get(sets_json))
        .route("/explain.json", get(explain_json))
        .route("/verify.json", get(verify_json))
        .route(NEW_ADDRESSES, get(new_addresses_json))
        .with_state(Arc::new(Inspector {
            writer,
            sources,
            status: Mutex::default(),
            pacer: QueryPacer::default(),
        }))
}

async fn status_json(State(inspector): State<Arc<Inspector>>) -> Response {
    match inspector.status().await {
        Some(status) => json(&*status),
        None => busy(PROGRAM),
    }
}

async fn sets_json(State(inspector): State<Arc<Inspector>>, RawQuery(asked): RawQuery) -> Response {
    let query = match sets_query(asked.as_deref()) {
        Ok(query) => query,
        Err(error) => return error.into_response(),
    };
    match inspector.sets(query).await {
        Some(sets) => json(&sets),
        None => busy(PROGRAM),
    }
}

fn sets_query(asked: Option<&str>) -> Result<SetsQuery, QueryError> {
    let [filter, after] = query(asked, ["filter", "after"])?;
    Ok(SetsQuery {
        filter: filter.unwrap_or_default(),
        selection: Selection::After(list_after(after.as_deref())?),
        addresses: MOST_ADDRESSES,
    })
}

async fn explain_json(
    State(inspector): State<Arc<Inspector>>,
    RawQuery(query): RawQuery,
) -> Response {
    let explain = |asked| async move { inspector.explain(asked).await };
    explain::in_json(PROGRAM, query.as_deref(), explain).await
}

async fn verify_json(State(inspector): State<Arc<Inspector>>) -> Response {
    match inspector.ask(WriterQuery::Verify).await {
        Some(Ok(comparison)) => json(&comparison),
        Some(Err(reason)) => refusal(StatusCode::SERVICE_UNAVAILABLE, reason),
        None => busy(PROGRAM),
    }
}

async fn new_addresses_json(State(inspector): State<Arc<Inspector>>) -> Response {
    match inspector.ask(WriterQuery::NewAddresses).await {
        Some(addresses) => json(&addresses),
        None => busy(PROGRAM),
    }
}

impl Inspector {
    /// The current status; `None` if the writer does not answer.
    async fn status(&self) -> Option<Arc<Status>> {
        // Concurrent requests wait here and get the same answer.
        let mut shown = self.status.lock().await;
        if let Some((at, status)) = &*shown
            && at.elapsed() < FRESH
        {
            return Some(Arc::clone(status));
        }
        let snapshot = self.ask(WriterQuery::Snapshot).await?;
        let status = Arc::new(Status::new(snapshot, &self.sources));
        *shown = Some((Instant::now(), Arc::clone(&status)));
        Some(status)
    }

    async fn sets(&self, query: SetsQuery) -> Option<Sets> {
        self.ask(|sender| WriterQuery::Sets(query, sender)).await
    }

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
async fn ask<T>(
    writer: &mpsc::Sender<WriterQuery>,
    question: impl FnOnce(oneshot::Sender<T>) -> WriterQuery,
) -> Option<T> {
    let (sender, told) = oneshot::channel();
    writer.send(question(sender)).await.ok()?;
    told.await.ok()
}

#[cfg(test)]
mod tests {
    use runtime::listen::ListenAddress;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::UnixStream,
    };

    use super::*;

    #[tokio::test]
    async fn page_is_served_and_may_run_only_what_the_server_has() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("x.sock");
        let address = ListenAddress::Unix(socket.clone().into());
        let inspect = Inspect::bind(&address).await.unwrap();
        let (asked, _questions) = mpsc::channel(QUEUE);
        let (sources, token) = (StatusSources::default(), CancellationToken::new());
        let serving = tokio::spawn(serve(inspect, asked, sources, token.clone()));
        let mut stream = UnixStream::connect(&socket).await.unwrap();
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).await.unwrap();
        token.cancel();
        serving.await.unwrap().unwrap();
        let policy = "content-security-policy: default-src 'none'; script-src 'self'; ";
        assert!(page.contains(policy), "{page}");
        assert!(page.contains("<!DOCTYPE html>"), "{page}");
    }
}
