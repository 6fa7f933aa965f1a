//! Liveness of the server: the time of probes, and the meaning of silence. No IO.

use std::time::Duration;

use tokio::time::Instant;

/// The time of a probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// The silence before it.
    after: Duration,
    /// The time-out for an answer.
    answer_within: Duration,
    /// Whether the connection ends without an answer.
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

/// The reaction to a silence.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Silence {
    /// Send a probe.
    Ask,
    /// Report that the server does not answer, and continue to wait.
    Unresponsive,
    /// Close the connection, after this silence.
    Dead(Duration),
}

/// The last sign of life of the server.
#[derive(Debug)]
pub(super) struct Liveness {
    probe: Option<Probe>,
    /// The time of the last bytes, or of the probe.
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

    /// Records received bytes, or the start of reading. Returns whether the server was unresponsive before.
    pub(super) fn heard(&mut self) -> bool {
        let was_unresponsive = !self.is_responsive;
        self.since = Instant::now();
        self.is_asked = false;
        self.is_responsive = true;
        was_unresponsive
    }

    /// The time of the next action, if no message comes.
    pub(super) fn due(&self) -> Option<Instant> {
        // One probe is enough: a local server answers it first when it is back.
        let probe = self.probe.filter(|_| self.is_responsive)?;
        let wait = if self.is_asked {
            probe.answer_within
        } else {
            probe.after
        };
        Some(self.since + wait)
    }

    /// The action that is due.
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
