//! Limits the number of connections, per peer and in total.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use runtime::listen::Peer;
use serde::Serialize;

use crate::{listen::peer_ids::PeerKey, matching::queue};

/// Unknown peers may take the total divided by this, so that known peers always find room.
const UNKNOWN_PART: usize = 2;

/// The table of peers is swept at this size, or at twice the size after the last sweep.
const SWEEP: usize = 1 << 10;

/// Limits of connections.
#[derive(Clone, Copy, Debug)]
pub struct MaxConnections {
    /// All connections, at least 1.
    pub connections: usize,
    /// Connections of one address, or of one local process. CoreDNS opens one for each `dnstap` line.
    pub of_peer: usize,
}

impl Default for MaxConnections {
    fn default() -> Self {
        Self {
            connections: 1000,
            of_peer: 64,
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
    /// The key's flag is whether the peer is known: pods on the host network share the address of a
    /// DNS server there.
    peers: HashMap<(PeerKey, bool), PeerState>,
    /// The number of peers at which the next sweep runs.
    sweep_at: usize,
    /// Observations dropped since the start of the process.
    drops: Drops,
}

impl Table {
    fn sweep(&mut self) {
        if self.peers.len() >= self.sweep_at {
            self.peers.retain(|_, guest| !guest.is_over());
            self.sweep_at = SWEEP.max(self.peers.len() * 2);
        }
    }

    fn guest(&mut self, key: (PeerKey, bool), observations: &queue::Sender) -> &mut PeerState {
        self.peers.entry(key).or_insert_with(|| PeerState {
            connections: 0,
            account: Arc::new(Account {
                frames: AtomicU64::default(),
                lost: AtomicU64::default(),
                share: observations.share(),
            }),
        })
    }

    fn leave(&mut self, key: (PeerKey, bool)) {
        if let Some(guest) = self.peers.get_mut(&key) {
            guest.connections = guest.connections.saturating_sub(1);
            if guest.is_over() {
                self.peers.remove(&key);
            }
        }
    }
}

/// The counters of a peer, over all its connections.
#[derive(Debug)]
struct Account {
    frames: AtomicU64,
    lost: AtomicU64,
    share: queue::Share,
}

/// Dropped observations, by reason.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Drops {
    /// The queue was full.
    pub queue: u64,
    /// The peer's share of the queue was full.
    pub share: u64,
}

/// A connected peer, as the status page shows it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PeerView {
    /// The address, or the process.
    pub peer: String,
    /// Whether it may stream. Frames of an unknown peer are not read.
    pub is_known: bool,
    /// The number of its connections.
    pub connections: usize,
    /// Data frames read since it connected.
    pub frames: u64,
    /// Its observations that were dropped.
    pub lost: u64,
}

#[derive(Debug)]
struct PeerState {
    connections: usize,
    account: Arc<Account>,
}

impl PeerState {
    /// Whether the entry can go: without connections, and with nothing in the queue. Otherwise a peer
    /// could fill another share by dialling again.
    fn is_over(&self) -> bool {
        self.connections == 0 && self.account.share.is_unused()
    }
}

/// The right to one connection; dropping it frees the place.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    connections: ConnectionTable,
    key: PeerKey,
    is_known: bool,
    account: Arc<Account>,
}

impl ConnectionTable {
    /// An empty table. Observations go into this queue.
    pub fn new(limits: MaxConnections, observations: queue::Sender) -> Self {
        Self {
            limits,
            observations,
            table: Arc::default(),
        }
    }

    /// The connected peers, sorted by name.
    pub fn view(&self) -> Vec<PeerView> {
        let table = self.table.lock();
        let here = table.peers.iter().filter(|(_, it)| it.connections > 0);
        let view = |((key, is_known), guest): (&(PeerKey, bool), &PeerState)| PeerView {
            peer: key.to_string(),
            is_known: *is_known,
            connections: guest.connections,
            frames: guest.account.frames.load(Relaxed),
            lost: guest.account.lost.load(Relaxed),
        };
        let mut peers: Vec<_> = here.map(view).collect();
        drop(table);
        peers.sort_unstable_by(|one, other| {
            (&one.peer, other.is_known).cmp(&(&other.peer, one.is_known))
        });
        peers
    }

    /// The addresses of the known peers that are connected; `None` stands for local processes.
    pub fn known_addresses(&self) -> BTreeSet<Option<IpAddr>> {
        let table = self.table.lock();
        let here = table.peers.iter().filter(|(_, it)| it.connections > 0);
        let known = here.filter(|((_, is_known), _)| *is_known);
        known
            .map(|((key, _), _)| match key {
                PeerKey::Address(address) => Some(*address),
                PeerKey::Process(_) => None,
            })
            .collect()
    }

    /// Observations dropped so far.
    pub fn drops(&self) -> Drops {
        self.table.lock().drops
    }

    pub(super) fn observations(&self) -> &queue::Sender {
        &self.observations
    }

    /// Takes a permit for a connection, or returns the limit that refuses it, as a metric label.
    pub(super) fn take(
        &self,
        peer: &Peer,
        is_known: bool,
    ) -> Result<ConnectionPermit, &'static str> {
        let key = PeerKey::from(peer);
        let mut table = self.table.lock();
        let of_peer = table.peers.get(&(key, is_known));
        let of_peer = of_peer.map_or(0, |guest| guest.connections);
        if table.taken >= self.limits.connections {
            return Err("too_many");
        }
        if of_peer >= self.limits.of_peer {
            return Err("too_many_of_peer");
        }
        if !is_known && table.unknown >= self.limits.connections.div_ceil(UNKNOWN_PART) {
            return Err("too_many_unknown");
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
    pub(super) fn peer(&self) -> PeerKey {
        self.key
    }

    /// Counts frames that were read, and the observations dropped of them.
    pub(super) fn tell(&self, frames: u64, lost: Drops) {
        self.account.frames.fetch_add(frames, Relaxed);
        if lost != Drops::default() {
            let Drops { queue, share } = lost;
            self.account.lost.fetch_add(queue + share, Relaxed);
            let mut table = self.connections.table.lock();
            table.drops.queue += queue;
            table.drops.share += share;
        }
    }

    /// The peer's share of the queue.
    pub(super) fn share(&self) -> &queue::Share {
        &self.account.share
    }

    /// Moves this connection between the known and the unknown peers. Other connections of the same
    /// address do not move.
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
