//! The connected peers, with their numbers of connections and shares of the queue.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use proto::facts::PeerFacts;
use runtime::listen::Peer;

use crate::{listen::peer_ids::PeerKey, matching::queue};

/// The most connections.
pub const MAX_CONNECTIONS: usize = 1000;

/// The most connections of one address, or of one local process. CoreDNS opens one for each `dnstap` line.
const MAX_OF_PEER: usize = 64;

/// The most connections of unknown peers, so that known peers always find room.
const MAX_UNKNOWN: usize = MAX_CONNECTIONS / 2;

/// The table of peers is swept at this size, or at twice the size after the last sweep.
const SWEEP: usize = 1 << 10;

/// All connections. Clones share them.
#[derive(Clone, Debug)]
pub struct ConnectionTable {
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
}

impl Table {
    fn sweep(&mut self) {
        if self.peers.len() >= self.sweep_at {
            self.peers.retain(|_, peer| !peer.is_over());
            self.sweep_at = SWEEP.max(self.peers.len() * 2);
        }
    }

    fn peer_mut(&mut self, key: (PeerKey, bool), observations: &queue::Sender) -> &mut PeerState {
        self.peers.entry(key).or_insert_with(|| PeerState {
            connections: 0,
            counts: Arc::default(),
            share: observations.share(),
        })
    }

    fn leave(&mut self, key: (PeerKey, bool)) {
        if let Some(peer) = self.peers.get_mut(&key) {
            peer.connections = peer.connections.saturating_sub(1);
            if peer.is_over() {
                self.peers.remove(&key);
            }
        }
    }
}

/// Dropped observations, by reason.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Drops {
    /// The queue was full.
    pub queue: u64,
    /// The peer's share of the queue was full.
    pub share: u64,
}

/// A peer, over all its connections.
#[derive(Debug)]
struct PeerState {
    connections: usize,
    counts: Arc<PeerCounts>,
    share: queue::Share,
}

/// What was read from a peer. Its readers count after each read, so they take no lock of the table.
#[derive(Debug, Default)]
struct PeerCounts {
    frames: AtomicU64,
    lost: AtomicU64,
}

impl PeerState {
    /// Whether the entry can go: without connections, and with nothing in the queue. Otherwise a peer
    /// could fill another share by dialling again.
    fn is_over(&self) -> bool {
        self.connections == 0 && self.share.is_unused()
    }
}

/// The right to one connection; dropping it frees the place.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    connections: ConnectionTable,
    key: PeerKey,
    is_known: bool,
    counts: Arc<PeerCounts>,
    share: queue::Share,
}

impl ConnectionTable {
    /// An empty table. Observations go into this queue.
    pub fn new(observations: queue::Sender) -> Self {
        Self {
            observations,
            table: Arc::default(),
        }
    }

    /// The connected peers, sorted by name.
    pub fn view(&self) -> Vec<PeerFacts> {
        let table = self.table.lock();
        let here = table.peers.iter().filter(|(_, peer)| peer.connections > 0);
        let view = |((key, is_known), peer): (&(PeerKey, bool), &PeerState)| PeerFacts {
            peer: key.to_string(),
            is_known: *is_known,
            connections: peer.connections,
            frames: peer.counts.frames.load(Relaxed),
            lost: peer.counts.lost.load(Relaxed),
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
        let here = table.peers.iter().filter(|(_, peer)| peer.connections > 0);
        let known = here.filter(|((_, is_known), _)| *is_known);
        known
            .map(|((key, _), _)| match key {
                PeerKey::Address(address) => Some(*address),
                PeerKey::Process(_) => None,
            })
            .collect()
    }

    pub(super) fn observations(&self) -> &queue::Sender {
        &self.observations
    }

    /// Takes a permit for a connection, or returns the limit that refuses it, as a metric label.
    pub(super) fn permit(
        &self,
        peer: &Peer,
        is_known: bool,
    ) -> Result<ConnectionPermit, &'static str> {
        let key = PeerKey::from(peer);
        let mut table = self.table.lock();
        let of_peer = table.peers.get(&(key, is_known));
        let of_peer = of_peer.map_or(0, |peer| peer.connections);
        if table.taken >= MAX_CONNECTIONS {
            return Err("too_many");
        }
        if of_peer >= MAX_OF_PEER {
            return Err("too_many_of_peer");
        }
        if !is_known && table.unknown >= MAX_UNKNOWN {
            return Err("too_many_unknown");
        }
        table.sweep();
        table.taken += 1;
        table.unknown += usize::from(!is_known);
        let peer = table.peer_mut((key, is_known), &self.observations);
        peer.connections += 1;
        let (counts, share) = (Arc::clone(&peer.counts), peer.share.clone());
        drop(table);
        Ok(ConnectionPermit {
            connections: self.clone(),
            key,
            is_known,
            counts,
            share,
        })
    }
}

impl ConnectionPermit {
    pub(super) fn peer(&self) -> PeerKey {
        self.key
    }

    /// Counts frames that were read, and the observations dropped of them.
    pub(super) fn count(&self, frames: u64, lost: Drops) {
        self.counts.frames.fetch_add(frames, Relaxed);
        if lost != Drops::default() {
            self.counts.lost.fetch_add(lost.queue + lost.share, Relaxed);
        }
    }

    /// The peer's share of the queue.
    pub(super) fn share(&self) -> &queue::Share {
        &self.share
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
        let peer = table.peer_mut((self.key, is_known), &self.connections.observations);
        peer.connections += 1;
        self.counts = Arc::clone(&peer.counts);
        self.share = peer.share.clone();
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
