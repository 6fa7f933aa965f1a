//! Names whose objects are to be made, in turns of the namespaces whose rules have them.

use std::collections::HashSet;

use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::round_robin::RoundRobin;
use crate::clients::Namespace;

/// While objects are to be made, one name that is looked at in so many is one of theirs.
const ONE_IN: u32 = 4;

/// These names, each once.
#[derive(Debug, Default)]
pub(super) struct Unmade {
    names: HashSet<DnsName>,
    queue: RoundRobin,
    /// How many came so far, by which the earlier of a namespace's names go first.
    came: i64,
    looked_at: u32,
}

impl Unmade {
    pub(super) fn insert(&mut self, name: DnsName, with_rule: &[Namespace]) {
        if self.names.insert(name.clone()) {
            let group = self.queue.least(with_rule);
            self.came += 1;
            self.queue
                .insert(Timestamp::from_millis(self.came), name, group);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether the next name to be looked at is one of these, if there are any; to be asked once for each.
    pub(super) fn has_turn(&mut self) -> bool {
        self.looked_at = self.looked_at.wrapping_add(u32::from(!self.is_empty()));
        !self.is_empty() && self.looked_at.is_multiple_of(ONE_IN)
    }

    pub(super) fn pop(&mut self) -> Option<DnsName> {
        let (name, _) = self.queue.pop(Timestamp::from_millis(i64::MAX))?;
        self.names.remove(&name);
        if self.names.is_empty() {
            // At the start there are all names.
            self.names = HashSet::new();
        }
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::Clients;

    #[test]
    fn thousands_of_new_names_of_a_namespace_hold_up_no_other() {
        let clients = Clients::default();
        let [many, few] = ["many", "few"].map(|it| clients.number(it));
        let name = |i: usize| DnsName::parse(&format!("n{i}.example.com")).unwrap();
        let mut unmade = Unmade::default();
        for i in 0..1000 {
            unmade.insert(name(i), &[many]);
            unmade.insert(name(i), &[few]);
        }
        unmade.insert(name(1000), &[few]);
        unmade.insert(name(1001), &[many, few]);
        let first: Vec<_> = std::iter::from_fn(|| unmade.pop()).take(4).collect();
        assert!(
            [1000, 1001].iter().all(|i| first.contains(&name(*i))),
            "{first:?}"
        );
        assert_eq!(std::iter::from_fn(|| unmade.pop()).count(), 998);
        assert!(unmade.is_empty());
    }
}
