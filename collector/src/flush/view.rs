//! The states of DNS servers' streams, for the status page.

use std::{net::SocketAddr, time::Duration};

use runtime::inspect::text::seconds;
use serde::Serialize;
use tokio::time::Instant;

use super::plan::{BlockState, Plan};

/// One block of one server.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockView {
    pub server: SocketAddr,
    /// The name by which its block is probed.
    pub name: String,
    /// `flushed`: its stream comes here, and this collector flushes it when it has no traffic.
    /// `standby`: another collector flushes it. `trying`, `searching`: it was not received yet.
    /// `blind`: it was not received for 30 s. `forwards`: it forwards probes, and gets no more.
    /// `resting`: no name is wanted.
    pub state: BlockState,
    /// The number of its streams that come to this collector.
    pub streams: usize,
    /// How long ago a probe was last seen in one.
    #[serde(rename = "reportedSeconds", serialize_with = "seconds")]
    pub reported: Option<Duration>,
    /// The time from that probe to the flush.
    #[serde(rename = "delaySeconds", serialize_with = "seconds")]
    pub delay: Option<Duration>,
    /// The response code of the last answer to a probe.
    pub rcode: Option<u8>,
}

impl BlockState {
    /// Every value of [`BlockState::as_str`].
    pub const WORDS: &[&str] = &[
        "resting",
        "trying",
        "flushed",
        "standby",
        "searching",
        "blind",
        "forwards",
    ];

    /// The value in metric labels and `/status.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resting => "resting",
            Self::Trying => "trying",
            Self::Flushed => "flushed",
            Self::Standby => "standby",
            Self::Searching => "searching",
            Self::NotReporting => "blind",
            Self::Forwards => "forwards",
        }
    }
}

/// The current state of all blocks.
pub fn view(plan: &Plan, now: Instant) -> Vec<BlockView> {
    let all = plan.all();
    all.filter_map(|(key, target, state)| {
        let (server, name) = plan.block(key)?;
        Some(BlockView {
            server,
            name: name.to_string(),
            state,
            streams: target.streams(),
            reported: target.reported.map(|at| now.duration_since(at)),
            delay: target.delay,
            rcode: target.rcode,
        })
    })
    .collect()
}
