//! Which names are to be looked at, in which order, and which of them later.

use std::{
    collections::{BTreeSet, VecDeque, hash_map::Entry},
    time::Instant,
};

use foldhash::{HashMap, HashSet};
use proto::api::DnsName;

/// Why a name is to be looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    /// When the store changed what it wants of the name, if it did.
    pub(super) since: Option<Instant>,
    /// If it was in a transaction that was refused without a word on which name was to blame: the part of it that it is to be
    /// in, with no others.
    pub(super) suspects: Option<u64>,
}

impl Mark {
    /// The store changed.
    pub(super) fn store(now: Instant) -> Self {
        Self {
            since: Some(now),
            suspects: None,
        }
    }

    fn merge(&mut self, other: Self) {
        self.since = self.since.or(other.since);
        self.suspects = other.suspects.or(self.suspects);
    }
}

/// The names that are marked.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Their marks, and whether they stand in the order; if not, they wait for a timer, or are held.
    marks: HashMap<DnsName, (Mark, bool)>,
    order: VecDeque<DnsName>,
    timers: BTreeSet<(Instant, DnsName)>,
    /// Names in transactions that are under way: marks of these wait until it is known what became of them.
    held: HashSet<DnsName>,
}

impl Queue {
    /// The name that was taken is in a transaction that is under way.
    pub(super) fn hold(&mut self, name: DnsName) {
        self.held.insert(name);
    }

    /// It no longer is.
    pub(super) fn release(&mut self, name: &DnsName) {
        if self.held.remove(name)
            && let Some((_, is_queued)) = self.marks.get_mut(name)
            && !std::mem::replace(is_queued, true)
        {
            self.order.push_back(name.clone());
        }
    }

    /// How many names are to be looked at now.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// The name is to be looked at.
    pub(super) fn mark(&mut self, name: DnsName, mark: Mark) {
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

    /// The names are to be looked at for no reason of the store.
    pub(super) fn mark_all(&mut self, names: impl IntoIterator<Item = DnsName>) {
        for name in names {
            self.mark(name, Mark::default());
        }
    }

    /// The next name, which is no longer marked then.
    pub(super) fn pop(&mut self) -> Option<(DnsName, Mark)> {
        let name = self.order.pop_front()?;
        let (mark, _) = self.marks.remove(&name).unwrap_or_default();
        Some((name, mark))
    }

    /// The name that was taken is to be the next one again.
    pub(super) fn put_back(&mut self, name: DnsName, mark: Mark) {
        self.order.push_front(name.clone());
        self.marks.insert(name, (mark, true));
    }

    /// The name that was taken is not to be looked at before this time, unless it is marked again.
    pub(super) fn defer(&mut self, name: DnsName, mark: Mark, until: Instant) {
        self.marks.insert(name.clone(), (mark, false));
        self.look_at(name, until);
    }

    /// The name is to be looked at then.
    pub(super) fn look_at(&mut self, name: DnsName, at: Instant) {
        self.timers.insert((at, name));
    }

    /// Marks the names whose time has come.
    pub(super) fn wake(&mut self, now: Instant) {
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, name)) = self.timers.pop_first() {
                self.mark(name, Mark::default());
            }
        }
    }

    /// When [`Queue::wake`] has something to do, if ever.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Whether no name is to be looked at now.
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Forgets all, but when the store changed.
    pub(super) fn start_over(&mut self) -> HashMap<DnsName, Instant> {
        let before = std::mem::take(self).marks;
        let since = |(name, (mark, _)): (_, (Mark, bool))| Some((name, mark.since?));
        before.into_iter().filter_map(since).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::dns;

    #[test]
    fn names_come_once_in_order_with_all_that_was_said_of_them() {
        let (now, mut queue) = (Instant::now(), Queue::default());
        let (a, b) = (dns("a.example."), dns("b.example."));
        queue.mark(a.clone(), Mark::default());
        queue.mark(b.clone(), Mark::default());
        queue.mark(a.clone(), Mark::store(now));
        queue.mark(a.clone(), Mark::store(now + Duration::from_secs(1)));
        let (first, mark) = queue.pop().unwrap();
        assert_eq!((&first, mark.since), (&a, Some(now)));
        queue.put_back(first, mark);
        assert_eq!(queue.pop().unwrap().0, a);
        assert_eq!(queue.pop().unwrap().0, b);
        assert!(queue.is_empty() && queue.pop().is_none());
    }

    #[test]
    fn a_deferred_name_comes_at_its_time_or_when_it_is_marked_again() {
        let (now, mut queue) = (Instant::now(), Queue::default());
        let (name, later) = (dns("a.example."), now + Duration::from_secs(1));
        for early in [false, true] {
            queue.defer(
                name.clone(),
                Mark {
                    suspects: Some(7),
                    ..Mark::default()
                },
                later,
            );
            queue.wake(now);
            assert!(queue.is_empty());
            assert_eq!(queue.next_timer(), Some(later));
            if early {
                queue.mark(name.clone(), Mark::store(now));
            } else {
                queue.wake(later);
            }
            let (_, mark) = queue.pop().unwrap();
            assert_eq!((mark.suspects, mark.since.is_some()), (Some(7), early));
        }
    }

    #[test]
    fn a_new_reading_knows_only_when_the_store_changed() {
        let (now, mut queue) = (Instant::now(), Queue::default());
        queue.mark(dns("a.example."), Mark::store(now));
        queue.defer(dns("b.example."), Mark::default(), now);
        assert_eq!(
            queue.start_over(),
            HashMap::from_iter([(dns("a.example."), now)])
        );
        assert!(queue.is_empty() && queue.next_timer().is_none());
    }
}
