//! The error answers of an API server.

use std::time::Duration;

use http::{HeaderMap, header::RETRY_AFTER};
use kube::core::Status;

/// The maximum length of a foreign error text, such as a proxy's page, in characters.
const MAX_WORDS: usize = 300;

/// Why a request failed, with the server's message.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum ApiError {
    /// The object does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The object exists already.
    #[error("{0}")]
    AlreadyExists(String),
    /// The object changed, or is another one of the same name.
    #[error("{0}")]
    Conflict(String),
    /// The request, or the object to store, is too large.
    #[error("{0}")]
    TooLarge(String),
    /// The request can never succeed as it is, or is forbidden.
    #[error("{0}")]
    Invalid(String),
    /// The request succeeded, but its answer cannot be decoded.
    #[error("the answer cannot be read: {0}")]
    Undecodable(String),
    /// The server does not answer now. Whether the request succeeded is unknown.
    #[error("{reason}")]
    Unavailable {
        reason: String,
        /// The wait that the server asks for.
        retry_after: Option<Duration>,
    },
}

impl ApiError {
    pub(super) fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable {
            reason: reason.into(),
            retry_after: None,
        }
    }

    /// Converts an answer that is no success.
    pub(super) fn of(code: u16, headers: &HeaderMap, body: &[u8]) -> Self {
        let status: Option<Status> = serde_json::from_slice(body).ok();
        let status = status.unwrap_or_default();
        let words = if status.message.is_empty() {
            let text = String::from_utf8_lossy(body);
            let text: String = text.trim().chars().take(MAX_WORDS).collect();
            format!("status {code}: {text}").replace(['\n', '\r'], " ")
        } else {
            status.message.replace(['\n', '\r'], " ")
        };
        let details = status.details.as_ref();
        match code {
            // An answer without an object's name means that the kind is not served.
            404 if details.is_some_and(|details| {
                !details.name.is_empty() && details.kind != "namespaces"
            }) =>
            {
                Self::NotFound(words)
            }
            409 if status.reason == "AlreadyExists" => Self::AlreadyExists(words),
            409 => Self::Conflict(words),
            413 => Self::TooLarge(words),
            // The message of etcd, or of the connection to it, about an object that is too large.
            500 if words.contains("is too large") || words.contains("message larger than max") => {
                Self::TooLarge(words)
            }
            401 | 404 | 408 | 410 | 429 | 500.. => Self::Unavailable {
                reason: words,
                retry_after: retry_after(headers)
                    .or_else(|| details.map(|details| details.retry_after_seconds.into()))
                    .filter(|seconds| *seconds > 0)
                    .map(Duration::from_secs),
            },
            _ => Self::Invalid(words),
        }
    }
}

/// In whole seconds; API servers send no dates.
fn retry_after(headers: &HeaderMap) -> Option<u64> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(code: u16, retry_after: Option<&'static str>, body: &str) -> ApiError {
        let mut headers = HeaderMap::new();
        if let Some(value) = retry_after {
            headers.insert(RETRY_AFTER, value.parse().unwrap());
        }
        ApiError::of(code, &headers, body.as_bytes())
    }

    fn status(reason: &str, message: &str, details: serde_json::Value) -> String {
        json!({ "kind": "Status", "reason": reason, "message": message, "details": details })
            .to_string()
    }

    #[test]
    fn what_is_not_there_is_told_from_a_kind_that_is_not_served() {
        let object = json!({ "name": "a", "kind": "dnsnameresolvers" });
        let body = status("NotFound", "\"a\" not found", object);
        assert!(matches!(refusal(404, None, &body), ApiError::NotFound(_)));
        for body in [
            "404 page not found".to_owned(),
            status(
                "NotFound",
                "the server could not find the requested resource",
                json!({}),
            ),
            status(
                "NotFound",
                "namespaces \"x\" not found",
                json!({ "name": "x", "kind": "namespaces" }),
            ),
        ] {
            let refusal = refusal(404, None, &body);
            assert!(matches!(refusal, ApiError::Unavailable { .. }), "{body}");
        }
    }

    #[test]
    fn a_conflict_is_told_from_a_name_that_is_taken() {
        let taken = status("AlreadyExists", "x", json!({}));
        let changed = status("Conflict", "x", json!({}));
        assert_eq!(
            refusal(409, None, &taken),
            ApiError::AlreadyExists("x".to_owned())
        );
        assert_eq!(
            refusal(409, None, &changed),
            ApiError::Conflict("x".to_owned())
        );
    }

    #[test]
    fn what_is_too_large_is_known_from_the_server_and_from_etcd() {
        let limit = "Request entity too large: limit is 3145728";
        for (code, words) in [
            (413, limit),
            (500, "etcdserver: request is too large"),
            (
                500,
                "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2 vs. 1)",
            ),
        ] {
            let body = status("", words, json!({}));
            assert_eq!(
                refusal(code, None, &body),
                ApiError::TooLarge(words.to_owned())
            );
        }
        let broken = refusal(500, None, "etcdserver: leader changed");
        assert!(matches!(broken, ApiError::Unavailable { .. }));
    }

    #[test]
    fn how_long_to_wait_is_read_from_the_header_or_the_body() {
        let wait = |refusal| match refusal {
            ApiError::Unavailable { retry_after, .. } => retry_after.map(|wait| wait.as_secs()),
            other => panic!("{other}"),
        };
        let body = status("", "busy", json!({ "retryAfterSeconds": 7 }));
        assert_eq!(wait(refusal(429, Some("3"), &body)), Some(3));
        assert_eq!(wait(refusal(503, None, &body)), Some(7));
        assert_eq!(wait(refusal(429, Some("soon"), "Too many requests")), None);
        assert_eq!(wait(refusal(500, None, "")), None);
    }

    #[test]
    fn the_words_are_one_line_and_not_too_many() {
        let page = format!("<html>\n{}", "x".repeat(10_000));
        let ApiError::Unavailable { reason, .. } = refusal(502, None, &page) else {
            panic!("a gateway's page");
        };
        assert!(
            reason.starts_with("status 502: <html> xxx") && reason.len() < 400,
            "{reason}"
        );
        for code in [400, 403, 422] {
            let body = status("Invalid", "spec.name: no", json!({}));
            let refused = refusal(code, None, &body);
            assert_eq!(refused, ApiError::Invalid("spec.name: no".to_owned()));
        }
    }
}
