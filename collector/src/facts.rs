//! The status at `/status.json`, all addresses at `/names.json`, new ones at `/new-addresses.json`, and captures at
//! `/capture`.
//!
//! The publisher is asked for a [`View`] at most once a second, however many requests there are. It hands over a copy
//! and never waits for a reader.

mod capture;
mod explain;
mod names;
mod problems;
mod status;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::{Path, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use proto::facts::{LONGEST_CAPTURE, NEW_ADDRESSES, NameAddresses};
use runtime::{
    admin::Health,
    clock::Clock,
    http::Exchange,
    inspect::{Inspect, busy, explain::QueryPacer, json, refusal},
    instance::Instance,
    store::BadObjects,
};
use tokio::{
    sync::{Mutex, mpsc, oneshot, watch},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

pub use self::status::Status;
use crate::{
    flush::BlockView,
    listen::{CaptureSubscribers, ConnectionTable, PeerIds},
    matching::answer_cache::AnswerCache,
    publish::{InspectRequest, NewAddresses, View},
    rules::{BySource, Overview, ReferencesRequest},
};

/// The most requests that wait for the publisher; further ones wait at the sender.
pub const QUEUE: usize = 4;

/// How long a status is reused for other requests.
const REUSED_FOR: Duration = Duration::from_secs(1);

/// The time-out of the publisher's answer.
const ANSWER_DEADLINE: Duration = Duration::from_secs(5);

/// How much longer than its duration a capture may take.
const CAPTURE_EXTRA_TIME: Duration = Duration::from_secs(10);

const PROGRAM: &str = "collector";

/// The sources of the answers.
#[derive(Clone, Debug)]
pub struct InspectSources {
    /// The publisher of the statuses.
    pub publisher: mpsc::Sender<InspectRequest>,
    pub rules: RuleSources,
    pub dns: DnsSources,
    /// Cached answers for names without a rule.
    pub remembered: AnswerCache,
    /// The peers by their numbers.
    pub peers: PeerIds,
    /// The connected peers, and the dropped observations.
    pub connections: ConnectionTable,
    /// Where the process runs.
    pub instance: Instance,
    /// The time of facts without their own.
    pub clock: Clock,
    /// Where captures subscribe.
    pub captures: CaptureSubscribers,
    /// The latest new addresses.
    pub new_addresses: NewAddresses,
    /// The conditions of readiness.
    pub health: Health,
    /// Objects that cannot be decoded.
    pub bad_objects: BadObjects,
}

/// The sources about rules.
#[derive(Clone, Debug)]
pub struct RuleSources {
    /// The tasks that know the rules, one for each kind.
    pub tasks: Vec<mpsc::Sender<ReferencesRequest>>,
    pub overview: watch::Receiver<BySource<Arc<Overview>>>,
}

/// The sources about the cluster's DNS.
#[derive(Clone, Debug)]
pub struct DnsSources {
    /// The server blocks of DNS servers.
    pub blocks: watch::Receiver<Arc<Vec<BlockView>>>,
}

/// Serves until the token is cancelled.
///
/// # Errors
/// Those of [`Inspect::serve`].
pub async fn serve(
    inspect: Inspect,
    sources: InspectSources,
    token: CancellationToken,
) -> anyhow::Result<()> {
    inspect.serve(router(sources), token).await
}

fn router(sources: InspectSources) -> Router {
    Router::new()
        .route("/status.json", get(in_json))
        .route("/names.json", get(names::in_json))
        .route("/explain.json", get(explain::in_json))
        .route(NEW_ADDRESSES, get(new_addresses))
        .route("/capture/{milliseconds}/{bytes}", get(captured))
        .with_state(Arc::new(Inspector {
            sources,
            shown: Mutex::default(),
            pacer: QueryPacer::default(),
        }))
}

/// Asks the publisher, and caches its answer for a moment.
#[derive(Debug)]
struct Inspector {
    sources: InspectSources,
    shown: Mutex<Option<(Instant, Arc<Status>)>>,
    pacer: QueryPacer,
}

impl Inspector {
    /// The current status; `None` if the publisher does not answer.
    async fn status(&self) -> Option<Arc<Status>> {
        // Concurrent requests wait here and get the same answer.
        let mut shown = self.shown.lock().await;
        if let Some((at, status)) = &*shown
            && at.elapsed() < REUSED_FOR
        {
            return Some(Arc::clone(status));
        }
        let asked = async {
            let (sender, answer) = oneshot::channel();
            let question = InspectRequest::View(sender);
            self.sources.publisher.send(question).await.ok()?;
            answer.await.ok()
        };
        let view = timeout(ANSWER_DEADLINE, asked).await.ok().flatten()?;
        let status = Arc::new(with_problems(view, &self.sources));
        *shown = Some((Instant::now(), Arc::clone(&status)));
        Some(status)
    }
}

/// The status with its problems.
fn with_problems(view: View, sources: &InspectSources) -> Status {
    let mut status = Status::new(view, sources);
    status.problems = problems::find(&status);
    status
}

async fn in_json(State(inspector): State<Arc<Inspector>>) -> Response {
    match inspector.status().await {
        Some(status) => json(&*status),
        None => busy(PROGRAM),
    }
}

async fn new_addresses(State(inspector): State<Arc<Inspector>>) -> Response {
    let sources = &inspector.sources;
    json(&NameAddresses {
        now: sources.clock.now(),
        new_addresses: sources.new_addresses.facts(&sources.peers),
    })
}

async fn captured(
    State(inspector): State<Arc<Inspector>>,
    Extension(exchange): Extension<Exchange>,
    Path((milliseconds, bytes)): Path<(u64, usize)>,
) -> Response {
    let Some(capture) = inspector.sources.captures.open() else {
        let words = "too many captures are running: try again when one has ended";
        return refusal(StatusCode::SERVICE_UNAVAILABLE, words);
    };
    let duration = Duration::from_millis(milliseconds).min(LONGEST_CAPTURE);
    exchange.last(duration + CAPTURE_EXTRA_TIME);
    let body = capture::body(capture, duration, bytes);
    ([(CONTENT_TYPE, "application/octet-stream")], body).into_response()
}
