//! What was lost on the way to the controller, as far as that can be known, so that it is asked for again.
//!
//! Two kinds: an observation that found no room, of which the name is kept; and whatever a stream would have told while it was
//! broken, of which nothing is known, so that every wanted name is asked for again. CoreDNS drops events too, when its own queue
//! is full or it has no reader, and says so in its log alone.

use std::{collections::HashSet, mem::take, sync::Arc, time::Duration};

use foldhash::fast::RandomState;
use metrics::counter;
use parking_lot::Mutex;
use proto::api::DnsName;
use tokio::{sync::Notify, time::Instant};

use super::connection_limits::Key;

/// Names that are kept. Beyond that every wanted name is asked for again, and what was first seen under a wildcard is lost.
const MAX_NAMES: usize = 16 << 10;

/// Peers that are remembered for streams that broke.
const MAX_BROKEN: usize = 1 << 10;

/// A stream that opens so soon after the start may have told something to the process before this one: CoreDNS dials again
/// every ten seconds.
const START: Duration = Duration::from_secs(30);

/// What was lost and is still to be asked for. Clones share it.
#[derive(Clone, Debug)]
pub struct LossTracker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    lost: Mutex<Lost>,
    told: Notify,
    began: Instant,
}

#[derive(Debug, Default)]
struct Lost {
    names: HashSet<DnsName, RandomState>,
    gap: bool,
    /// Whose last stream broke.
    broken: HashSet<Key, RandomState>,
    /// There were more of them than are remembered: any that comes may be one.
    forgot: bool,
}

impl Lost {
    fn broke(&mut self, peer: Key) {
        if self.broken.len() < MAX_BROKEN || self.broken.contains(&peer) {
            self.broken.insert(peer);
        } else {
            // Most of these are of servers that are gone for good.
            self.broken.clear();
            self.forgot = true;
        }
    }
}

/// What to ask for again.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Backfill {
    /// Names whose answer was lost. Of which type it was does not matter: a look-up asks for both.
    pub names: Vec<DnsName>,
    /// Anything may have been asked that was not seen.
    pub anything: bool,
}

impl Default for LossTracker {
    fn default() -> Self {
        Self(Arc::new(Shared {
            lost: Mutex::default(),
            told: Notify::new(),
            began: Instant::now(),
        }))
    }
}

impl LossTracker {
    /// Waits for a loss. May be cancelled: nothing is taken before this returns.
    pub async fn next(&self) -> Backfill {
        loop {
            let told = self.0.told.notified();
            let missing = self.take();
            if missing != Backfill::default() {
                return missing;
            }
            told.await;
        }
    }

    fn take(&self) -> Backfill {
        let mut lost = self.0.lost.lock();
        Backfill {
            names: take(&mut lost.names).into_iter().collect(),
            anything: take(&mut lost.gap),
        }
    }

    /// The answer for a name found no room.
    pub(super) fn keep(&self, name: DnsName) {
        let mut lost = self.0.lost.lock();
        if lost.names.len() < MAX_NAMES || lost.names.contains(&name) {
            lost.names.insert(name);
        } else {
            lost.gap = true;
            counter!("collector_lost_names_dropped_total").increment(1);
        }
        drop(lost);
        self.0.told.notify_one();
    }

    /// Anything may have been missed.
    pub(super) fn gap(&self, reason: &'static str) {
        counter!("collector_stream_gaps_total", "reason" => reason).increment(1);
        self.0.lost.lock().gap = true;
        self.0.told.notify_one();
    }

    /// A peer that may speak has opened a stream.
    pub(super) fn open(&self, peer: Key) -> Watched {
        let peer = whose(peer);
        let mut lost = self.0.lost.lock();
        let broken = lost.broken.remove(&peer) || lost.forgot;
        drop(lost);
        if broken {
            self.gap("reopened");
        } else if self.0.began.elapsed() < START {
            self.gap("start");
        }
        Watched {
            loss_tracker: self.clone(),
            peer,
            ended: false,
        }
    }

    /// What a peer said before it was known is dropped: if it is known when it comes back, it has been lost.
    pub(super) fn unjudged(&self, peer: Key) {
        self.0.lost.lock().broke(whose(peer));
    }
}

/// A stream whose end is watched: dropped before it has [ended](Self::ended), it broke.
#[derive(Debug)]
pub(super) struct Watched {
    loss_tracker: LossTracker,
    peer: Key,
    ended: bool,
}

impl Watched {
    /// The stream ended in order: its sender has written all it had. Or what it says does not count any more.
    pub(super) fn ended(mut self) {
        self.ended = true;
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        self.loss_tracker.gap("broken");
        self.loss_tracker.0.lost.lock().broke(self.peer);
    }
}

/// A process that comes back is another one.
fn whose(peer: Key) -> Key {
    match peer {
        Key::Process(_) => Key::Process(None),
        Key::Address(_) => peer,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::time::advance;

    use super::*;

    fn name(text: &str) -> DnsName {
        DnsName::parse(text).unwrap()
    }

    fn peer(last: u8) -> Key {
        Key::Address(Ipv4Addr::new(192, 0, 2, last).into())
    }

    /// Some time after the start.
    async fn loss_tracker() -> LossTracker {
        let loss_tracker = LossTracker::default();
        advance(START).await;
        loss_tracker
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_name_is_told_once() {
        let loss_tracker = loss_tracker().await;
        loss_tracker.keep(name("a.example.com"));
        loss_tracker.keep(name("a.example.com"));
        let missing = loss_tracker.next().await;
        assert_eq!(missing.names, [name("a.example.com")]);
        assert!(!missing.anything);
        assert_eq!(loss_tracker.take(), Backfill::default());
    }

    #[tokio::test(start_paused = true)]
    async fn more_names_than_there_is_room_for_are_a_gap() {
        let loss_tracker = loss_tracker().await;
        for i in 0..=MAX_NAMES {
            loss_tracker.keep(name(&format!("n{i}.example.com")));
        }
        let missing = loss_tracker.take();
        assert_eq!(missing.names.len(), MAX_NAMES);
        assert!(missing.anything);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_breaks_is_a_gap_and_so_is_its_return() {
        let loss_tracker = loss_tracker().await;
        let stream = loss_tracker.open(peer(1));
        assert!(!loss_tracker.take().anything, "nothing was before it");
        drop(stream);
        assert!(loss_tracker.take().anything);
        let _other = loss_tracker.open(peer(2));
        assert!(!loss_tracker.take().anything);
        let again = loss_tracker.open(peer(1));
        assert!(loss_tracker.take().anything);
        again.ended();
        assert!(!loss_tracker.take().anything);
        let _third = loss_tracker.open(peer(1));
        assert!(!loss_tracker.take().anything);
    }

    #[tokio::test(start_paused = true)]
    async fn more_peers_that_broke_off_than_are_remembered_hide_none() {
        let loss_tracker = loss_tracker().await;
        drop(loss_tracker.open(peer(1)));
        for i in 0..MAX_BROKEN + 2 {
            let gone = Ipv4Addr::from_bits(0x0a00_0000 + u32::try_from(i).unwrap());
            drop(loss_tracker.open(Key::Address(gone.into())));
        }
        drop(loss_tracker.open(peer(2)));
        assert!(loss_tracker.take().anything);
        for last in [1, 2] {
            loss_tracker.open(peer(last)).ended();
            assert!(loss_tracker.take().anything, "{last}");
        }
        assert!(loss_tracker.0.lost.lock().broken.len() <= MAX_BROKEN);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_streams_after_the_start_are_gaps() {
        let loss_tracker = LossTracker::default();
        loss_tracker.open(peer(1)).ended();
        assert!(loss_tracker.take().anything);
        advance(START).await;
        loss_tracker.open(peer(2)).ended();
        assert!(!loss_tracker.take().anything);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_woken() {
        let loss_tracker = loss_tracker().await;
        let waiting = tokio::spawn({
            let loss_tracker = loss_tracker.clone();
            async move { loss_tracker.next().await }
        });
        tokio::task::yield_now().await;
        loss_tracker.gap("broken");
        assert!(waiting.await.unwrap().anything);
    }
}
