//! What is known of one server block of a DNS server.

use std::{net::SocketAddr, time::Duration};

use runtime::inspect::text::seconds;
use serde::Serialize;
use tokio::time::Instant;

/// A block none of whose probes came back for this time is not streaming.
pub const NOT_STREAMING_AFTER: Duration = Duration::from_secs(30);

/// The time between probes while none comes back. The block may forward them, which it cannot show without a stream.
const RETRY: Duration = Duration::from_secs(5);

/// The state of a block.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockState {
    /// No probe has come back yet.
    #[default]
    Trying,
    /// Probes come back.
    Streaming,
    /// No probe came back for [`NOT_STREAMING_AFTER`].
    NotStreaming,
    /// It forwards probes, and gets no more.
    Forwards,
}

impl BlockState {
    /// Every value of [`BlockState::as_str`].
    pub const WORDS: &[&str] = &["trying", "streaming", "not_streaming", "forwards"];

    /// The value in metric labels and `/status.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trying => "trying",
            Self::Streaming => "streaming",
            Self::NotStreaming => "not_streaming",
            Self::Forwards => "forwards",
        }
    }
}

/// A block, as the status shows it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockView {
    pub server: SocketAddr,
    /// The name by which its block is probed.
    pub name: String,
    pub state: BlockState,
    /// How long ago a probe last came back.
    #[serde(rename = "reportedSeconds", serialize_with = "seconds")]
    pub reported: Option<Duration>,
    /// The time from that probe to the flush.
    #[serde(rename = "delaySeconds", serialize_with = "seconds")]
    pub delay: Option<Duration>,
    /// The response code of the last answer to a probe.
    pub rcode: Option<u8>,
}

/// One server block of one DNS server, identified by the name that is queried.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// A stream has shown that it forwards probes: it gets no more.
    is_forwarding: bool,
    /// Probes come back.
    is_streaming: bool,
    last_sent: Option<Instant>,
    /// When the first probe was sent since one last came back.
    waiting_since: Option<Instant>,
    reported: Option<Instant>,
    delay: Option<Duration>,
    rcode: Option<u8>,
}

impl Block {
    /// Applies the time that has passed. Returns whether to send a probe now.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        if self.is_not_streaming(now) {
            self.is_streaming = false;
        }
        let is_retry_due = self.last_sent.is_none_or(|sent| sent + RETRY <= now);
        !self.is_forwarding && (self.is_streaming || is_retry_due)
    }

    pub(super) fn on_sent(&mut self, now: Instant) {
        self.last_sent = Some(now);
        self.waiting_since.get_or_insert(now);
        if !self.is_streaming {
            self.rcode = None;
        }
    }

    pub(super) fn on_answer(&mut self, rcode: u8) {
        self.rcode = Some(rcode);
    }

    /// Its probe came back in a stream, with this delay.
    pub(super) fn on_seen(&mut self, delay: Duration, now: Instant) {
        self.is_streaming = true;
        self.waiting_since = None;
        self.reported = Some(now);
        self.delay = Some(delay);
    }

    /// A stream shows that it forwarded a probe.
    pub(super) fn on_forwarded(&mut self) {
        self.is_forwarding = true;
    }

    fn is_not_streaming(&self, now: Instant) -> bool {
        let since = self.waiting_since;
        since.is_some_and(|since| since + NOT_STREAMING_AFTER <= now)
    }

    /// The state while names are wanted.
    fn state(&self, now: Instant) -> BlockState {
        if self.is_forwarding {
            BlockState::Forwards
        } else if self.is_not_streaming(now) {
            BlockState::NotStreaming
        } else if self.is_streaming {
            BlockState::Streaming
        } else {
            BlockState::Trying
        }
    }

    pub(super) fn view(&self, server: SocketAddr, name: String, now: Instant) -> BlockView {
        BlockView {
            server,
            name,
            state: self.state(now),
            reported: self.reported.map(|at| now.duration_since(at)),
            delay: self.delay,
            rcode: self.rcode,
        }
    }
}
