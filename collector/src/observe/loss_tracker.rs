//! Tracks answers that were lost on the way to the controller, so that their names are looked up
//! again.
//!
//! Two kinds of loss are visible. An observation found no room: its name is kept. A stream broke:
//! the names are unknown, so all wanted names are looked up. CoreDNS also drops events, if its own
//! queue is full or no reader is connected. It reports those in its log only.

use std::{collections::HashSet, mem::take, sync::Arc, time::Duration};

use foldhash::fast::RandomState;
use metrics::counter;
use parking_lot::Mutex;
use proto::api::DnsName;
use tokio::{sync::Notify, time::Instant};

use super::peer_ids::PeerKey;

/// The most names kept. Beyond that, all wanted names are looked up again, and names first seen
/// under a wildcard are lost.
const MAX_NAMES: usize = 16 << 10;

/// The most peers remembered for a broken stream.
const MAX_BROKEN: usize = 1 << 10;

/// A stream that opens so soon after the start may have lost events to the previous process.
/// CoreDNS dials again every ten seconds.
const START: Duration = Duration::from_secs(30);

/// Losses that are not looked up yet. Clones share them.
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
    /// Peers whose last stream broke.
    broken: HashSet<PeerKey, RandomState>,
    /// More peers broke than are remembered, so any peer that connects may be one of them.
    forgot: bool,
}

impl Lost {
    fn broke(&mut self, peer: PeerKey) {
        if self.broken.len() < MAX_BROKEN || self.broken.contains(&peer) {
            self.broken.insert(peer);
        } else {
            // Most of these peers are gone for good.
            self.broken.clear();
            self.forgot = true;
        }
    }
}

/// The look-ups that make up for losses.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Backfill {
    /// Names whose answer was lost. A look-up queries both A and AAAA.
    pub names: Vec<DnsName>,
    /// Answers for any name may be lost.
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
    /// Waits for a loss. Cancel safe: nothing is taken before this returns.
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

    /// Records that the answer for a name found no room.
    pub(super) fn keep(&self, name: DnsName) {
        let mut lost = self.0.lost.lock();
        if lost.names.len() < MAX_NAMES || lost.names.contains(&name) {
            lost.names.insert(name);
        } else {
            lost.gap = true;
            counter!("egress_collector_lost_names_dropped_total").increment(1);
        }
        drop(lost);
        self.0.told.notify_one();
    }

    /// Records that answers for any name may be lost.
    pub(super) fn gap(&self, reason: &'static str) {
        counter!("egress_collector_stream_gaps_total", "reason" => reason).increment(1);
        self.0.lost.lock().gap = true;
        self.0.told.notify_one();
    }

    /// A known peer has opened a stream.
    pub(super) fn open(&self, peer: PeerKey) -> StreamWatch {
        let peer = whose(peer);
        let mut lost = self.0.lost.lock();
        let broken = lost.broken.remove(&peer) || lost.forgot;
        drop(lost);
        if broken {
            self.gap("reopened");
        } else if self.0.began.elapsed() < START {
            self.gap("start");
        }
        StreamWatch {
            loss_tracker: self.clone(),
            peer,
            ended: false,
        }
    }

    /// The observations of an unknown peer are dropped. They are a loss if the peer is known when
    /// it comes back.
    pub(super) fn unjudged(&self, peer: PeerKey) {
        self.0.lost.lock().broke(whose(peer));
    }
}

/// Watches the end of a stream: dropped before [`StreamWatch::ended`], the stream broke.
#[derive(Debug)]
pub(super) struct StreamWatch {
    loss_tracker: LossTracker,
    peer: PeerKey,
    ended: bool,
}

impl StreamWatch {
    /// The end is no loss: the sender closed the stream in order, or the peer is no longer known.
    pub(super) fn ended(mut self) {
        self.ended = true;
    }
}

impl Drop for StreamWatch {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        self.loss_tracker.gap("broken");
        self.loss_tracker.0.lost.lock().broke(self.peer);
    }
}

/// A process that dials again after a restart has another PID.
fn whose(peer: PeerKey) -> PeerKey {
    match peer {
        PeerKey::Process(_) => PeerKey::Process(None),
        PeerKey::Address(_) => peer,
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

    fn peer(last: u8) -> PeerKey {
        PeerKey::Address(Ipv4Addr::new(192, 0, 2, last).into())
    }

    /// The start was long ago.
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
            drop(loss_tracker.open(PeerKey::Address(gone.into())));
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
