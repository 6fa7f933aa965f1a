//! Which server's block is probed when, and what came of it. No IO.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    num::NonZeroU32,
    sync::Arc,
    time::Duration,
};

use proto::api::DnsName;
use tokio::time::Instant;

use super::{
    probe::{Nonce, nonce},
    rendezvous,
    schedule::{self, Purpose},
    streams::{Open, Seen, StreamId},
    target::{Role, Target, Verdict},
};

/// How much of the budget may be spent at once.
const BURST: Duration = Duration::from_millis(100);

/// What was told to do.
#[derive(Clone, Debug)]
pub struct Config {
    /// How often a stream is pushed out; not zero.
    pub interval: Duration,
    /// Probes a second in all.
    pub budget: NonZeroU32,
    /// By what this replica is known to the others.
    pub replica: String,
    /// One name a block.
    pub names: Arc<[DnsName]>,
}

/// A server, and one of the names by its number.
pub type Key = (SocketAddr, usize);

/// A server and one of the names, as replicas tell each other.
pub type Block = (SocketAddr, DnsName);

/// What another replica tells.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Peer {
    /// By which addresses servers know it.
    pub addresses: BTreeSet<IpAddr>,
    /// What it hears.
    pub hears: BTreeSet<Block>,
    /// What sends probes on.
    pub forwards: BTreeSet<Block>,
}

/// The other replicas that live, by what they are known.
pub type Peers = Arc<BTreeMap<String, Peer>>;

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
    Blind(Key),
    /// This one was named, and reports again, or is nobody's concern any more.
    Sighted(Key),
}

/// How things stand with a server's block.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// No name is wanted: nothing is probed.
    Resting,
    /// The first probe is under way.
    Trying,
    /// Its stream comes here and is pushed out from here, where it does not flow by itself.
    Flushed,
    /// Its stream comes here, and another replica pushes it out; or it comes to others.
    Elsewhere,
    /// It has not reported yet, or not for a while.
    Searching,
    /// It has not reported for [`BLIND`](super::target::BLIND).
    Blind,
    /// It sends probes on: nothing pushes its stream out.
    Forwards,
}

/// All that is known.
#[derive(Debug)]
pub struct Plan {
    config: Config,
    is_wanted: bool,
    targets: BTreeMap<Key, Target>,
    peers: Peers,
    open: Open,
    /// When the whole budget would be there again.
    full_at: Instant,
    notices: Vec<Notice>,
    /// Roles are to be given anew.
    has_changed: bool,
    /// Blocks that some replica hears, and that are probed.
    heard: usize,
}

impl Plan {
    /// Of no servers.
    pub fn new(config: Config, now: Instant) -> Self {
        Self {
            config,
            is_wanted: false,
            targets: BTreeMap::new(),
            peers: Peers::default(),
            open: Open::default(),
            full_at: now,
            notices: Vec::new(),
            has_changed: true,
            heard: 0,
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
                notices.push(Notice::Sighted(*key));
            }
            stays
        });
        self.has_changed = true;
    }

    /// Whether any name is wanted.
    pub fn set_wanted(&mut self, is_wanted: bool) {
        self.is_wanted = is_wanted;
    }

    /// These are the other replicas.
    pub fn set_peers(&mut self, peers: Peers) {
        self.peers = peers;
        self.has_changed = true;
    }

    /// These streams are open. A new one may be of a server that was not heard before.
    pub fn set_open(&mut self, open: Open) {
        let is_new = |id: &StreamId| !self.open.contains_key(id);
        let new: Vec<Option<IpAddr>> = open
            .iter()
            .filter(|(id, _)| is_new(id))
            .map(|(_, opened)| opened.peer)
            .collect();
        for (key, target) in &mut self.targets {
            target.keep_streams(|id| open.contains_key(&id));
            if target.is_heard() {
                continue;
            }
            let may_be = |peer: &Option<IpAddr>| peer.is_none_or(|ip| ip == canonical(key.0));
            if new.iter().any(may_be) {
                target.expect();
            }
        }
        self.open = open;
        self.has_changed = true;
    }

    /// A probe was seen in a stream. Returns how long it took to push it out, if it is ours and was not seen before.
    pub fn seen(&mut self, seen: &Seen, now: Instant) -> Option<Duration> {
        let key = (seen.mark.server, seen.name);
        let from_peer = seen.source.is_some_and(|source| {
            let mut peers = self.peers.values();
            peers.any(|peer| peer.addresses.contains(&source))
        });
        // It may have been closed meanwhile.
        let opened = self.open.get(&seen.stream)?;
        let target = self.targets.get_mut(&key)?;
        let sent = target.sent_at(seen.mark.nonce);
        if sent.is_none() && !from_peer {
            return None;
        }
        self.has_changed |= !target.is_heard();
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
            self.notices.push(Notice::Sighted(key));
        }
        if seen.is_forwarded && target.verdict != Verdict::Forwards {
            target.verdict = Verdict::Forwards;
            target.unreported_since = None;
            self.has_changed = true;
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
                    self.notices.push(Notice::Sighted(*key));
                }
            }
            return (Vec::new(), None);
        }
        for target in self.targets.values_mut() {
            self.has_changed |= target.settle(now);
        }
        self.assign();
        let interval = self.interval();
        let (mut ready, mut next) = (Vec::new(), None::<Instant>);
        let mut later = |at: Instant| next = Some(next.map_or(at, |next| next.min(at)));
        for (key, target) in &mut self.targets {
            let purpose = target.purpose();
            let is_ours = matches!(purpose, Some(Purpose::Flush | Purpose::Search { .. }));
            match target.blind_at().filter(|_| is_ours) {
                Some(at) if at > now => later(at),
                Some(_) if !std::mem::replace(&mut target.is_named, true) => {
                    self.notices.push(Notice::Blind(*key));
                }
                Some(_) => {}
                None if !is_ours && std::mem::take(&mut target.is_named) => {
                    self.notices.push(Notice::Sighted(*key));
                }
                None => {}
            }
            if let Some(at) = target.lapses_at() {
                later(at);
            }
            let may_look = target.is_expected && target.role != Role::Forwards;
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
        schedule::interval(wanted, budget, self.heard)
    }

    /// Draws the conclusions from what was told since the last time.
    fn assign(&mut self) {
        if !std::mem::take(&mut self.has_changed) {
            return;
        }
        let mut heard = 0;
        for (key, target) in &mut self.targets {
            target.role = role(*key, target, &self.config, &self.peers);
            let anybody_hears = !matches!(target.role, Role::Forwards | Role::Search);
            heard += usize::from(anybody_hears);
        }
        self.heard = heard;
    }

    /// What is worth a word since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// What the other replicas are to know.
    pub fn announcement(&self) -> (BTreeSet<Block>, BTreeSet<Block>) {
        let of = |is_in: fn(&Target) -> bool| {
            let those = self.targets.iter().filter(|(_, target)| is_in(target));
            those.filter_map(|(key, _)| self.block(*key)).collect()
        };
        let forwards = of(|target| target.verdict == Verdict::Forwards);
        (of(Target::is_heard), forwards)
    }

    /// The server and the name.
    pub fn block(&self, key: Key) -> Option<Block> {
        Some((key.0, self.config.names.get(key.1)?.clone()))
    }

    /// Every server and block, and how things stand with it.
    pub fn all(&self) -> impl Iterator<Item = (Key, &Target, State)> {
        let state = |target: &Target| {
            if !self.is_wanted {
                return State::Resting;
            }
            match target.role {
                Role::Forwards => State::Forwards,
                _ if target.is_named => State::Blind,
                Role::Elsewhere | Role::Standby => State::Elsewhere,
                _ if target.trial_end().is_some() => State::Trying,
                Role::Flush => State::Flushed,
                Role::Search => State::Searching,
            }
        };
        let all = self.targets.iter();
        all.map(move |(key, target)| (*key, target, state(target)))
    }
}

/// What this replica has to do with a server's block.
fn role(key: Key, target: &Target, config: &Config, peers: &Peers) -> Role {
    let Some(block) = config.names.get(key.1).map(|name| (key.0, name.clone())) else {
        return Role::Elsewhere;
    };
    let all = || peers.iter();
    if target.verdict == Verdict::Forwards || all().any(|(_, peer)| peer.forwards.contains(&block))
    {
        return Role::Forwards;
    }
    let ours = config.replica.as_str();
    let mut hearers: Vec<&str> = all()
        .filter(|(_, peer)| peer.hears.contains(&block))
        .map(|(replica, _)| replica.as_str())
        .collect();
    if target.is_heard() {
        hearers.push(ours);
        return match rendezvous::owner(hearers, key.0) == Some(ours) {
            true => Role::Flush,
            false => Role::Standby,
        };
    }
    let live = all().map(|(replica, _)| replica.as_str()).chain([ours]);
    match hearers.is_empty() && rendezvous::owner(live, key.0) == Some(ours) {
        true => Role::Search,
        false => Role::Elsewhere,
    }
}

fn canonical(server: SocketAddr) -> IpAddr {
    server.ip().to_canonical()
}

#[cfg(test)]
mod tests;
