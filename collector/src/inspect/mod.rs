//! What is known, shown to people: a page at `/`, and the same as JSON at `/status.json`; and what comes, at `/capture`.
//!
//! The owner of the statuses is asked for a [`View`] at most once a second, however many look; it hands over what it has
//! and never waits for a reader.

mod capture;
mod page;
mod status;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use axum::{
    Router,
    extract::{Path, State},
    http::{
        HeaderName, HeaderValue, StatusCode,
        header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS},
    },
    response::{IntoResponse, Response},
    routing::get,
};
use runtime::{
    admin::Health,
    http,
    listen::{Access, ListenAddress, Listener},
    store::BadObjects,
};
use tokio::{
    sync::{Mutex, mpsc, oneshot, watch},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::info;

pub use self::{capture::LONGEST as LONGEST_CAPTURE, status::Status};
use crate::{flush::BlockView, ingest::Taps, owner::View, policy::Overview};

/// How many may ask the owner at once; others wait.
pub const QUEUE: usize = 4;

/// For how long what was told is shown to others who ask.
const FRESH: Duration = Duration::from_secs(1);

/// How long the owner may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What clients may take of the server. A capture takes longest.
const LIMITS: http::Limits = http::Limits {
    connections: 8,
    head: Duration::from_secs(2),
    exchange: LONGEST_CAPTURE.saturating_add(Duration::from_secs(30)),
};

/// The page has no script, and loads nothing from anywhere.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Whom to ask.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The owner of the statuses.
    pub owner: mpsc::Sender<oneshot::Sender<View>>,
    /// The EgressFirewalls.
    pub overview: watch::Receiver<Arc<Overview>>,
    /// Where captures begin.
    pub taps: Taps,
    /// What the readiness of the program depends on.
    pub health: Health,
    /// Objects that cannot be read.
    pub bad_objects: BadObjects,
    /// The streams of DNS servers.
    pub blocks: watch::Receiver<Arc<Vec<BlockView>>>,
}

/// The bound server.
#[derive(Debug)]
pub struct Inspect(Listener);

impl Inspect {
    /// Binds the address; a socket's file is for the user of the process alone. Logs `inspect listening` with the field `addr`.
    ///
    /// # Errors
    /// Those of [`Listener::bind`], with the address.
    pub async fn bind(address: &ListenAddress) -> anyhow::Result<Self> {
        let listener = Listener::bind(address, Access::User)
            .await
            .with_context(|| format!("cannot listen on {address}"))?;
        info!(addr = %listener.address(), "inspect listening");
        Ok(Self(listener))
    }

    /// Answers until the token is cancelled.
    ///
    /// # Errors
    /// Those of [`http::serve`].
    pub async fn serve(self, sources: Sources, token: CancellationToken) -> anyhow::Result<()> {
        http::serve(self.0, router(sources), LIMITS, token).await
    }
}

fn router(sources: Sources) -> Router {
    Router::new()
        .route("/", get(html))
        .route("/status.json", get(json))
        .route("/capture/{milliseconds}/{bytes}", get(captured))
        .with_state(Arc::new(Inspector {
            sources,
            shown: Mutex::default(),
        }))
}

/// Asks, and remembers for a moment what was told.
#[derive(Debug)]
struct Inspector {
    sources: Sources,
    shown: Mutex<Option<(Instant, Arc<Status>)>>,
}

impl Inspector {
    /// What is known now; nothing if the owner does not say.
    async fn status(&self) -> Option<Arc<Status>> {
        // Who comes meanwhile waits here and gets the same.
        let mut shown = self.shown.lock().await;
        if let Some((at, status)) = &*shown
            && at.elapsed() < FRESH
        {
            return Some(Arc::clone(status));
        }
        let asked = async {
            let (sender, told) = oneshot::channel();
            self.sources.owner.send(sender).await.ok()?;
            told.await.ok()
        };
        let view = timeout(PATIENCE, asked).await.ok().flatten()?;
        let overview = Arc::clone(&self.sources.overview.borrow());
        let mut status = Status::new(view, &overview);
        status.conditions(self.sources.health.conditions());
        status.bad_objects(self.sources.bad_objects.list());
        status.dns_blocks(&self.sources.blocks.borrow());
        let status = Arc::new(status);
        *shown = Some((Instant::now(), Arc::clone(&status)));
        Some(status)
    }
}

async fn html(State(inspector): State<Arc<Inspector>>) -> Response {
    match inspector.status().await {
        Some(status) => answer("text/html; charset=utf-8", page::render(&status)),
        None => busy(),
    }
}

async fn json(State(inspector): State<Arc<Inspector>>) -> Response {
    match inspector
        .status()
        .await
        .as_deref()
        .map(serde_json::to_string)
    {
        Some(Ok(text)) => answer("application/json", text),
        Some(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        None => busy(),
    }
}

async fn captured(
    State(inspector): State<Arc<Inspector>>,
    Path((milliseconds, bytes)): Path<(u64, usize)>,
) -> Response {
    let Some(tap) = inspector.sources.taps.open() else {
        let words = "as many captures are under way as there may be\n";
        return (StatusCode::SERVICE_UNAVAILABLE, words).into_response();
    };
    let body = capture::body(tap, Duration::from_millis(milliseconds), bytes);
    ([(CONTENT_TYPE, "application/octet-stream")], body).into_response()
}

fn answer(content_type: &'static str, body: String) -> Response {
    let header = |name: HeaderName, value| (name, HeaderValue::from_static(value));
    let headers = [
        header(CONTENT_TYPE, content_type),
        header(CONTENT_SECURITY_POLICY, POLICY),
        header(X_CONTENT_TYPE_OPTIONS, "nosniff"),
        header(CACHE_CONTROL, "no-store"),
    ];
    (headers, body).into_response()
}

fn busy() -> Response {
    let words = "the collector is too busy, or about to end\n";
    (StatusCode::SERVICE_UNAVAILABLE, words).into_response()
}
