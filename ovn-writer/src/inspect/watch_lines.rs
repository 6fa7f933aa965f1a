//! `/watch`: changes of sets, as lines of JSON.

use std::{net::IpAddr, sync::Arc, time::Instant};

use axum::{Extension, extract::State, response::Response};
use proto::api::{DnsName, Family};
use runtime::{
    clock::{Clock, Timestamp},
    http::Exchange,
    inspect::{text::json, watch::WatchSubscribers},
    leader::Leader,
};
use serde::Serialize;

use super::Inspector;
use crate::{
    explain::Idle,
    sync::{SetChange, change_log::Cause},
};

/// The sources of `/watch`.
#[derive(Clone, Debug)]
pub struct WatchSources {
    pub changes: WatchSubscribers<SetChange>,
    pub leader: Leader,
    pub is_dry_run: bool,
}

impl Default for WatchSources {
    fn default() -> Self {
        Self {
            changes: WatchSubscribers::default(),
            leader: Leader::sole(),
            is_dry_run: false,
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
enum Line<'a> {
    State {
        at: Timestamp,
        /// The number of events that the reader lost, since it is too slow.
        lost: u64,
        /// Why this process writes nothing, if so.
        idle: Option<Idle>,
    },
    Set {
        name: &'a DnsName,
        set: &'a str,
        controller: &'a str,
        family: Family,
        cause: Cause,
        added: &'a [IpAddr],
        more_added: usize,
        removed: &'a [String],
        more_removed: usize,
        seen_at: Option<Timestamp>,
        acknowledged_at: Timestamp,
    },
}

pub(super) async fn answer(
    State(inspector): State<Arc<Inspector>>,
    Extension(exchange): Extension<Exchange>,
) -> Response {
    let sources = inspector.sources.watch.clone();
    let state = move |lost| {
        let idle = match sources.is_dry_run {
            true => Some(Idle::DryRun),
            false => (!sources.leader.is_leading()).then_some(Idle::Standby),
        };
        let at = Clock::system().now();
        json(&Line::State { at, lost, idle })
    };
    let line = |change: &SetChange| json(&Line::of(change));
    (inspector.sources.watch.changes).answer(&exchange, state, line)
}

impl<'a> Line<'a> {
    fn of(change: &'a SetChange) -> Self {
        let now = (Clock::system().now(), Instant::now());
        let wall = |at: Instant| now.0.before(now.1.saturating_duration_since(at));
        Self::Set {
            name: &change.name,
            set: &change.set,
            controller: &change.controller,
            family: change.family,
            cause: change.cause,
            added: &change.added,
            more_added: change.more_added,
            removed: &change.removed,
            more_removed: change.more_removed,
            seen_at: change.seen.map(wall),
            acknowledged_at: wall(change.acknowledged),
        }
    }
}
