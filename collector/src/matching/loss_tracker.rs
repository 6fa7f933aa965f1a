//! Tracks answers that were lost on the way to the controller, so that their names are looked up
//! again.
//!
//! Two kinds of loss are visible. An observation found no room: its name is kept. A stream broke, or
//! opens: events before it may be lost, so all wanted names are looked up. CoreDNS also drops events
//! if its own queue is full, and reports those in its log only.

use std::{collections::HashSet, mem::take, sync::Arc};

use foldhash::fast::RandomState;
use metrics::counter;
use parking_lot::Mutex;
use proto::api::DnsName;
use tokio::sync::Notify;

/// The most names kept. Beyond that, all wanted names are looked up again, and names first seen
/// under a wildcard are lost.
const MAX_NAMES: usize = 16 << 10;

/// Losses that are not looked up yet. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct LossTracker(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    lost: Mutex<Backfill>,
    added: Notify,
}

/// The look-ups that make up for losses.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Backfill {
    /// Names whose answer was lost. A look-up queries both A and AAAA.
    pub names: HashSet<DnsName, RandomState>,
    /// Answers for any name may be lost.
    pub anything: bool,
}

impl LossTracker {
    /// Waits for a loss. Cancel safe: nothing is taken before this returns.
    pub async fn next(&self) -> Backfill {
        loop {
            let added = self.0.added.notified();
            let lost = take(&mut *self.0.lost.lock());
            if lost != Backfill::default() {
                return lost;
            }
            added.await;
        }
    }

    /// Records that the answer for a name found no room.
    pub(crate) fn add(&self, name: DnsName) {
        let mut lost = self.0.lost.lock();
        if lost.names.len() < MAX_NAMES {
            lost.names.insert(name);
        } else {
            lost.anything = true;
            counter!("egress_collector_lost_names_dropped_total").increment(1);
        }
        drop(lost);
        self.0.added.notify_one();
    }

    /// Records that answers for any name may be lost.
    fn add_gap(&self, reason: &'static str) {
        counter!("egress_collector_stream_gaps_total", "reason" => reason).increment(1);
        self.0.lost.lock().anything = true;
        self.0.added.notify_one();
    }

    /// A known peer has opened a stream: what its server answered before may be lost.
    pub(crate) fn open(&self) -> StreamWatch {
        self.add_gap("opened");
        StreamWatch(Some(self.clone()))
    }
}

/// Watches the end of a stream: dropped before [`StreamWatch::ended`], the stream broke.
#[derive(Debug)]
pub(crate) struct StreamWatch(Option<LossTracker>);

impl StreamWatch {
    /// The end is no loss: the sender closed the stream in order, or the peer is no longer known.
    pub(crate) fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for StreamWatch {
    fn drop(&mut self) {
        if let Some(loss_tracker) = &self.0 {
            loss_tracker.add_gap("broken");
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn name(text: &str) -> DnsName {
        DnsName::parse(text).unwrap()
    }

    fn has_gap(loss_tracker: &LossTracker) -> bool {
        loss_tracker
            .next()
            .now_or_never()
            .is_some_and(|lost| lost.anything)
    }

    #[tokio::test]
    async fn more_names_than_there_is_room_for_are_a_gap() {
        let loss_tracker = LossTracker::default();
        for i in 0..=MAX_NAMES {
            loss_tracker.add(name(&format!("n{i}.example.com")));
        }
        let lost = loss_tracker.next().await;
        assert_eq!(lost.names.len(), MAX_NAMES);
        assert!(lost.anything);
    }

    #[tokio::test]
    async fn opened_or_broken_stream_is_a_gap_an_ended_one_is_not() {
        let loss_tracker = LossTracker::default();
        let stream = loss_tracker.open();
        assert!(has_gap(&loss_tracker));
        assert!(!has_gap(&loss_tracker));
        drop(stream);
        assert!(has_gap(&loss_tracker));
        let stream = loss_tracker.open();
        assert!(has_gap(&loss_tracker));
        stream.ended();
        assert!(!has_gap(&loss_tracker));
    }
}
