//! The forwarder for administrators: whether it listens, and a switch for `egress hold`.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::put,
};
use metrics::gauge;
use proto::facts::{HoldFacts, HoldMode};
use runtime::inspect::refusal;
use tracing::info;

use super::LISTENING;

/// The state of the forwarder. Clones share it.
#[derive(Clone, Debug)]
pub struct HoldState(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    listen: SocketAddr,
    upstreams: Vec<SocketAddr>,
    is_listening: AtomicBool,
    /// Answers pass without being held. A restart ends that.
    passes: AtomicBool,
}

impl HoldState {
    pub fn new(listen: SocketAddr, upstreams: Vec<SocketAddr>) -> Self {
        Self(Arc::new(Inner {
            listen,
            upstreams,
            is_listening: AtomicBool::new(false),
            passes: AtomicBool::new(false),
        }))
    }

    pub fn facts(&self) -> HoldFacts {
        HoldFacts {
            listen: self.0.listen,
            upstreams: self.0.upstreams.clone(),
            listening: self.0.is_listening.load(Ordering::Relaxed),
            mode: self.mode(),
        }
    }

    /// The route of the switch. A collector without `--hold-listen` has none, and refuses.
    pub fn routes(state: Option<Self>) -> Router {
        Router::new()
            .route("/hold/{mode}", put(switch))
            .with_state(state)
    }

    pub(super) fn mode(&self) -> HoldMode {
        match self.0.passes.load(Ordering::Relaxed) {
            true => HoldMode::Pass,
            false => HoldMode::Hold,
        }
    }

    pub(super) fn set_mode(&self, mode: HoldMode) {
        self.0.passes.store(mode == HoldMode::Pass, Ordering::Relaxed);
    }

    pub(super) fn set_listening(&self, is_listening: bool) {
        self.0.is_listening.store(is_listening, Ordering::Relaxed);
        gauge!(LISTENING).set(f64::from(u8::from(is_listening)));
    }
}

// A browser sends no PUT for a page of another origin.
async fn switch(State(state): State<Option<HoldState>>, Path(mode): Path<HoldMode>) -> Response {
    let Some(state) = state else {
        return refusal(StatusCode::CONFLICT, "the collector has no --hold-listen");
    };
    state.set_mode(mode);
    info!(%mode, "an administrator set whether answers are held");
    StatusCode::NO_CONTENT.into_response()
}
