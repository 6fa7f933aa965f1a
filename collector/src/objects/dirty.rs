//! Names whose objects are to be checked, without duplicates, in turns of the namespaces whose
//! rules use them.

use std::collections::{BTreeSet, HashSet};

use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::entry::Entry;
use crate::{clients::Namespace, lookup::RoundRobin};

/// While objects are to be created, one in this many checked names is for them.
const ONE_IN: u32 = 4;

/// Names to check. Those with an object go before those whose object is to be created. But not
/// always: the rules of one namespace may change all the time.
#[derive(Debug, Default)]
pub(crate) struct DirtyNames {
    /// Names added since the last check.
    new: BTreeSet<DnsName>,
    with_object: Queue,
    without_object: Queue,
    looked_at: u32,
}

impl DirtyNames {
    pub(crate) fn insert(&mut self, name: DnsName) {
        self.new.insert(name);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.new.is_empty() && self.with_object.is_empty() && self.without_object.is_empty()
    }

    /// Takes the next name. Names without an entry are skipped.
    pub(crate) fn pop<'a>(
        &mut self,
        entry: impl Fn(&DnsName) -> Option<&'a Entry>,
    ) -> Option<DnsName> {
        while let Some(name) = self.new.pop_first() {
            let Some(entry) = entry(&name) else {
                continue;
            };
            let queue = match entry.objects.is_empty() {
                true => &mut self.without_object,
                false => &mut self.with_object,
            };
            queue.insert(name, &entry.in_use.with_rule);
        }
        let [first, second] = match self.is_turn_of_those_without() {
            true => [&mut self.without_object, &mut self.with_object],
            false => [&mut self.with_object, &mut self.without_object],
        };
        first.pop().or_else(|| second.pop())
    }

    fn is_turn_of_those_without(&mut self) -> bool {
        if self.without_object.is_empty() {
            return false;
        }
        self.looked_at = self.looked_at.wrapping_add(1);
        self.looked_at.is_multiple_of(ONE_IN)
    }
}

impl Extend<DnsName> for DirtyNames {
    fn extend<T: IntoIterator<Item = DnsName>>(&mut self, names: T) {
        self.new.extend(names);
    }
}

/// Names in turns of namespaces, in order of arrival for each.
#[derive(Debug, Default)]
struct Queue {
    names: HashSet<DnsName>,
    turns: RoundRobin,
    came: i64,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    fn insert(&mut self, name: DnsName, with_rule: &[Namespace]) {
        if self.names.insert(name.clone()) {
            let group = self.turns.least(with_rule);
            self.came += 1;
            let came = Timestamp::from_millis(self.came);
            self.turns.insert(came, name, group);
        }
    }

    fn pop(&mut self) -> Option<DnsName> {
        let (name, _) = self.turns.pop(Timestamp::from_millis(i64::MAX))?;
        self.names.remove(&name);
        if self.names.is_empty() {
            // Frees the capacity: at the start, all names are here.
            self.names = HashSet::new();
        }
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::Clients;

    fn name(i: usize) -> DnsName {
        DnsName::parse(&format!("n{i}.example.com")).unwrap()
    }

    #[test]
    fn a_name_that_comes_again_and_again_comes_behind_the_others() {
        let one = Clients::default().number("one");
        let mut queue = Queue::default();
        for i in 0..4 {
            queue.insert(name(i), &[one]);
        }
        let mut taken = Vec::new();
        for _ in 0..6 {
            taken.extend(queue.pop());
            queue.insert(name(0), &[one]);
            queue.insert(name(1), &[one]);
        }
        assert_eq!(taken, [0, 1, 2, 3, 0, 1].map(name));
    }

    #[test]
    fn thousands_of_names_of_a_namespace_hold_up_no_other() {
        let clients = Clients::default();
        let [many, few] = ["many", "few"].map(|it| clients.number(it));
        let mut queue = Queue::default();
        for i in 0..1000 {
            queue.insert(name(i), &[many]);
            queue.insert(name(i), &[few]);
        }
        queue.insert(name(1000), &[few]);
        queue.insert(name(1001), &[many, few]);
        let first: Vec<_> = std::iter::from_fn(|| queue.pop()).take(4).collect();
        assert!(
            [1000, 1001].iter().all(|i| first.contains(&name(*i))),
            "{first:?}"
        );
        assert_eq!(std::iter::from_fn(|| queue.pop()).count(), 998);
        assert!(queue.is_empty());
    }
}
