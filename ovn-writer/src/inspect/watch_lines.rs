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
    realized::{CachedFlows, Proof},
    sync::change_log::Cause,
    watch_events::WatchEvent,
};

/// The sources of `/watch`.
#[derive(Clone, Debug)]
pub struct WatchSources {
    pub events: WatchSubscribers<WatchEvent>,
    pub leader: Leader,
    pub is_dry_run: bool,
}

impl Default for WatchSources {
    fn default() -> Self {
        Self {
            events: WatchSubscribers::default(),
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
        /// The number of the `realized` line that follows, if one does.
        follow_up: Option<u64>,
    },
    Realized {
        follow_up: u64,
        proof: &'static str,
        /// Why it is not `confirmed`.
        reason: Option<&'static str>,
        rules_at: Option<Timestamp>,
        cached_flows_at: Option<Timestamp>,
        /// Why that is not known.
        cached_flows_unknown: Option<&'a str>,
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
    let line = |event: &WatchEvent| json(&Line::of(event));
    (inspector.sources.watch.events).answer(&exchange, state, line)
}

impl<'a> Line<'a> {
    fn of(event: &'a WatchEvent) -> Self {
        let now = (Clock::system().now(), Instant::now());
        let wall = |at: Instant| now.0.before(now.1.saturating_duration_since(at));
        match event {
            WatchEvent::Set { change, follow_up } => Self::Set {
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
                follow_up: *follow_up,
            },
            WatchEvent::Realized {
                follow_up,
                realized,
            } => {
                let is_in = matches!(realized.proof, Proof::Confirmed | Proof::Assumed(_));
                let (cached_flows_at, cached_flows_unknown) = match &realized.cached_flows {
                    CachedFlows::Gone(at) => (Some(wall(at.into_std())), None),
                    CachedFlows::Unknown(reason) => (None, Some(reason.as_str())),
                };
                Self::Realized {
                    follow_up: *follow_up,
                    proof: realized.proof.as_str(),
                    reason: realized.proof.reason(),
                    rules_at: is_in.then(|| wall(realized.rules_at.into_std())),
                    cached_flows_at,
                    cached_flows_unknown,
                }
            }
        }
    }
}
