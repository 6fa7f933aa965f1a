//! What is known of one block of one DNS server.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

use super::{
    probe::Nonce,
    schedule::{Last, Purpose},
    streams::{Flow, StreamId},
};

/// Probes that are remembered: those that come back later cannot be told from others'.
const REMEMBERED: usize = 1_024;

/// For how long after the first probe was answered, and seen, nothing more is sent until it is known whether it was sent on. CoreDNS
/// says so before it answers, and keeps nothing back for longer than a second.
const QUIET: Duration = Duration::from_millis(1_500);

/// When the first probe is taken as lost.
const TRIAL: Duration = Duration::from_secs(10);

/// After so long without a report of its probes a stream is no longer taken for one of this server.
const LAPSE: Duration = Duration::from_secs(5);

/// A server's block that does not report for so long is named.
pub const BLIND: Duration = Duration::from_secs(30);

/// What is known of what the server does with probes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Verdict {
    /// Not tried yet.
    #[default]
    Untried,
    /// It answers them by itself.
    Answers,
    /// It sends them on: it gets no more.
    Forwards,
}

/// The first probe of a server's block, on its own until it is clear what becomes of it.
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

/// One block of one server, known by the name that is asked for.
#[derive(Debug, Default)]
pub struct Target {
    /// What the server does with probes.
    pub verdict: Verdict,
    /// Probes since it was last heard, or might be.
    pub attempts: u32,
    /// It may be heard since a moment: it is to be probed now.
    pub is_expected: bool,
    /// The longest that nothing came back.
    pub unreported_since: Option<Instant>,
    /// When it was last seen in a stream.
    pub reported: Option<Instant>,
    /// How long the last probe took to push the stream out.
    pub delay: Option<Duration>,
    /// The response code of the last answer.
    pub rcode: Option<u8>,
    /// It was named.
    pub is_named: bool,
    heard: Vec<(StreamId, Flow)>,
    /// The last probe that was seen is another collector's. All collectors see the probes of a server in one order, so
    /// they agree on which of them goes on.
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

    /// How many of its streams come here.
    pub fn streams(&self) -> usize {
        self.heard.len()
    }

    /// A stream is its.
    pub fn hear(&mut self, stream: StreamId, flow: &Flow) {
        if self.heard.iter().all(|(id, _)| *id != stream) {
            self.heard.push((stream, flow.clone()));
        }
        self.attempts = 0;
        self.is_expected = false;
    }

    /// A stream opened that may be its. A first probe that it has not answered may have been lost with the server's last process.
    pub fn expect(&mut self) {
        self.is_expected = true;
        self.attempts = 0;
        self.trial.take_if(|trial| trial.answered.is_none());
    }

    /// Forgets the streams that are not to be kept.
    pub fn keep_streams(&mut self, is_open: impl Fn(StreamId) -> bool) {
        self.heard.retain(|(id, _)| is_open(*id));
    }

    /// Why it is probed; nothing if it is not.
    pub fn purpose(&self) -> Option<Purpose> {
        Some(match (self.verdict, self.is_heard()) {
            (Verdict::Forwards, _) => return None,
            (_, true) if self.is_flushed_by_another => Purpose::Standby,
            (_, true) => Purpose::Flush,
            (_, false) => Purpose::Search {
                attempts: self.attempts,
            },
        })
    }

    /// The last that happened with it.
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

    /// A probe is sent, or was to be sent and could not be.
    pub fn send(&mut self, nonce: Nonce, now: Instant) {
        if self.sent.len() == REMEMBERED {
            self.sent.pop_front();
        }
        self.sent.push_back((nonce, now));
        self.last_sent = Some(now);
        self.unreported_since.get_or_insert(now);
        self.attempts = self.attempts.saturating_add(1);
        self.is_expected = false;
        if self.verdict == Verdict::Untried {
            self.trial = Some(Trial {
                nonce,
                sent: now,
                answered: None,
                seen: None,
            });
        }
    }

    /// The server answered a probe.
    pub fn answered(&mut self, nonce: Nonce, rcode: u8, now: Instant) {
        self.rcode = Some(rcode);
        if let Some(trial) = self.trial.as_mut().filter(|trial| trial.nonce == nonce) {
            trial.answered = Some(now);
        }
    }

    /// When one of our probes was sent, if it is one.
    pub fn sent_at(&self, nonce: Nonce) -> Option<Instant> {
        let mut sent = self.sent.iter().rev();
        sent.find(|(sent, _)| *sent == nonce).map(|(_, at)| *at)
    }

    /// One of our probes, sent at that time, was seen.
    pub fn seen(&mut self, nonce: Nonce, sent: Instant, began: Instant, now: Instant) {
        if let Some(trial) = self.trial.as_mut().filter(|trial| trial.nonce == nonce) {
            trial.seen = Some(now);
        }
        while self.sent.front().is_some_and(|(_, at)| *at < sent) {
            self.sent.pop_front();
        }
        // It stays, for other streams in which it will be seen, and in case it is sent on.
        let later = self.sent.iter().find(|(other, _)| *other != nonce);
        self.unreported_since = later.map(|(_, at)| *at);
        self.reported = Some(now);
        self.is_flushed_by_another = false;
        self.delay = Some(began.duration_since(sent));
    }

    /// Another collector's probe was seen.
    pub fn seen_anothers(&mut self, now: Instant) {
        self.unreported_since = None;
        self.is_flushed_by_another = true;
        self.reported = Some(now);
    }

    /// When the first probe will have told all that it can; nothing if it has, or was not sent.
    pub fn trial_end(&self) -> Option<Instant> {
        self.trial.as_ref().map(Trial::end)
    }

    /// Draws the conclusions that time brings.
    pub fn settle(&mut self, now: Instant) {
        if let Some(trial) = self.trial.filter(|trial| trial.end() <= now) {
            self.trial = None;
            if trial.answered.is_some() && trial.seen.is_some() && self.verdict == Verdict::Untried
            {
                self.verdict = Verdict::Answers;
            }
        }
        if self.lapses_at().is_some_and(|at| at <= now) {
            self.heard.clear();
            self.attempts = 0;
        }
    }

    /// When its streams are no longer taken for its own, if nothing comes.
    pub fn lapses_at(&self) -> Option<Instant> {
        let since = self.unreported_since.filter(|_| self.is_heard())?;
        Some(since + LAPSE)
    }

    /// When it will be named.
    pub fn blind_at(&self) -> Option<Instant> {
        Some(self.unreported_since? + BLIND)
    }

    /// Nobody wants to know.
    pub fn rest(&mut self) {
        self.unreported_since = None;
        self.attempts = 0;
        self.trial = None;
    }
}
