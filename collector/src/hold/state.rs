//! The forwarder for administrators: whether it listens, and a switch for `egress hold`.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use axum::{
    Router,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::put,
};
use metrics::{counter, gauge};
use proto::facts::HoldFacts;
use runtime::inspect::refusal;
use tracing::info;

use super::{ANSWERS, LISTENING};

/// The state of the forwarder. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct HoldState(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    listens: AtomicBool,
    /// Answers pass without being held. A restart ends that.
    passes: AtomicBool,
    queries: AtomicU64,
    unanswered: AtomicU64,
    /// The answers that waited long enough, and those that were sent before.
    held: AtomicU64,
    early: AtomicU64,
}

impl HoldState {
    pub fn facts(&self) -> HoldFacts {
        HoldFacts {
            listening: self.0.listens.load(Ordering::Relaxed),
            passing: self.passes(),
            queries: self.0.queries.load(Ordering::Relaxed),
            unanswered: self.0.unanswered.load(Ordering::Relaxed),
            held: self.0.held.load(Ordering::Relaxed),
            early: self.0.early.load(Ordering::Relaxed),
        }
    }

    /// The routes of the switch. A collector without `--hold-listen` has none, and refuses. A browser sends no PUT for a page of
    /// another origin.
    pub fn routes(state: Option<Self>) -> Router {
        let (hold, pass) = (state.clone(), state);
        Router::new()
            .route("/hold/hold", put(move || async { switch(hold, false) }))
            .route("/hold/pass", put(move || async { switch(pass, true) }))
    }

    pub(super) fn passes(&self) -> bool {
        self.0.passes.load(Ordering::Relaxed)
    }

    /// Counts a query.
    pub(super) fn count_query(&self, is_answered: bool) {
        self.0.queries.fetch_add(1, Ordering::Relaxed);
        let unanswered = u64::from(!is_answered);
        self.0.unanswered.fetch_add(unanswered, Ordering::Relaxed);
    }

    /// Counts an answer with an address for a wanted name. `outcome` is a metric label.
    pub(super) fn count_answer(&self, outcome: &'static str) {
        counter!(ANSWERS, "outcome" => outcome).increment(1);
        let counter = match outcome {
            "written" => &self.0.held,
            "late" | "full" => &self.0.early,
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn set_passes(&self, passes: bool) {
        self.0.passes.store(passes, Ordering::Relaxed);
    }

    pub(super) fn set_listens(&self, listens: bool) {
        self.0.listens.store(listens, Ordering::Relaxed);
        gauge!(LISTENING).set(f64::from(u8::from(listens)));
    }
}

fn switch(state: Option<HoldState>, passes: bool) -> Response {
    let Some(state) = state else {
        return refusal(StatusCode::CONFLICT, "the collector has no --hold-listen");
    };
    state.set_passes(passes);
    info!(
        passes,
        "an administrator set whether answers pass without being held"
    );
    StatusCode::NO_CONTENT.into_response()
}
