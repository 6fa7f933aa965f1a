//! Which server's block is probed when, and the results. No IO.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    num::NonZeroU32,
    sync::Arc,
    time::Duration,
};

use proto::api::DnsName;
use serde::Serialize;
use tokio::time::Instant;

use super::{
    probe::{Nonce, nonce},
    schedule::{self, ProbePurpose},
    streams::{Open, SeenProbe},
    target::{ProbeHandling, Target},
};

/// The most of the budget that may be spent at once.
const BURST: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub struct Config {
    /// The interval of flushing a stream; not zero.
    pub interval: Duration,
    /// Probes a second in total; the interval grows if they do not suffice.
    pub budget: NonZeroU32,
    /// One name for each block.
    pub names: Arc<[DnsName]>,
}

/// A server, and the index of one of the names.
pub type BlockKey = (SocketAddr, usize);

/// A probe to send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Probe {
    pub server: SocketAddr,
    /// The index of the name.
    pub name: usize,
    /// Identifies it in a stream.
    pub nonce: Nonce,
}

/// An event for the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Notice {
    /// This block forwards probes, and gets no more.
    Forwards(BlockKey),
    /// This block has not reported for [`BLIND`](super::target::BLIND).
    NotReporting(BlockKey),
    /// This block was logged as not reporting, and reports again, or no longer matters.
    Reporting(BlockKey),
}

/// The state of a server's block.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BlockState {
    /// No name is wanted, so there are no probes.
    Resting,
    /// The first probe is in progress.
    Trying,
    /// Its stream comes here. This collector flushes it whenever it has no traffic of its own.
    Flushed,
    /// Its stream comes here, and the probes of another collector flush it.
    Standby,
    /// It has not reported yet, or not for a while.
    Searching,
    /// It has not reported for [`BLIND`](super::target::BLIND).
    #[serde(rename = "blind")]
    NotReporting,
    /// It forwards probes, so nothing flushes its stream.
    Forwards,
}

/// The source addresses of the other collectors' queries; IPv4 is never mapped.
pub type Collectors = Arc<BTreeSet<IpAddr>>;

/// The state of all blocks.
#[derive(Debug)]
pub struct Plan {
    config: Config,
    /// Whether any name is wanted.
    pub is_wanted: bool,
    targets: BTreeMap<BlockKey, Target>,
    /// The source addresses of the other collectors' queries.
    pub collectors: Collectors,
    open: Open,
    /// When the whole budget is available again.
    full_at: Instant,
    notices: Vec<Notice>,
}

impl Plan {
    /// Without servers.
    pub fn new(config: Config, now: Instant) -> Self {
        Self {
            config,
            is_wanted: false,
            targets: BTreeMap::new(),
            collectors: Collectors::default(),
            open: Open::default(),
            full_at: now,
            notices: Vec::new(),
        }
    }

    pub fn set_servers(&mut self, servers: &BTreeSet<SocketAddr>) {
        let names = self.config.names.len();
        for server in servers {
            for name in 0..names {
                self.targets.entry((*server, name)).or_default();
            }
        }
        let notices = &mut self.notices;
        self.targets.retain(|key, target| {
            let stays = servers.contains(&key.0);
            if !stays && target.is_named {
                notices.push(Notice::Reporting(*key));
            }
            stays
        });
    }

    /// Sets the open streams. A new one may come from a server that was not received before.
    pub fn set_open(&mut self, open: Open) {
        let new = open.iter().filter(|(id, _)| !self.open.contains_key(id));
        let new: Vec<Option<IpAddr>> = new.map(|(_, opened)| opened.peer).collect();
        for (key, target) in &mut self.targets {
            target.keep_streams(|id| open.contains_key(&id));
            let server = key.0.ip().to_canonical();
            let mut peers = new.iter();
            if !target.is_heard() && peers.any(|peer| peer.is_none_or(|ip| ip == server)) {
                target.expect();
            }
        }
        self.open = open;
    }

    /// Handles a probe that was seen in a stream. Returns how long the flush took, if the probe is
    /// this collector's and was not seen before.
    pub fn seen(&mut self, seen: &SeenProbe, now: Instant) -> Option<Duration> {
        let key = (seen.mark.server, seen.name);
        // Any host can forge a probe for another server. Only a collector's probe proves that the
        // stream is that server's.
        let from_collector = seen
            .source
            .is_some_and(|source| self.collectors.contains(&source.to_canonical()));
        // The stream may have been closed meanwhile.
        let opened = self.open.get(&seen.stream)?;
        let target = self.targets.get_mut(&key)?;
        let sent = target.sent_at(seen.mark.nonce);
        if sent.is_none() && !from_collector {
            return None;
        }
        target.hear(seen.stream, &opened.flow);
        let is_new = match sent {
            Some(sent) => {
                let is_new = target.unreported_since.is_some_and(|since| since <= sent);
                target.seen(seen.mark.nonce, sent, seen.at, now);
                is_new && !seen.is_forwarded
            }
            None => {
                target.seen_anothers(now);
                false
            }
        };
        if std::mem::take(&mut target.is_named) {
            self.notices.push(Notice::Reporting(key));
        }
        if seen.is_forwarded && target.verdict != ProbeHandling::Forwards {
            target.verdict = ProbeHandling::Forwards;
            target.unreported_since = None;
            self.notices.push(Notice::Forwards(key));
        }
        is_new.then_some(target.delay).flatten()
    }

    /// Handles a server's answer to a probe.
    pub fn answered(&mut self, probe: &Probe, rcode: u8, now: Instant) {
        if let Some(target) = self.targets.get_mut(&(probe.server, probe.name)) {
            target.answered(probe.nonce, rcode, now);
        }
    }

    /// The probes to send now, and when to call again if no event comes. Only this call advances
    /// time.
    pub fn due(&mut self, now: Instant) -> (Vec<Probe>, Option<Instant>) {
        if !self.is_wanted {
            for (key, target) in &mut self.targets {
                target.rest();
                if std::mem::take(&mut target.is_named) {
                    self.notices.push(Notice::Reporting(*key));
                }
            }
            return (Vec::new(), None);
        }
        for target in self.targets.values_mut() {
            target.settle(now);
        }
        let interval = self.interval();
        let (mut ready, mut next) = (Vec::new(), None::<Instant>);
        let mut later = |at: Instant| next = Some(next.map_or(at, |next| next.min(at)));
        for (key, target) in &mut self.targets {
            let purpose = target.purpose();
            let is_ours = matches!(
                purpose,
                Some(ProbePurpose::Flush | ProbePurpose::Search { .. })
            );
            match target.blind_at().filter(|_| is_ours) {
                Some(at) if at > now => later(at),
                Some(_) if !std::mem::replace(&mut target.is_named, true) => {
                    self.notices.push(Notice::NotReporting(*key));
                }
                Some(_) => {}
                None if !is_ours && std::mem::take(&mut target.is_named) => {
                    self.notices.push(Notice::Reporting(*key));
                }
                None => {}
            }
            if let Some(at) = target.lapses_at() {
                later(at);
            }
            let may_look = target.is_expected && target.verdict != ProbeHandling::Forwards;
            if purpose.is_none() && !may_look {
                continue;
            }
            let due = match (target.trial_end(), purpose) {
                (Some(end), _) => end,
                (None, _) if may_look => now,
                (None, purpose) => purpose
                    .and_then(|purpose| schedule::due(purpose, target.last(), interval))
                    .unwrap_or(now),
            };
            if due <= now {
                ready.push((due, *key));
            } else {
                later(due);
            }
        }
        // If the budget does not suffice for all, the block that waits longest comes first.
        ready.sort_unstable();
        let cost = Duration::from_secs(1) / self.config.budget.get();
        let mut probes = Vec::new();
        for (_, key) in ready {
            if self.full_at > now + BURST {
                later(self.full_at - BURST);
                break;
            }
            self.full_at = self.full_at.max(now) + cost;
            let Some(target) = self.targets.get_mut(&key) else {
                continue;
            };
            let nonce = nonce();
            target.send(nonce, now);
            probes.push(Probe {
                server: key.0,
                name: key.1,
                nonce,
            });
            let purpose = target.purpose();
            let after = purpose.and_then(|it| schedule::due(it, target.last(), interval));
            let after = target.trial_end().or(after);
            after.into_iter().for_each(&mut later);
        }
        (probes, next)
    }

    /// The interval of flushing a stream, within the budget.
    pub fn interval(&self) -> Duration {
        let (wanted, budget) = (self.config.interval, self.config.budget.get());
        let flushed = |target: &&Target| {
            matches!(
                target.purpose(),
                Some(ProbePurpose::Flush | ProbePurpose::Standby)
            )
        };
        let count = self.targets.values().filter(flushed).count();
        schedule::interval(wanted, budget, count)
    }

    /// The events since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    pub fn block(&self, key: BlockKey) -> Option<(SocketAddr, DnsName)> {
        Some((key.0, self.config.names.get(key.1)?.clone()))
    }

    /// Every block with its state.
    pub fn all(&self) -> impl Iterator<Item = (BlockKey, &Target, BlockState)> {
        let state = |target: &Target| {
            if !self.is_wanted {
                return BlockState::Resting;
            }
            match target.purpose() {
                None => BlockState::Forwards,
                _ if target.is_named => BlockState::NotReporting,
                _ if target.trial_end().is_some() => BlockState::Trying,
                Some(ProbePurpose::Flush) => BlockState::Flushed,
                Some(ProbePurpose::Standby) => BlockState::Standby,
                Some(ProbePurpose::Search { .. }) => BlockState::Searching,
            }
        };
        let all = self.targets.iter();
        all.map(move |(key, target)| (*key, target, state(target)))
    }
}

#[cfg(test)]
mod tests;
