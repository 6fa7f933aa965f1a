//! `--inspect`: what the writer knows, for who runs it.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{RawQuery, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use runtime::{
    http,
    inspect::{Asked, Inspect, asked, html, json, page, refusal},
};
use tokio::{
    sync::{Mutex, mpsc, oneshot},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::explain::Explanation;

/// How many may ask at once; others wait.
pub const QUEUE: usize = 4;

/// How long the writer may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between two questions: the writer looks through all names for some, and has something else to do.
const BETWEEN: Duration = Duration::from_millis(50);

/// What clients may take of the server.
const LIMITS: http::Limits = http::Limits {
    connections: 8,
    head: Duration::from_secs(2),
    exchange: Duration::from_secs(30),
};

/// What somebody wants to know of the writer, and where to send it.
#[derive(Debug)]
pub enum Question {
    /// Why something is in a set, or is not.
    Explain(Asked, oneshot::Sender<Explanation>),
}

#[derive(Debug)]
struct Inspector {
    writer: mpsc::Sender<Question>,
    next: Mutex<Option<Instant>>,
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
    inspect.serve(router(writer), LIMITS, token).await
}

fn router(writer: mpsc::Sender<Question>) -> Router {
    let inspector = Inspector {
        writer,
        next: Mutex::default(),
    };
    Router::new()
        .route("/", get(explain_html))
        .route("/explain", get(explain_html))
        .route("/explain.json", get(explain_json))
        .with_state(Arc::new(inspector))
}

async fn explain_json(
    State(inspector): State<Arc<Inspector>>,
    RawQuery(query): RawQuery,
) -> Response {
    match asked(query.as_deref()) {
        Ok(Some(asked)) => match inspector.explain(asked).await {
            Some(explanation) => json(&explanation),
            None => busy(),
        },
        Ok(None) => refusal(
            StatusCode::BAD_REQUEST,
            "say what: ?about=NAME or ?about=ADDRESS",
        ),
        Err(error) => error.into_response(),
    }
}

async fn explain_html(
    State(inspector): State<Arc<Inspector>>,
    RawQuery(query): RawQuery,
) -> Response {
    match asked(query.as_deref()) {
        Ok(Some(asked)) => match inspector.explain(asked).await {
            Some(Explanation {
                about,
                namespace,
                text,
                ..
            }) => page(html::explanation(
                "ovn-writer",
                Some(&about),
                namespace.as_deref(),
                &text,
            )),
            None => busy(),
        },
        Ok(None) => page(html::explanation("ovn-writer", None, None, &[])),
        Err(error) => error.into_response(),
    }
}

fn busy() -> Response {
    let words = "the ovn-writer is too busy, or about to end";
    refusal(StatusCode::SERVICE_UNAVAILABLE, words)
}

impl Inspector {
    /// Nothing if the writer does not say.
    async fn explain(&self, asked: Asked) -> Option<Explanation> {
        let explained = async {
            let mut next = self.next.lock().await;
            if let Some(next) = *next {
                sleep_until(next).await;
            }
            let (sender, told) = oneshot::channel();
            self.writer
                .send(Question::Explain(asked, sender))
                .await
                .ok()?;
            let told = told.await.ok();
            *next = Some(Instant::now() + BETWEEN);
            told
        };
        timeout(PATIENCE, explained).await.ok().flatten()
    }
}
