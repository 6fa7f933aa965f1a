//! Names whose objects are to be checked, without duplicates. The next one is of the namespace that wrote fewest bytes
//! lately, so that one that writes all the time delays no other.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use proto::api::DnsName;
use runtime::written_bytes::WrittenBytes;

use names::{Entry, Namespace};

/// The namespace with a rule for a name that its writes count for; none for a name without rules.
pub(super) type Tenant = Option<Namespace>;

/// The namespace that wrote fewest bytes of those with a rule.
pub(super) fn tenant_of(written: &WrittenBytes<Tenant>, with_rule: &[Namespace]) -> Tenant {
    let with_rule = with_rule.iter().copied().map(Some);
    with_rule.min_by_key(|it| written.of(it)).flatten()
}

/// Names to check.
#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    /// Names that need the addresses that pods use already.
    pub(super) awaiting_answers: BTreeSet<DnsName>,
    /// Names added since the last check.
    new: BTreeSet<DnsName>,
    /// The names in `queues`.
    queued: HashSet<DnsName>,
    /// By tenant, in order of arrival; none is empty.
    queues: HashMap<Tenant, Queue>,
    pops: u64,
}

#[derive(Debug, Default)]
struct Queue {
    names: VecDeque<DnsName>,
    /// Among namespaces that wrote as many bytes, the one whose turn is longest ago comes first.
    last_pop: u64,
}

impl WorkQueue {
    pub(crate) fn insert(&mut self, name: DnsName) {
        self.new.insert(name);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.new.is_empty() && self.queues.is_empty()
    }

    /// Takes the next name. Names without an entry are skipped.
    pub(super) fn pop<'a>(
        &mut self,
        written: &WrittenBytes<Tenant>,
        entry: impl Fn(&DnsName) -> Option<&'a Entry>,
    ) -> Option<DnsName> {
        while let Some(name) = self.new.pop_first() {
            if let Some(entry) = entry(&name) {
                self.enqueue(name, tenant_of(written, &entry.rule_use().namespaces));
            }
        }
        let queues = self.queues.iter();
        let next =
            queues.min_by_key(|(tenant, queue)| (written.of(*tenant), queue.last_pop, **tenant));
        let tenant = next.map(|(tenant, _)| *tenant)?;
        let queue = self.queues.get_mut(&tenant)?;
        let name = queue.names.pop_front()?;
        self.pops += 1;
        queue.last_pop = self.pops;
        if queue.names.is_empty() {
            self.queues.remove(&tenant);
        }
        self.queued.remove(&name);
        if self.queued.is_empty() {
            // Frees the capacity: at the start, all names are here.
            self.queued = HashSet::new();
        }
        Some(name)
    }

    fn enqueue(&mut self, name: DnsName, tenant: Tenant) {
        if self.queued.insert(name.clone()) {
            let pops = self.pops;
            let queue = self.queues.entry(tenant).or_insert_with(|| Queue {
                last_pop: pops,
                ..Queue::default()
            });
            queue.names.push_back(name);
        }
    }
}

impl Extend<DnsName> for WorkQueue {
    fn extend<T: IntoIterator<Item = DnsName>>(&mut self, names: T) {
        self.new.extend(names);
    }
}

#[cfg(test)]
mod tests {
    use runtime::clock::Timestamp;

    use names::Namespaces;

    use super::*;

    fn name(i: usize) -> DnsName {
        DnsName::parse(&format!("n{i}.example.com")).unwrap()
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn pop(dirty: &mut WorkQueue, written: &WrittenBytes<Tenant>) -> Option<DnsName> {
        dirty.new.clear();
        dirty.pop(written, |_| None)
    }

    #[test]
    fn name_that_comes_again_and_again_comes_behind_the_others() {
        let one = Some(Namespaces::default().number("one"));
        let (mut dirty, written) = (WorkQueue::default(), WrittenBytes::default());
        for i in 0..4 {
            dirty.enqueue(name(i), one);
        }
        let mut taken = Vec::new();
        for _ in 0..6 {
            taken.extend(pop(&mut dirty, &written));
            dirty.enqueue(name(0), one);
            dirty.enqueue(name(1), one);
        }
        assert_eq!(taken, [0, 1, 2, 3, 0, 1].map(name));
    }

    #[test]
    fn namespace_with_fewest_written_bytes_comes_first() {
        let namespaces = Namespaces::default();
        let [busy, quiet] = ["busy", "quiet"].map(|it| namespaces.number(it));
        let (mut dirty, mut written) = (WorkQueue::default(), WrittenBytes::default());
        written.add(Some(busy), 1_000_000, at(0));
        assert_eq!(tenant_of(&written, &[busy, quiet]), Some(quiet));
        for i in 0..100 {
            dirty.enqueue(name(i), Some(busy));
        }
        dirty.enqueue(name(100), Some(quiet));
        assert_eq!(pop(&mut dirty, &written), Some(name(100)));
        assert_eq!(pop(&mut dirty, &written), Some(name(0)));
        written.forget(at(9));
        assert_eq!(written.of(&Some(busy)), 1_000_000);
        written.forget(at(10));
        assert_eq!(written.of(&Some(busy)), 0);
        assert_eq!(std::iter::from_fn(|| pop(&mut dirty, &written)).count(), 99);
        assert!(dirty.is_empty() && dirty.queued.is_empty());
    }
}
