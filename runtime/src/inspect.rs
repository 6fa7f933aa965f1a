//! The state of a program, for administrators. It has every tenant's names, so its listener is separate and cannot be
//! reached from other hosts.
//!
//! A program is a [`Source`] of facts; the server has the paths, the page, and what all programs tell of themselves
//! ([`Process`]).
//!
//! - [`client`]: the client of these facts.
//! - [`history`]: values of the last hour.

pub mod client;
pub mod history;
mod pacer;
mod process;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::{
    Router,
    extract::{RawQuery, State},
    http::{
        HeaderName, HeaderValue, StatusCode,
        header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS},
    },
    response::{IntoResponse, Response},
    routing::get,
};
use proto::{
    facts::{Asked, EXPLAIN, Explanation, Query, QueryError, STATUS, Status, VERIFY, Verification},
    text,
};
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tracing::info;
use uuid::Uuid;

pub use self::{pacer::QueryPacer, process::Process};
use crate::{
    http,
    listen::{Access, ListenAddress, Listener},
};

/// The page.
const PAGE: &str = include_str!("inspect/page.html");

/// The limits of clients. Each client that does not read a large answer holds all of it in memory.
const LIMITS: http::Limits = http::Limits {
    connections: 12,
    head: Duration::from_secs(2),
    exchange: Duration::from_secs(20),
};

/// The longest query, in bytes: a name of four times the longest one, whose octets take three characters each.
const MAX_QUERY: usize = 3 * 1024;

/// The facts of a program.
pub trait Source: Send + Sync + 'static {
    /// The status; `None` if the task that has the facts does not answer.
    ///
    /// # Errors
    /// A parameter is wrong.
    fn status(
        &self,
        query: Query,
    ) -> impl Future<Output = Result<Option<Status>, QueryError>> + Send;

    /// The facts about a name or an address; `None` if the task that has them does not answer.
    fn explain(&self, asked: Asked) -> impl Future<Output = Option<Explanation>> + Send;

    /// What is written, compared with the statuses; `None` if the task that knows does not answer.
    fn verify(&self) -> impl Future<Output = Option<Verification>> + Send;
}

/// The bound server.
#[derive(Debug)]
pub struct Inspect(Listener);

impl Inspect {
    /// Binds the address. The file of a unix socket is accessible only to the user of the process. Logs `inspect
    /// listening` with the field `addr`.
    ///
    /// # Errors
    /// The errors of [`Listener::bind`], with the address.
    pub async fn bind(address: &ListenAddress) -> anyhow::Result<Self> {
        let listener = Listener::bind(address, Access::User)
            .await
            .with_context(|| format!("cannot listen on {address}"))?;
        info!(addr = %listener.address(), "inspect listening");
        Ok(Self(listener))
    }

    /// Serves the facts, the page and these other routes until the token is cancelled: twelve requests at once, each within 20 s
    /// unless its handler extends that.
    ///
    /// # Errors
    /// The errors of [`http::serve`].
    pub async fn serve(
        self,
        source: impl Source,
        others: Router,
        token: CancellationToken,
    ) -> anyhow::Result<()> {
        http::serve(self.0, router(source).merge(others), LIMITS, token).await
    }
}

fn router<S: Source>(source: S) -> Router {
    Router::new()
        .route(STATUS, get(status::<S>))
        .route(EXPLAIN, get(explain::<S>))
        .route(VERIFY, get(verify::<S>))
        .with_state(Arc::new(source))
        .route("/", get(page))
}

async fn status<S: Source>(State(source): State<Arc<S>>, RawQuery(text): RawQuery) -> Response {
    let Some(parameters) = parameters(text.as_deref()) else {
        return too_long();
    };
    let parameters = parameters.iter().map(|(key, value)| (&**key, &**value));
    let status = match Query::new(parameters) {
        Ok(query) => source.status(query).await,
        Err(error) => Err(error),
    };
    match status {
        Ok(status) => answer(status.as_ref()),
        Err(error) => refusal(StatusCode::BAD_REQUEST, &error.to_string()),
    }
}

async fn explain<S: Source>(State(source): State<Arc<S>>, RawQuery(text): RawQuery) -> Response {
    let Some(parameters) = parameters(text.as_deref()) else {
        return too_long();
    };
    let value = |key: &str| {
        let mut of_key = parameters.iter().rev().filter(|(known, _)| known == key);
        let value = of_key.next().map(|(_, value)| value.trim().to_owned());
        value.filter(|value| !value.is_empty())
    };
    match value("about") {
        Some(about) => answer(
            source
                .explain(Asked::new(&about, value("namespace")))
                .await
                .as_ref(),
        ),
        None => refusal(
            StatusCode::BAD_REQUEST,
            "say what: ?about=NAME or ?about=ADDRESS",
        ),
    }
}

async fn verify<S: Source>(State(source): State<Arc<S>>) -> Response {
    answer(source.verify().await.as_ref())
}

/// The parameters of a URL, decoded; `None` if it is longer than any valid one.
fn parameters(text: Option<&str>) -> Option<Vec<(String, String)>> {
    let text = text.unwrap_or_default();
    let parameters = form_urlencoded::parse(text.as_bytes()).into_owned();
    (text.len() <= MAX_QUERY).then(|| parameters.collect())
}

fn too_long() -> Response {
    refusal(StatusCode::URI_TOO_LONG, "the query is too long")
}

/// The page. Its script and its style have a number that no other text can know; nothing else runs, and it cannot be framed.
async fn page() -> Response {
    let nonce = Uuid::new_v4().simple().to_string();
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; connect-src 'self'; frame-ancestors 'none'"
    );
    let body = PAGE.replace("NONCE", &nonce);
    let mut response = with_type("text/html; charset=utf-8", body);
    if let Ok(policy) = HeaderValue::try_from(policy) {
        response
            .headers_mut()
            .insert(CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// JSON in printable ASCII, or an error if there is no answer.
fn answer(value: Option<&impl Serialize>) -> Response {
    let Some(value) = value else {
        let words = "the program is too busy, or about to end";
        return refusal(StatusCode::SERVICE_UNAVAILABLE, words);
    };
    match text::json(value) {
        Ok(text) => with_type("application/json", text),
        Err(error) => refusal(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// An error answer with its reason.
pub fn refusal(status: StatusCode, words: &str) -> Response {
    (status, format!("{words}\n")).into_response()
}

fn with_type(content_type: &'static str, body: String) -> Response {
    let header = |name: HeaderName, value| (name, HeaderValue::from_static(value));
    let headers = [
        header(CONTENT_TYPE, content_type),
        header(CONTENT_SECURITY_POLICY, "default-src 'none'"),
        header(X_CONTENT_TYPE_OPTIONS, "nosniff"),
        header(CACHE_CONTROL, "no-store"),
    ];
    (headers, body).into_response()
}

#[cfg(test)]
mod tests;
