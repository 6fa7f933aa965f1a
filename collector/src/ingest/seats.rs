//! How many connections there are, of each peer and in all, and how fast each peer is read.

use std::{
    collections::HashMap,
    fmt,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use runtime::listen::Peer;
use tokio::time::Instant;

use super::queue;

/// Of the connections, those of peers that are not known yet may take one part in so many: known ones always find room.
const UNKNOWN_PART: usize = 2;

/// Peers that have left are looked through when there are so many, or twice as many as were left the last time.
const SWEEP: usize = 1 << 10;

/// How many connections there may be, and how fast they may be.
#[derive(Clone, Copy, Debug)]
pub struct SeatLimits {
    /// Connections in all, at least 1.
    pub connections: usize,
    /// Connections of one address, or of one process.
    pub of_peer: usize,
    /// Frames a second that are read of one peer, over all its connections. 0: as many as it sends.
    pub frames_per_second: u32,
}

/// Why there is no seat.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Taken {
    All,
    OfPeer,
    OfUnknown,
}

impl Taken {
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
pub struct Seats {
    limits: SeatLimits,
    observations: queue::Sender,
    table: Arc<Mutex<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    taken: usize,
    unknown: usize,
    peers: HashMap<Key, Guest>,
    /// With so many peers those are forgotten that can be.
    sweep_at: usize,
}

impl Table {
    fn sweep(&mut self) {
        if self.peers.len() >= self.sweep_at {
            let now = Instant::now();
            self.peers.retain(|_, guest| !guest.is_over(now));
            self.sweep_at = SWEEP.max(self.peers.len() * 2);
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

#[derive(Debug)]
struct Guest {
    seats: usize,
    share: queue::Share,
    pace: Arc<Mutex<Pace>>,
}

impl Guest {
    /// Whether it has left and owes nothing: who comes back at once has no other share of the queue, and may send no faster.
    fn is_over(&self, now: Instant) -> bool {
        let pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        self.seats == 0 && pace.full_at <= now && self.share.is_unused()
    }
}

/// What a peer may still send: a token bucket that holds a second's frames, and may be overdrawn by one read.
#[derive(Debug)]
struct Pace {
    /// When it would be full again, if nothing came.
    full_at: Instant,
}

/// A connection's place. Dropped, it is free.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Seats,
    key: Key,
    is_known: bool,
    share: queue::Share,
    pace: Arc<Mutex<Pace>>,
}

impl Seats {
    /// None is taken. What is read goes into this queue.
    pub fn new(limits: SeatLimits, observations: queue::Sender) -> Self {
        Self {
            limits,
            observations,
            table: Arc::default(),
        }
    }

    /// The queue.
    pub(super) fn observations(&self) -> &queue::Sender {
        &self.observations
    }

    /// Takes a seat for a connection.
    pub(super) fn take(&self, peer: &Peer, is_known: bool) -> Result<Seat, Taken> {
        let key = match peer {
            Peer::Process { pid, .. } => Key::Process(*pid),
            Peer::Address(address) => Key::Address(address.ip().to_canonical()),
        };
        let mut table = self.table();
        let of_peer = table.peers.get(&key).map_or(0, |guest| guest.seats);
        if table.taken >= self.limits.connections {
            return Err(Taken::All);
        }
        if of_peer >= self.limits.of_peer {
            return Err(Taken::OfPeer);
        }
        if !is_known && table.unknown >= self.limits.connections.div_ceil(UNKNOWN_PART) {
            return Err(Taken::OfUnknown);
        }
        table.sweep();
        table.taken += 1;
        table.unknown += usize::from(!is_known);
        let guest = table.peers.entry(key).or_insert_with(|| Guest {
            seats: 0,
            share: self.observations.share(),
            pace: Arc::new(Mutex::new(Pace {
                full_at: Instant::now(),
            })),
        });
        guest.seats += 1;
        let (share, pace) = (guest.share.clone(), Arc::clone(&guest.pace));
        drop(table);
        Ok(Seat {
            seats: self.clone(),
            key,
            is_known,
            share,
            pace,
        })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Every change is whole before anything can panic.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Whose it is.
    pub(super) fn peer(&self) -> Key {
        self.key
    }

    /// What the peer may fill of the queue.
    pub(super) fn share(&self) -> &queue::Share {
        &self.share
    }

    /// The address of the peer, if it has one.
    pub(super) fn address(&self) -> Option<IpAddr> {
        match self.key {
            Key::Address(address) => Some(address),
            Key::Process(_) => None,
        }
    }

    /// The peer has become known, or is no longer.
    pub(super) fn set_known(&mut self, is_known: bool) {
        if std::mem::replace(&mut self.is_known, is_known) != is_known {
            let mut table = self.seats.table();
            table.unknown = if is_known {
                table.unknown.saturating_sub(1)
            } else {
                table.unknown + 1
            };
        }
    }

    /// So many frames were read: for how long the peer is not to be read on.
    pub(super) fn pause(&self, frames: u32) -> Option<Duration> {
        let rate = self.seats.limits.frames_per_second;
        if rate == 0 || frames == 0 {
            return None;
        }
        let cost = Duration::from_secs(1).saturating_mul(frames) / rate;
        let now = Instant::now();
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        pace.full_at = pace.full_at.max(now) + cost;
        let owed = pace.full_at.duration_since(now);
        owed.checked_sub(Duration::from_secs(1))
            .filter(|pause| !pause.is_zero())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut table = self.seats.table();
        table.taken = table.taken.saturating_sub(1);
        table.unknown = table.unknown.saturating_sub(usize::from(!self.is_known));
        if let Some(guest) = table.peers.get_mut(&self.key) {
            guest.seats = guest.seats.saturating_sub(1);
            if guest.is_over(Instant::now()) {
                table.peers.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::ingest::queue::tests::observation;

    fn seats(limits: SeatLimits) -> Seats {
        Seats::new(limits, queue::channel(1 << 20).0)
    }

    fn limits() -> SeatLimits {
        SeatLimits {
            connections: 4,
            of_peer: 2,
            frames_per_second: 1000,
        }
    }

    fn peer(text: &str) -> Peer {
        Peer::Address(text.parse().unwrap())
    }

    #[test]
    fn connections_are_bounded_of_each_peer_and_in_all_and_a_closed_one_makes_room() {
        let seats = seats(limits());
        let take = |text, is_known| seats.take(&peer(text), is_known);
        let first = take("192.0.2.1:1", true).unwrap();
        let _second = take("[::ffff:192.0.2.1]:2", true).unwrap();
        assert_eq!(take("192.0.2.1:3", true).unwrap_err(), Taken::OfPeer);
        drop(first);
        let _third = take("192.0.2.1:3", true).unwrap();
        let _fourth = take("192.0.2.2:1", true).unwrap();
        let _fifth = take("192.0.2.2:2", true).unwrap();
        assert_eq!(take("192.0.2.3:1", true).unwrap_err(), Taken::All);
    }

    #[test]
    fn peers_that_are_not_known_leave_half_of_the_seats() {
        let seats = seats(limits());
        let take = |text, is_known| seats.take(&peer(text), is_known);
        let mut one = take("192.0.2.1:1", false).unwrap();
        let _two = take("192.0.2.2:1", false).unwrap();
        assert_eq!(take("192.0.2.3:1", false).unwrap_err(), Taken::OfUnknown);
        let _three = take("192.0.2.3:1", true).unwrap();
        one.set_known(true);
        let _four = take("192.0.2.4:1", false).unwrap();
        drop(one);
        assert_eq!(take("192.0.2.5:1", false).unwrap_err(), Taken::OfUnknown);
        take("192.0.2.5:1", true).unwrap();
    }

    #[test]
    fn nothing_is_left_of_peers_that_have_gone() {
        let seats = seats(limits());
        for i in 0..1000 {
            drop(seats.take(
                &peer(&format!("10.0.{}.{}:1", i / 250, i % 250)),
                i % 2 == 0,
            ));
        }
        let table = seats.table();
        assert_eq!((table.taken, table.unknown), (0, 0));
        assert!(table.peers.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_comes_back_may_send_no_more_than_one_that_stays() {
        let (sender, mut queue) = queue::channel(64 << 10);
        let seats = Seats::new(limits(), sender);
        let take = |text: &str| seats.take(&peer(text), true).unwrap();
        let fill = |seat: &Seat| {
            let send = || seats.observations().try_send(observation(1), seat.share());
            std::iter::from_fn(|| send().ok()).count()
        };
        let first = take("192.0.2.1:1");
        let share = fill(&first);
        assert!(share > 10);
        assert_eq!(first.pause(1000), None);
        drop(first);
        let again = take("192.0.2.1:2");
        assert_eq!(fill(&again), 0);
        assert_eq!(again.pause(100), Some(Duration::from_millis(100)));
        assert_eq!(fill(&take("192.0.2.2:1")), share);
        // What it owed is forgotten with it.
        drop(again);
        tokio::time::advance(Duration::from_secs(2)).await;
        for _ in 0..2 * share {
            queue.recv().await.unwrap();
        }
        for i in 0..2 * SWEEP {
            let ip = Ipv4Addr::from_bits(0x0a00_0000 + u32::try_from(i).unwrap());
            let seat = seats.take(&Peer::Address((ip, 1).into()), true).unwrap();
            seat.pause(1);
        }
        assert!(seats.table().peers.len() > 1000);
        tokio::time::advance(Duration::from_secs(1)).await;
        for i in 0..2 * SWEEP {
            drop(take(&format!("10.9.{}.{}:1", i / 250, i % 250)));
        }
        let left = seats.table().peers.len();
        assert!(left <= 2 * SWEEP, "{left}");
        assert_eq!(fill(&take("192.0.2.1:1")), share);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_is_read_as_fast_as_its_limit_over_all_its_connections() {
        let seats = seats(limits());
        let one = seats.take(&peer("192.0.2.1:1"), true).unwrap();
        let two = seats.take(&peer("192.0.2.1:2"), true).unwrap();
        let other = seats.take(&peer("192.0.2.2:1"), true).unwrap();
        assert_eq!(one.pause(600), None);
        assert_eq!(two.pause(600), Some(Duration::from_millis(200)));
        assert_eq!(other.pause(1000), None);
        tokio::time::advance(Duration::from_millis(700)).await;
        assert_eq!(one.pause(500), None);
        assert_eq!(one.pause(1), Some(Duration::from_millis(1)));
    }
}
