//! What is known of one server block of a DNS server.

use std::{net::SocketAddr, time::Duration};

use runtime::inspect::text::seconds;
use serde::Serialize;
use tokio::time::Instant;

use super::probe::Nonce;

/// A block none of whose probes came back for this time is not streaming.
pub const NOT_STREAMING_AFTER: Duration = Duration::from_secs(30);

/// The pause after the first probe was answered and seen, until it is clear that the server did not
/// forward it. CoreDNS logs a forwarded query before it answers, and buffers events for at most a
/// second.
const QUIET: Duration = Duration::from_millis(1_500);

/// When the first probe counts as lost, and another one is sent.
const TRIAL: Duration = Duration::from_secs(5);

/// The state of a block.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockState {
    /// No name is wanted, so there are no probes.
    #[default]
    Resting,
    /// The result of the first probe is awaited.
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
    pub const WORDS: &[&str] = &[
        "resting",
        "trying",
        "streaming",
        "not_streaming",
        "forwards",
    ];

    /// The value in metric labels and `/status.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resting => "resting",
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

/// How a block handles probes, as far as it is known.
#[derive(Debug, Default)]
enum Handling {
    #[default]
    Untried,
    /// The first probe was sent. No other one is sent before its result.
    Trial(Trial),
    /// It answers probes by itself.
    Answers,
    /// It forwards probes, and gets no more.
    Forwards,
}

#[derive(Debug)]
struct Trial {
    nonce: Nonce,
    sent: Instant,
    answered: Option<Instant>,
    seen: Option<Instant>,
}

/// One server block of one DNS server, identified by the name that is asked for.
#[derive(Debug, Default)]
pub(super) struct Block {
    handling: Handling,
    /// When the first probe was sent since one last came back.
    waiting_since: Option<Instant>,
    reported: Option<Instant>,
    delay: Option<Duration>,
    rcode: Option<u8>,
}

impl Block {
    /// Applies the time that has passed. Returns whether to send a probe now.
    pub(super) fn advance(&mut self, now: Instant) -> bool {
        match &self.handling {
            Handling::Untried => true,
            Handling::Trial(trial) => {
                let (end, next) = match (trial.answered, trial.seen) {
                    (Some(answered), Some(seen)) => (answered.max(seen) + QUIET, Handling::Answers),
                    _ => (trial.sent + TRIAL, Handling::Untried),
                };
                let is_over = end <= now;
                if is_over {
                    self.handling = next;
                }
                is_over
            }
            Handling::Answers => {
                // It may have another configuration when it comes back.
                if self.is_not_streaming(now) {
                    self.handling = Handling::Untried;
                }
                true
            }
            Handling::Forwards => false,
        }
    }

    pub(super) fn on_sent(&mut self, nonce: Nonce, now: Instant) {
        self.waiting_since.get_or_insert(now);
        if matches!(self.handling, Handling::Untried) {
            self.rcode = None;
            self.handling = Handling::Trial(Trial {
                nonce,
                sent: now,
                answered: None,
                seen: None,
            });
        }
    }

    pub(super) fn on_answer(&mut self, nonce: Nonce, rcode: u8, now: Instant) {
        self.rcode = Some(rcode);
        if let Handling::Trial(trial) = &mut self.handling
            && trial.nonce == nonce
        {
            trial.answered = Some(now);
        }
    }

    /// Its probe came back in a stream, with this delay.
    pub(super) fn on_seen(&mut self, nonce: Nonce, delay: Duration, now: Instant) {
        self.waiting_since = None;
        self.reported = Some(now);
        self.delay = Some(delay);
        if let Handling::Trial(trial) = &mut self.handling
            && trial.nonce == nonce
        {
            trial.seen = Some(now);
        }
    }

    /// A stream shows that it forwarded a probe.
    pub(super) fn on_forwarded(&mut self) {
        self.handling = Handling::Forwards;
    }

    /// No name is wanted any more.
    pub(super) fn rest(&mut self) {
        self.waiting_since = None;
        if let Handling::Trial(_) = self.handling {
            self.handling = Handling::Untried;
        }
    }

    fn is_not_streaming(&self, now: Instant) -> bool {
        let since = self.waiting_since;
        since.is_some_and(|since| since + NOT_STREAMING_AFTER <= now)
    }

    /// The state while names are wanted.
    fn state(&self, now: Instant) -> BlockState {
        match self.handling {
            Handling::Forwards => BlockState::Forwards,
            _ if self.is_not_streaming(now) => BlockState::NotStreaming,
            Handling::Untried | Handling::Trial(_) => BlockState::Trying,
            Handling::Answers => BlockState::Streaming,
        }
    }

    pub(super) fn view(
        &self,
        server: SocketAddr,
        name: String,
        is_wanted: bool,
        now: Instant,
    ) -> BlockView {
        BlockView {
            server,
            name,
            state: match is_wanted {
                true => self.state(now),
                false => BlockState::Resting,
            },
            reported: self.reported.map(|at| now.duration_since(at)),
            delay: self.delay,
            rcode: self.rcode,
        }
    }
}
