//! Due names, served round-robin over the namespaces whose rules use them: thousands of names of
//! one namespace do not delay another.

use std::collections::{BTreeSet, HashMap};

use proto::api::DnsName;
use runtime::clock::Timestamp;

use crate::clients::Namespace;

/// The namespace that a name counts for. Names that no rule uses form one group.
pub(crate) type Group = Option<Namespace>;

#[derive(Debug, Default)]
pub(crate) struct RoundRobin {
    groups: HashMap<Group, Names>,
    /// Groups without a due name at the last call, by the time of their first name.
    waiting: BTreeSet<(Timestamp, Group)>,
    /// The other groups, by their last turn.
    ready: BTreeSet<(u64, Group)>,
    turns: u64,
}

/// The names of a group, at least one.
#[derive(Debug)]
struct Names {
    names: BTreeSet<(Timestamp, DnsName)>,
    /// The turn number of the group's last turn, or of its arrival.
    last_turn: u64,
    state: GroupState,
}

#[derive(Clone, Copy, Debug)]
enum GroupState {
    Waiting(Timestamp),
    Ready,
}

impl RoundRobin {
    /// The namespace with the fewest names here.
    pub(crate) fn least(&self, namespaces: &[Namespace]) -> Group {
        let names = |it: &&Namespace| self.groups.get(&Some(**it)).map_or(0, |it| it.names.len());
        namespaces.iter().min_by_key(names).copied()
    }

    pub(crate) fn insert(&mut self, at: Timestamp, name: DnsName, group: Group) {
        let turns = self.turns;
        let names = self.groups.entry(group).or_insert_with(|| {
            self.waiting.insert((at, group));
            Names {
                names: BTreeSet::new(),
                last_turn: turns,
                state: GroupState::Waiting(at),
            }
        });
        names.names.insert((at, name));
        if let GroupState::Waiting(first) = names.state
            && at < first
        {
            self.waiting.remove(&(first, group));
            self.waiting.insert((at, group));
            names.state = GroupState::Waiting(at);
        }
    }

    pub(crate) fn remove(&mut self, at: Timestamp, name: &DnsName, group: Group) {
        if let Some(names) = self.groups.get_mut(&group) {
            names.names.remove(&(at, name.clone()));
            if names.names.is_empty() {
                self.leave(group);
            }
        }
    }

    /// When the first name may be due. It may be later, if names were removed.
    pub(crate) fn first(&self) -> Option<Timestamp> {
        match self.ready.first() {
            Some(_) => Some(Timestamp::default()),
            None => self.waiting.first().map(|(at, _)| *at),
        }
    }

    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<(DnsName, Group)> {
        while let Some((first, group)) = self.waiting.first().copied()
            && first <= now
        {
            self.waiting.pop_first();
            if let Some(names) = self.groups.get_mut(&group) {
                names.state = GroupState::Ready;
                self.ready.insert((names.last_turn, group));
            }
        }
        while let Some((_, group)) = self.ready.pop_first() {
            let Some(names) = self.groups.get_mut(&group) else {
                continue;
            };
            let is_due = names.names.first().is_some_and(|(at, _)| *at <= now);
            let taken = is_due.then(|| names.names.pop_first()).flatten();
            if taken.is_some() {
                self.turns += 1;
                names.last_turn = self.turns;
            }
            match names.names.first() {
                None => {
                    self.groups.remove(&group);
                }
                Some((at, _)) if *at <= now => {
                    self.ready.insert((names.last_turn, group));
                }
                Some((at, _)) => {
                    names.state = GroupState::Waiting(*at);
                    self.waiting.insert((*at, group));
                }
            }
            if let Some((_, name)) = taken {
                return Some((name, group));
            }
        }
        None
    }

    fn leave(&mut self, group: Group) {
        if let Some(names) = self.groups.remove(&group) {
            match names.state {
                GroupState::Waiting(first) => self.waiting.remove(&(first, group)),
                GroupState::Ready => self.ready.remove(&(names.last_turn, group)),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::clients::Clients;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn name(i: usize) -> DnsName {
        DnsName::parse(&format!("n{i}.example.com")).unwrap()
    }

    #[test]
    fn turns_go_round_the_namespaces_that_have_names_due() {
        let clients = Clients::default();
        let [one, two, three] = ["one", "two", "three"].map(|it| Some(clients.number(it)));
        let mut queue = RoundRobin::default();
        for i in 0..1000 {
            queue.insert(at(0), name(i), one);
        }
        for i in 1000..1003 {
            queue.insert(at(1), name(i), two);
        }
        queue.insert(at(2), name(1003), three);
        let mut next = |now| queue.pop(at(now)).map(|(_, group)| group);
        assert_eq!([next(0), next(0)], [Some(one), Some(one)]);
        assert_eq!(
            [next(1), next(1), next(1)],
            [Some(two), Some(one), Some(two)]
        );
        assert_eq!(
            [next(2), next(2), next(2)],
            [Some(three), Some(one), Some(two)]
        );
        assert_eq!(next(2), Some(one));
        // A group that comes back gets no more turns than others.
        for i in 2000..2010 {
            queue.insert(at(3), name(i), three);
            let both = [(); 2].map(|()| queue.pop(at(3)).unwrap().1);
            assert!(both.contains(&one) && both.contains(&three), "{both:?}");
        }
        assert_eq!(queue.least(&[one, two, three].map(Option::unwrap)), two);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(i64, usize, usize),
        Remove(usize),
        Pop(i64),
    }

    proptest! {
        #[test]
        fn each_name_is_taken_once_when_it_is_due_in_the_order_of_its_namespace(
            steps in vec(
                prop_oneof![
                    3 => (0..40_i64, 0..60_usize, 0..4_usize).prop_map(|(at, i, of)| Step::Insert(at, i, of)),
                    1 => (0..60_usize).prop_map(Step::Remove),
                    3 => (0..50_i64).prop_map(Step::Pop),
                ],
                0..200,
            )
        ) {
            let clients = Clients::default();
            let group = |of: usize| (of > 0).then(|| clients.number(&of.to_string()));
            let mut queue = RoundRobin::default();
            let mut all: HashMap<DnsName, (Timestamp, Group)> = HashMap::new();
            for step in steps {
                match step {
                    Step::Insert(millis, i, of) if !all.contains_key(&name(i)) => {
                        queue.insert(at(millis), name(i), group(of));
                        all.insert(name(i), (at(millis), group(of)));
                    }
                    Step::Insert(..) => {}
                    Step::Remove(i) => {
                        if let Some((at, group)) = all.remove(&name(i)) {
                            queue.remove(at, &name(i), group);
                        }
                    }
                    Step::Pop(millis) => {
                        let now = at(millis);
                        let due = all.values().filter(|(at, _)| *at <= now).count();
                        let first = all.values().map(|(at, _)| *at).min();
                        prop_assert!(queue.first() <= first && queue.first().is_some() == first.is_some());
                        let taken = queue.pop(now);
                        prop_assert_eq!(taken.is_some(), due > 0);
                        if let Some((name, group)) = taken {
                            let (at, of) = all.remove(&name).unwrap();
                            prop_assert_eq!(of, group);
                            let mut others = all.values().filter(|(_, of)| *of == group);
                            prop_assert!(others.all(|(other, _)| *other >= at));
                        }
                    }
                }
            }
        }
    }
}
