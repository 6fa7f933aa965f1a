//! Whether the server is there: when to ask, and what silence means. No IO.

use std::time::Duration;

use tokio::time::Instant;

/// When to ask the server whether it is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// After how long a silence.
    after: Duration,
    /// How long it has to answer.
    answer_within: Duration,
    /// Whether the connection ends if it does not.
    is_fatal: bool,
}

impl Probe {
    pub(super) fn of_network(after: Duration) -> Self {
        Self {
            after,
            answer_within: after,
            is_fatal: true,
        }
    }

    pub(super) fn of_local_socket(after: Duration) -> Self {
        Self {
            after,
            answer_within: after / 3,
            is_fatal: false,
        }
    }
}

/// What to do about a silence that lasts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Silence {
    /// Ask the server.
    Ask,
    /// Say that the server does not answer, and wait on.
    Unresponsive,
    /// Give the server up, after so long a silence.
    Dead(Duration),
}

/// What was heard of the server.
#[derive(Debug)]
pub(super) struct Liveness {
    probe: Option<Probe>,
    /// When the last bytes came, or the question went out.
    since: Instant,
    is_asked: bool,
    is_responsive: bool,
}

impl Liveness {
    pub(super) fn new(probe: Option<Probe>) -> Self {
        Self {
            probe,
            since: Instant::now(),
            is_asked: false,
            is_responsive: true,
        }
    }

    /// Bytes came, or nothing was read until now. Returns whether the server was unresponsive before.
    pub(super) fn heard(&mut self) -> bool {
        let was_unresponsive = !self.is_responsive;
        self.since = Instant::now();
        self.is_asked = false;
        self.is_responsive = true;
        was_unresponsive
    }

    /// When there is something to do if nothing comes.
    pub(super) fn due(&self) -> Option<Instant> {
        // Asked once, a local server answers before it does anything else when it is back.
        let probe = self.probe.filter(|_| self.is_responsive)?;
        let wait = if self.is_asked {
            probe.answer_within
        } else {
            probe.after
        };
        Some(self.since + wait)
    }

    /// What there is to do.
    pub(super) fn overdue(&mut self) -> Silence {
        match self.probe {
            Some(probe) if self.is_asked && probe.is_fatal => {
                Silence::Dead(probe.after + probe.answer_within)
            }
            Some(_) if self.is_asked => {
                self.is_responsive = false;
                Silence::Unresponsive
            }
            _ => {
                self.since = Instant::now();
                self.is_asked = true;
                Silence::Ask
            }
        }
    }
}
