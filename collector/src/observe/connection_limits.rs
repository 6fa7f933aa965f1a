//! How many connections there are, of each peer and in all, and how fast each peer is read.

use std::{
    collections::HashMap,
    fmt,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::Mutex;
use runtime::{inspect::text::seconds, listen::Peer};
use serde::Serialize;
use tokio::time::Instant;

use super::queue;

/// Of the connections, those of peers that are not known yet may take one part in so many: known ones always find room.
const UNKNOWN_PART: usize = 2;

/// Peers that have left are looked through when there are so many, or twice as many as were left the last time.
const SWEEP: usize = 1 << 10;

/// How many connections there may be, and how fast they may be.
#[derive(Clone, Copy, Debug)]
pub struct MaxConnections {
    /// Connections in all, at least 1.
    pub connections: usize,
    /// Connections of one address, or of one process.
    pub of_peer: usize,
    /// Frames a second that are read of one peer, over all its connections. 0: as many as it sends.
    pub frames_per_second: u32,
}

/// Why there is no seat.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LimitExceeded {
    All,
    OfPeer,
    OfUnknown,
}

impl LimitExceeded {
    /// A word for metric labels.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::All => "too_many",
            Self::OfPeer => "too_many_of_peer",
            Self::OfUnknown => "too_many_unknown",
        }
    }
}

/// All connections. Clones share them.
#[derive(Clone, Debug)]
pub struct ConnectionTable {
    limits: MaxConnections,
    observations: queue::Sender,
    table: Arc<Mutex<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    taken: usize,
    unknown: usize,
    /// Those that may speak, and others apart from them: pods on the host network of a DNS server have its address.
    peers: HashMap<(Key, bool), PeerState>,
    /// With so many peers those are forgotten that can be.
    sweep_at: usize,
    /// What was dropped, in this process's life.
    drops: Drops,
}

impl Table {
    fn sweep(&mut self) {
        if self.peers.len() >= self.sweep_at {
            let now = Instant::now();
            self.peers.retain(|_, guest| !guest.is_over(now));
            self.sweep_at = SWEEP.max(self.peers.len() * 2);
        }
    }

    fn guest(&mut self, key: (Key, bool), observations: &queue::Sender) -> &mut PeerState {
        self.peers.entry(key).or_insert_with(|| PeerState {
            connections: 0,
            account: Arc::new(Account {
                frames: AtomicU64::default(),
                lost: AtomicU64::default(),
                lag: AtomicU64::default(),
                share: observations.share(),
                full_at: Mutex::new(Instant::now()),
            }),
        })
    }

    fn leave(&mut self, key: (Key, bool)) {
        if let Some(guest) = self.peers.get_mut(&key) {
            guest.connections = guest.connections.saturating_sub(1);
            if guest.is_over(Instant::now()) {
                self.peers.remove(&key);
            }
        }
    }
}

/// A peer, whatever its connections are.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Key {
    Address(IpAddr),
    /// Processes that cannot be seen from here are one.
    Process(Option<i32>),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Process(Some(pid)) => write!(f, "process {pid}"),
            Self::Process(None) => f.write_str("a process that cannot be seen from here"),
        }
    }
}

/// A peer, over all its connections.
#[derive(Debug)]
struct Account {
    frames: AtomicU64,
    lost: AtomicU64,
    /// In milliseconds, and one more; 0 if nothing is known.
    lag: AtomicU64,
    share: queue::Share,
    /// What it may still send: a token bucket that holds a second's frames, and may be overdrawn by one read. It would be full again
    /// then, if nothing came.
    full_at: Mutex<Instant>,
}

/// Observations that were dropped, by why.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Drops {
    /// The queue was full.
    pub queue: u64,
    /// The part of it was full that one peer may fill.
    pub share: u64,
    /// They came from a peer that was not known yet, and too many waited.
    pub unknown: u64,
}

/// A peer that is connected.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PeerView {
    /// Its address, or its process.
    pub peer: String,
    /// Whether it may speak. What an unknown peer says waits until it is known.
    pub is_known: bool,
    /// How many connections it has.
    pub connections: usize,
    /// Data frames that were read of it since it came.
    pub frames: u64,
    /// Observations of it that were dropped.
    pub lost: u64,
    /// From the DNS server's last answer for a wanted name to its observation, by the two clocks.
    #[serde(rename = "lagSeconds", serialize_with = "seconds")]
    pub lag: Option<Duration>,
}

#[derive(Debug)]
struct PeerState {
    connections: usize,
    account: Arc<Account>,
}

impl PeerState {
    /// Whether it has left and owes nothing: who comes back at once has no other share of the queue, and may send no faster.
    fn is_over(&self, now: Instant) -> bool {
        let account = &self.account;
        self.connections == 0 && *account.full_at.lock() <= now && account.share.is_unused()
    }
}

/// A connection's place. Dropped, it is free.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    connections: ConnectionTable,
    key: Key,
    is_known: bool,
    account: Arc<Account>,
}

impl ConnectionTable {
    /// None is taken. What is read goes into this queue.
    pub fn new(limits: MaxConnections, observations: queue::Sender) -> Self {
        Self {
            limits,
            observations,
            table: Arc::default(),
        }
    }

    /// Who is connected, in the order of their names.
    pub fn view(&self) -> Vec<PeerView> {
        let table = self.table.lock();
        let here = table.peers.iter().filter(|(_, it)| it.connections > 0);
        let view = |((key, is_known), guest): (&(Key, bool), &PeerState)| PeerView {
            peer: key.to_string(),
            is_known: *is_known,
            connections: guest.connections,
            frames: guest.account.frames.load(Relaxed),
            lost: guest.account.lost.load(Relaxed),
            lag: {
                let lag = guest.account.lag.load(Relaxed).checked_sub(1);
                lag.map(Duration::from_millis)
            },
        };
        let mut peers: Vec<_> = here.map(view).collect();
        drop(table);
        peers.sort_unstable_by(|one, other| {
            (&one.peer, other.is_known).cmp(&(&other.peer, one.is_known))
        });
        peers
    }

    /// What was dropped.
    pub fn drops(&self) -> Drops {
        self.table.lock().drops
    }

    /// The queue.
    pub(super) fn observations(&self) -> &queue::Sender {
        &self.observations
    }

    /// Takes a seat for a connection.
    pub(super) fn take(
        &self,
        peer: &Peer,
        is_known: bool,
    ) -> Result<ConnectionPermit, LimitExceeded> {
        let key = match peer {
            Peer::Process { pid, .. } => Key::Process(*pid),
            Peer::Address(address) => Key::Address(address.ip().to_canonical()),
        };
        let mut table = self.table.lock();
        let of_peer = table.peers.get(&(key, is_known));
        let of_peer = of_peer.map_or(0, |guest| guest.connections);
        if table.taken >= self.limits.connections {
            return Err(LimitExceeded::All);
        }
        if of_peer >= self.limits.of_peer {
            return Err(LimitExceeded::OfPeer);
        }
        if !is_known && table.unknown >= self.limits.connections.div_ceil(UNKNOWN_PART) {
            return Err(LimitExceeded::OfUnknown);
        }
        table.sweep();
        table.taken += 1;
        table.unknown += usize::from(!is_known);
        let guest = table.guest((key, is_known), &self.observations);
        guest.connections += 1;
        let account = Arc::clone(&guest.account);
        drop(table);
        Ok(ConnectionPermit {
            connections: self.clone(),
            key,
            is_known,
            account,
        })
    }
}

impl ConnectionPermit {
    /// Whose it is.
    pub(super) fn peer(&self) -> Key {
        self.key
    }

    /// So many frames were read, and of what they held so much was dropped.
    pub(super) fn tell(&self, frames: u64, lost: Drops) {
        self.account.frames.fetch_add(frames, Relaxed);
        if lost != Drops::default() {
            let Drops {
                queue,
                share,
                unknown,
            } = lost;
            let all = queue + share + unknown;
            self.account.lost.fetch_add(all, Relaxed);
            let mut table = self.connections.table.lock();
            table.drops.queue += queue;
            table.drops.share += share;
            table.drops.unknown += unknown;
        }
    }

    /// An answer was so old when it was read.
    pub(super) fn tell_lag(&self, lag: Duration) {
        let millis = u64::try_from(lag.as_millis()).unwrap_or(u64::MAX);
        self.account.lag.store(millis.saturating_add(1), Relaxed);
    }

    /// What the peer may fill of the queue.
    pub(super) fn share(&self) -> &queue::Share {
        &self.account.share
    }

    /// The address of the peer, if it has one.
    pub(super) fn address(&self) -> Option<IpAddr> {
        match self.key {
            Key::Address(address) => Some(address),
            Key::Process(_) => None,
        }
    }

    /// The peer has become known, or is no longer. Other connections of its address stay what they are.
    pub(super) fn set_known(&mut self, is_known: bool) {
        if std::mem::replace(&mut self.is_known, is_known) == is_known {
            return;
        }
        let mut table = self.connections.table.lock();
        table.leave((self.key, !is_known));
        table.unknown = if is_known {
            table.unknown.saturating_sub(1)
        } else {
            table.unknown + 1
        };
        let guest = table.guest((self.key, is_known), &self.connections.observations);
        guest.connections += 1;
        self.account = Arc::clone(&guest.account);
    }

    /// So many frames were read: for how long the peer is not to be read on.
    pub(super) fn pause(&self, frames: u32) -> Option<Duration> {
        let rate = self.connections.limits.frames_per_second;
        if rate == 0 || frames == 0 {
            return None;
        }
        let cost = Duration::from_secs(1).saturating_mul(frames) / rate;
        let now = Instant::now();
        let mut full_at = self.account.full_at.lock();
        *full_at = (*full_at).max(now) + cost;
        let owed = full_at.duration_since(now);
        owed.checked_sub(Duration::from_secs(1))
            .filter(|pause| !pause.is_zero())
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut table = self.connections.table.lock();
        table.taken = table.taken.saturating_sub(1);
        table.unknown = table.unknown.saturating_sub(usize::from(!self.is_known));
        table.leave((self.key, self.is_known));
    }
}

#[cfg(test)]
mod tests;
