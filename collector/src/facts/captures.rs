//! What is read from the streams while a request lasts: captures at `/capture`, and the answers to clients at `/answers`. Nothing of it is
//! kept before or after.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::{Path, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use proto::facts::LONGEST_CAPTURE;
use runtime::{http::Exchange, inspect::refusal};
use tokio::sync::Semaphore;

use super::{
    answers::{self, Decoding},
    capture,
};
use crate::listen::CaptureSubscribers;

/// The most windows of answers at once.
const WINDOWS: usize = 2;

/// How much longer than its duration a request may take.
const EXTRA_TIME: Duration = Duration::from_secs(10);

/// The source of the captures.
#[derive(Clone, Debug)]
pub struct Captures {
    subscribers: CaptureSubscribers,
    decoding: Decoding,
    windows: Arc<Semaphore>,
}

impl Captures {
    pub fn new(subscribers: CaptureSubscribers, decoding: Decoding) -> Self {
        Self {
            subscribers,
            decoding,
            windows: Arc::new(Semaphore::new(WINDOWS)),
        }
    }

    /// Their routes.
    pub fn routes(self) -> Router {
        Router::new()
            .route("/capture/{milliseconds}/{bytes}", get(captured))
            .route("/answers/{milliseconds}", get(answered))
            .with_state(self)
    }
}

/// The routes of a collector that has no captures.
pub fn refused() -> Router {
    async fn is_off() -> Response {
        let words =
            "the administrator turned the captures off: `tap=false` in the collector's --inspect";
        refusal(StatusCode::FORBIDDEN, words)
    }
    Router::new()
        .route("/capture/{*any}", get(is_off))
        .route("/answers/{*any}", get(is_off))
}

async fn captured(
    State(captures): State<Captures>,
    Extension(exchange): Extension<Exchange>,
    Path((milliseconds, bytes)): Path<(u64, usize)>,
) -> Response {
    let Some(capture) = captures.subscribers.open() else {
        return too_many();
    };
    let duration = lasting(&exchange, milliseconds);
    let body = capture::body(capture.frames, duration, bytes);
    ([(CONTENT_TYPE, "application/octet-stream")], body).into_response()
}

async fn answered(
    State(captures): State<Captures>,
    Extension(exchange): Extension<Exchange>,
    Path(milliseconds): Path<u64>,
) -> Response {
    let Ok(permit) = Arc::clone(&captures.windows).try_acquire_owned() else {
        return too_many();
    };
    let Some(capture) = captures.subscribers.open() else {
        return too_many();
    };
    let duration = lasting(&exchange, milliseconds);
    let body = answers::body(capture, duration, captures.decoding, permit);
    ([(CONTENT_TYPE, "application/x-ndjson")], body).into_response()
}

/// Lets the request last for this time.
fn lasting(exchange: &Exchange, milliseconds: u64) -> Duration {
    let duration = Duration::from_millis(milliseconds).min(LONGEST_CAPTURE);
    exchange.last(duration + EXTRA_TIME);
    duration
}

fn too_many() -> Response {
    let words = "too many captures or windows are running: try again when one has ended";
    refusal(StatusCode::SERVICE_UNAVAILABLE, words)
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::Request};
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn taps_that_are_off_are_refused() {
        for path in ["/capture/1/1", "/answers/1"] {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let answer = refused().oneshot(request).await.unwrap();
            assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{path}");
        }
    }
}
