//! The state of one block of one DNS server.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

use super::{
    probe::Nonce,
    schedule::{Last, ProbePurpose},
    streams::{Flow, StreamId},
};

/// The most probes remembered: one that comes back later looks like another collector's.
const REMEMBERED: usize = 1_024;

/// The pause after the first probe was answered and seen, until it is clear whether the server
/// forwarded it. CoreDNS logs a forwarded query before it answers, and buffers events for at most a
/// second.
const QUIET: Duration = Duration::from_millis(1_500);

/// When the first probe counts as lost.
const TRIAL: Duration = Duration::from_secs(10);

/// After this time without a probe in it, a stream no longer counts as this server's.
const LAPSE: Duration = Duration::from_secs(5);

/// A block that does not report for this time is logged.
pub const BLIND: Duration = Duration::from_secs(30);

/// How the server handles probes, as far as it is known.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ProbeHandling {
    #[default]
    Untried,
    /// It answers them by itself.
    Answers,
    /// It forwards them, and gets no more.
    Forwards,
}

/// The first probe of a block, sent alone until its result is clear.
#[derive(Clone, Copy, Debug)]
struct Trial {
    nonce: Nonce,
    sent: Instant,
    answered: Option<Instant>,
    seen: Option<Instant>,
}

impl Trial {
    fn end(&self) -> Instant {
        match (self.answered, self.seen) {
            (Some(answered), Some(seen)) => answered.max(seen) + QUIET,
            _ => self.sent + TRIAL,
        }
    }
}

/// One block of one server, identified by the name that is queried.
#[derive(Debug, Default)]
pub struct Target {
    pub verdict: ProbeHandling,
    /// Probes since it was last received, or since a stream opened that may be its.
    pub attempts: u32,
    /// A stream opened that may be its: it is to be probed now.
    pub is_expected: bool,
    /// When the oldest probe was sent that has not come back.
    pub unreported_since: Option<Instant>,
    /// When it was last seen in a stream.
    pub reported: Option<Instant>,
    /// The time from the last probe to the flush.
    pub delay: Option<Duration>,
    /// The response code of the last answer.
    pub rcode: Option<u8>,
    /// It was logged as not reporting.
    pub is_named: bool,
    heard: Vec<(StreamId, Flow)>,
    /// The last probe seen is another collector's. All collectors see the probes of a server in the
    /// same order, so they agree on which of them continues.
    is_flushed_by_another: bool,
    trial: Option<Trial>,
    sent: VecDeque<(Nonce, Instant)>,
    last_sent: Option<Instant>,
}

impl Target {
    /// Whether its stream comes here.
    pub fn is_heard(&self) -> bool {
        !self.heard.is_empty()
    }

    /// The number of its streams that come here.
    pub fn streams(&self) -> usize {
        self.heard.len()
    }

    /// Records that a stream belongs to this block.
    pub fn hear(&mut self, stream: StreamId, flow: &Flow) {
        if self.heard.iter().all(|(id, _)| *id != stream) {
            self.heard.push((stream, flow.clone()));
        }
        self.attempts = 0;
        self.is_expected = false;
    }

    /// A stream opened that may be its. An unanswered first probe may have been lost with the
    /// server's previous process.
    pub fn expect(&mut self) {
        self.is_expected = true;
        self.attempts = 0;
        self.trial.take_if(|trial| trial.answered.is_none());
    }

    pub fn keep_streams(&mut self, is_open: impl Fn(StreamId) -> bool) {
        self.heard.retain(|(id, _)| is_open(*id));
    }

    /// Why it is probed; `None` if it is not.
    pub fn purpose(&self) -> Option<ProbePurpose> {
        Some(match (self.verdict, self.is_heard()) {
            (ProbeHandling::Forwards, _) => return None,
            (_, true) if self.is_flushed_by_another => ProbePurpose::Standby,
            (_, true) => ProbePurpose::Flush,
            (_, false) => ProbePurpose::Search {
                attempts: self.attempts,
            },
        })
    }

    /// Its last events.
    pub fn last(&self) -> Last {
        let least = |of: fn(&Flow) -> Option<Instant>| {
            let times = self.heard.iter().map(|(_, flow)| of(flow));
            times.min().flatten()
        };
        Last {
            sent: self.last_sent,
            flowed: least(Flow::flowed),
            moved: least(Flow::moved),
        }
    }

    /// Records a probe that was sent, or should have been.
    pub fn send(&mut self, nonce: Nonce, now: Instant) {
        if self.sent.len() == REMEMBERED {
            self.sent.pop_front();
        }
        self.sent.push_back((nonce, now));
        self.last_sent = Some(now);
        self.unreported_since.get_or_insert(now);
        self.attempts = self.attempts.saturating_add(1);
        self.is_expected = false;
        if self.verdict == ProbeHandling::Untried {
            self.trial = Some(Trial {
                nonce,
                sent: now,
                answered: None,
                seen: None,
            });
        }
    }

    /// Handles the server's answer to a probe.
    pub fn answered(&mut self, nonce: Nonce, rcode: u8, now: Instant) {
        self.rcode = Some(rcode);
        if let Some(trial) = self.trial.as_mut().filter(|trial| trial.nonce == nonce) {
            trial.answered = Some(now);
        }
    }

    /// When this collector sent the probe, if it did.
    pub fn sent_at(&self, nonce: Nonce) -> Option<Instant> {
        let mut sent = self.sent.iter().rev();
        sent.find(|(sent, _)| *sent == nonce).map(|(_, at)| *at)
    }

    /// Handles this collector's probe, sent at `sent`, in a stream.
    pub fn seen(&mut self, nonce: Nonce, sent: Instant, began: Instant, now: Instant) {
        if let Some(trial) = self.trial.as_mut().filter(|trial| trial.nonce == nonce) {
            trial.seen = Some(now);
        }
        while self.sent.front().is_some_and(|(_, at)| *at < sent) {
            self.sent.pop_front();
        }
        // The probe stays recorded, for other streams and in case the server forwards it.
        let later = self.sent.iter().find(|(other, _)| *other != nonce);
        self.unreported_since = later.map(|(_, at)| *at);
        self.reported = Some(now);
        self.is_flushed_by_another = false;
        self.delay = Some(began.duration_since(sent));
    }

    /// Handles another collector's probe in a stream.
    pub fn seen_anothers(&mut self, now: Instant) {
        self.unreported_since = None;
        self.is_flushed_by_another = true;
        self.reported = Some(now);
    }

    /// When the trial ends; `None` if it has ended or not begun.
    pub fn trial_end(&self) -> Option<Instant> {
        self.trial.as_ref().map(Trial::end)
    }

    /// Updates the state for the time that has passed.
    pub fn settle(&mut self, now: Instant) {
        if let Some(trial) = self.trial.filter(|trial| trial.end() <= now) {
            self.trial = None;
            if trial.answered.is_some()
                && trial.seen.is_some()
                && self.verdict == ProbeHandling::Untried
            {
                self.verdict = ProbeHandling::Answers;
            }
        }
        if self.lapses_at().is_some_and(|at| at <= now) {
            self.heard.clear();
            self.attempts = 0;
        }
    }

    /// When its streams cease to count as its own, if no probe comes back.
    pub fn lapses_at(&self) -> Option<Instant> {
        let since = self.unreported_since.filter(|_| self.is_heard())?;
        Some(since + LAPSE)
    }

    /// When it is logged as not reporting.
    pub fn blind_at(&self) -> Option<Instant> {
        Some(self.unreported_since? + BLIND)
    }

    /// No name is wanted: resets the state.
    pub fn rest(&mut self) {
        self.unreported_since = None;
        self.attempts = 0;
        self.trial = None;
    }
}
