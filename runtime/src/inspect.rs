//! The state of a program, for administrators. It has every tenant's names, so its listener is separate and cannot be
//! reached from other hosts.
//!
//! - [`client`]: the subcommands that query it; their arguments are in [`Asked`].
//! - [`explain`]: the answers to them.
//! - `page`: the same state as a page.
//! - [`problems`]: the faults that need an administrator.
//! - [`text`]: foreign texts, safe for a terminal and for JSON.

mod asked;
pub mod client;
pub mod explain;
mod page;
pub mod problems;
pub mod text;

use std::time::Duration;

use anyhow::Context;
use axum::{
    Router,
    body::Body,
    http::{
        HeaderName, HeaderValue, StatusCode,
        header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS},
    },
    response::{IntoResponse, Response},
};
use proto::api::{DnsName, NameError};
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tracing::info;

pub use self::asked::{Asked, Subject};
use crate::{
    http,
    listen::{Access, ListenAddress, Listener},
};

/// The page runs and loads only what this server has, beside the icon in its URL, and cannot be framed.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; frame-ancestors 'none'";

/// The limits of clients. Each client that does not read a large answer holds all of it in memory.
const LIMITS: http::Limits = http::Limits {
    connections: 12,
    head: Duration::from_secs(2),
    exchange: Duration::from_secs(20),
};

/// The longest text in a query, in bytes: four times the longest name.
const MAX_ASKED: usize = 1024;

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

    /// Serves these routes and the page until the token is cancelled: twelve requests at once, each within 20 s unless
    /// its handler extends that.
    ///
    /// # Errors
    /// The errors of [`http::serve`].
    pub async fn serve(self, router: Router, token: CancellationToken) -> anyhow::Result<()> {
        http::serve(self.0, router.merge(page::router()), LIMITS, token).await
    }
}

/// The values of a query string; the last one of each key counts.
///
/// # Errors
/// The query string is longer than any valid one.
pub fn query<const N: usize>(
    query: Option<&str>,
    keys: [&str; N],
) -> Result<[Option<String>; N], QueryError> {
    let query = query.unwrap_or_default();
    // Each octet may take three characters.
    if query.len() > 3 * MAX_ASKED {
        return Err(QueryError::TooLong);
    }
    let mut values = [const { None }; N];
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        let place = keys.iter().position(|known| *known == key);
        if let Some(slot) = place.and_then(|place| values.get_mut(place)) {
            *slot = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
        }
    }
    Ok(values)
}

/// The name after which a list goes on.
///
/// # Errors
/// It is no DNS name.
pub fn list_after(after: Option<&str>) -> Result<Option<DnsName>, QueryError> {
    let after = after.map(DnsName::parse).transpose();
    after.map_err(QueryError::After)
}

/// A query cannot be answered.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum QueryError {
    /// It is longer than any valid one.
    #[error("the query is too long")]
    TooLong,
    /// The parameter `after` is no DNS name.
    #[error("after: {0}")]
    After(NameError),
}

impl IntoResponse for QueryError {
    fn into_response(self) -> Response {
        let status = match self {
            Self::TooLong => StatusCode::URI_TOO_LONG,
            Self::After(_) => StatusCode::BAD_REQUEST,
        };
        refusal(status, &self.to_string())
    }
}

/// JSON in printable ASCII.
pub fn json(value: &impl Serialize) -> Response {
    match text::json(value) {
        Ok(text) => answer("application/json", text),
        Err(error) => refusal(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// An error answer: the task that has the data did not reply.
pub fn busy(program: &str) -> Response {
    let words = format!("the {program} is too busy, or about to end");
    refusal(StatusCode::SERVICE_UNAVAILABLE, &words)
}

/// An error answer with its reason.
pub fn refusal(status: StatusCode, words: &str) -> Response {
    (status, format!("{words}\n")).into_response()
}

fn answer(content_type: &'static str, body: impl Into<Body>) -> Response {
    let header = |name: HeaderName, value| (name, HeaderValue::from_static(value));
    let headers = [
        header(CONTENT_TYPE, content_type),
        header(CONTENT_SECURITY_POLICY, POLICY),
        header(X_CONTENT_TYPE_OPTIONS, "nosniff"),
        header(CACHE_CONTROL, "no-store"),
    ];
    (headers, body.into()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_gives_the_last_value_of_each_key_and_an_empty_one_is_none() {
        let keys = ["about", "namespace"];
        let some = |text: &str| Some(text.to_owned());
        for (asked, expected) in [
            (None, [None, None]),
            (Some("about=a.b&namespace="), [some("a.b"), None]),
            (Some("about=a&about=+%2A.b%20&x=y"), [some("*.b"), None]),
            (
                Some("about=%1b%ff&namespace=n"),
                [some("\u{1b}\u{fffd}"), some("n")],
            ),
            (Some("&&=&about"), [None, None]),
        ] {
            assert_eq!(query(asked, keys), Ok(expected), "{asked:?}");
        }
        let long = "x".repeat(3 * MAX_ASKED + 1);
        assert_eq!(query(Some(&long), keys), Err(QueryError::TooLong));
    }
}
