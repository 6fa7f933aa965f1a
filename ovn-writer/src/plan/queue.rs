//! The names to check, their order, and delayed ones.

use std::{
    collections::{BTreeSet, VecDeque, hash_map::Entry},
    time::Instant,
};

use foldhash::{HashMap, HashSet};
use proto::api::DnsName;

/// Why a name is queued.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueueReason {
    /// When an event of the store changed the desired state of the name, if one did.
    pub(super) since: Option<Instant>,
    /// If it was in a refused transaction with an unknown culprit: the group of names to retry together, without
    /// others.
    pub(super) suspects: Option<u64>,
}

impl QueueReason {
    pub(super) fn store(at: Instant) -> Self {
        Self {
            since: Some(at),
            suspects: None,
        }
    }

    fn merge(&mut self, other: Self) {
        self.since = self.since.or(other.since);
        self.suspects = other.suspects.or(self.suspects);
    }
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Their marks, and whether they are in the order; if not, they wait for a timer, or are held.
    marks: HashMap<DnsName, (QueueReason, bool)>,
    order: VecDeque<DnsName>,
    timers: BTreeSet<(Instant, DnsName)>,
    /// Names in pending transactions: their marks wait for the outcome.
    held: HashSet<DnsName>,
}

impl Queue {
    /// Records that the name is in a pending transaction.
    pub(super) fn hold(&mut self, name: DnsName) {
        self.held.insert(name);
    }

    /// Records that the transaction ended.
    pub(super) fn release(&mut self, name: &DnsName) {
        if self.held.remove(name)
            && let Some((_, is_queued)) = self.marks.get_mut(name)
            && !std::mem::replace(is_queued, true)
        {
            self.order.push_back(name.clone());
        }
    }

    /// How many names to check now.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn mark(&mut self, name: DnsName, mark: QueueReason) {
        let is_free = self.held.is_empty() || !self.held.contains(&name);
        match self.marks.entry(name) {
            Entry::Occupied(mut entry) => {
                let (old, is_queued) = entry.get_mut();
                old.merge(mark);
                if is_free && !std::mem::replace(is_queued, true) {
                    self.order.push_back(entry.key().clone());
                }
            }
            Entry::Vacant(entry) => {
                if is_free {
                    self.order.push_back(entry.key().clone());
                }
                entry.insert((mark, is_free));
            }
        }
    }

    /// Queues the names without a change of the store.
    pub(super) fn mark_all(&mut self, names: impl IntoIterator<Item = DnsName>) {
        for name in names {
            self.mark(name, QueueReason::default());
        }
    }

    /// Removes and returns the next name.
    pub(super) fn pop(&mut self) -> Option<(DnsName, QueueReason)> {
        let name = self.order.pop_front()?;
        let (mark, _) = self.marks.remove(&name).unwrap_or_default();
        Some((name, mark))
    }

    /// Puts the removed name back in front.
    pub(super) fn put_back(&mut self, name: DnsName, mark: QueueReason) {
        self.order.push_front(name.clone());
        self.marks.insert(name, (mark, true));
    }

    /// Delays the removed name until this time, unless it is queued again earlier.
    pub(super) fn defer(&mut self, name: DnsName, mark: QueueReason, until: Instant) {
        self.marks.insert(name.clone(), (mark, false));
        self.look_at(name, until);
    }

    /// Queues the name for this time.
    pub(super) fn look_at(&mut self, name: DnsName, at: Instant) {
        self.timers.insert((at, name));
    }

    /// Queues the names whose time has come.
    pub(super) fn wake(&mut self, now: Instant) {
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, name)) = self.timers.pop_first() {
                self.mark(name, QueueReason::default());
            }
        }
    }

    /// When [`Queue::wake`] has something to do, if ever.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Whether no name is to be checked now.
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Clears the queue, and returns when the store changed each name.
    pub(super) fn start_over(&mut self) -> HashMap<DnsName, Instant> {
        let before = std::mem::take(self).marks;
        let since = |(name, (mark, _)): (_, (QueueReason, bool))| Some((name, mark.since?));
        before.into_iter().filter_map(since).collect()
    }
}
