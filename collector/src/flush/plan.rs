//! Which server's block is probed when, and what came of it. No IO.

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
    schedule::{self, Purpose},
    streams::{Open, Seen},
    target::{Target, Verdict},
};

/// How much of the budget may be spent at once.
const BURST: Duration = Duration::from_millis(100);

/// What was told to do.
#[derive(Clone, Debug)]
pub struct Config {
    /// How often a stream is pushed out; not zero.
    pub interval: Duration,
    /// Probes a second in all; where it is not enough they come less often.
    pub budget: NonZeroU32,
    /// One name a block.
    pub names: Arc<[DnsName]>,
}

/// A server, and one of the names by its number.
pub type Key = (SocketAddr, usize);

/// A probe to be sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Probe {
    /// Whom to.
    pub server: SocketAddr,
    /// For which name.
    pub name: usize,
    /// What it is known by.
    pub nonce: Nonce,
}

/// What is worth a word.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Notice {
    /// This one sends probes on, and gets no more.
    Forwards(Key),
    /// This one has not reported for [`BLIND`](super::target::BLIND).
    NotReporting(Key),
    /// This one was named, and reports again, or is nobody's concern any more.
    Reporting(Key),
}

/// How things stand with a server's block.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// No name is wanted: nothing is probed.
    Resting,
    /// The first probe is under way.
    Trying,
    /// Its stream comes here, and this collector flushes it where it does not flow by itself.
    Flushed,
    /// Its stream comes here, and the probes of another collector flush it.
    Standby,
    /// It has not reported yet, or not for a while.
    Searching,
    /// It has not reported for [`BLIND`](super::target::BLIND).
    #[serde(rename = "blind")]
    NotReporting,
    /// It sends probes on: nothing pushes its stream out.
    Forwards,
}

/// The addresses that the other collectors ask from; IPv4 is never mapped.
pub type Collectors = Arc<BTreeSet<IpAddr>>;

/// All that is known.
#[derive(Debug)]
pub struct Plan {
    config: Config,
    is_wanted: bool,
    targets: BTreeMap<Key, Target>,
    /// The addresses that the other collectors ask from.
    collectors: Collectors,
    open: Open,
    /// When the whole budget would be there again.
    full_at: Instant,
    notices: Vec<Notice>,
}

impl Plan {
    /// Of no servers.
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

    /// These are the servers.
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

    /// Whether any name is wanted.
    pub fn set_wanted(&mut self, is_wanted: bool) {
        self.is_wanted = is_wanted;
    }

    /// The other collectors ask from these addresses.
    pub fn set_collectors(&mut self, collectors: Collectors) {
        self.collectors = collectors;
    }

    /// These streams are open. A new one may be of a server that was not heard before.
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

    /// A probe was seen in a stream. Returns how long it took to push it out, if it is ours and was not seen before.
    pub fn seen(&mut self, seen: &Seen, now: Instant) -> Option<Duration> {
        let key = (seen.mark.server, seen.name);
        // Anybody can make up a probe of another server: only a collector is believed that this stream is that server's.
        let from_collector = seen
            .source
            .is_some_and(|source| self.collectors.contains(&source.to_canonical()));
        // It may have been closed meanwhile.
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
        if seen.is_forwarded && target.verdict != Verdict::Forwards {
            target.verdict = Verdict::Forwards;
            target.unreported_since = None;
            self.notices.push(Notice::Forwards(key));
        }
        is_new.then_some(target.delay).flatten()
    }

    /// A server answered a probe.
    pub fn answered(&mut self, probe: &Probe, rcode: u8, now: Instant) {
        if let Some(target) = self.targets.get_mut(&(probe.server, probe.name)) {
            target.answered(probe.nonce, rcode, now);
        }
    }

    /// The probes to send now, and when to ask again if nothing happens. Time is only looked at here.
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
            let is_ours = matches!(purpose, Some(Purpose::Flush | Purpose::Search { .. }));
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
            let may_look = target.is_expected && target.verdict != Verdict::Forwards;
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
        // Whoever waits for longest is first, if the budget is not for all.
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

    /// How often a stream is pushed out, as far as the budget goes.
    pub fn interval(&self) -> Duration {
        let (wanted, budget) = (self.config.interval, self.config.budget.get());
        let flushed =
            |target: &&Target| matches!(target.purpose(), Some(Purpose::Flush | Purpose::Standby));
        let count = self.targets.values().filter(flushed).count();
        schedule::interval(wanted, budget, count)
    }

    /// What is worth a word since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// The server and the name.
    pub fn block(&self, key: Key) -> Option<(SocketAddr, DnsName)> {
        Some((key.0, self.config.names.get(key.1)?.clone()))
    }

    /// Every server and block, and how things stand with it.
    pub fn all(&self) -> impl Iterator<Item = (Key, &Target, State)> {
        let state = |target: &Target| {
            if !self.is_wanted {
                return State::Resting;
            }
            match target.purpose() {
                None => State::Forwards,
                _ if target.is_named => State::NotReporting,
                _ if target.trial_end().is_some() => State::Trying,
                Some(Purpose::Flush) => State::Flushed,
                Some(Purpose::Standby) => State::Standby,
                Some(Purpose::Search { .. }) => State::Searching,
            }
        };
        let all = self.targets.iter();
        all.map(move |(key, target)| (*key, target, state(target)))
    }
}

#[cfg(test)]
mod tests;
