//! The order in which names leave a full wildcard. It prevents one namespace from displacing the
//! names of others.
//!
//! 1. Names whose addresses are also in the wildcard's own entry: removing them loses nothing.
//! 2. Names that only pods of namespaces without a rule for the wildcard queried.
//! 3. Names read from a status that no client queried within 90 minutes since.
//! 4. Names of the namespace with the most. A name counts for each namespace that queried it, but
//!    leaves as a name of the one with the fewest. So a namespace cannot push out the names of
//!    others by querying them too. Clients that are not pods count as one namespace. Within a
//!    namespace, names that the fewest namespaces queried go first. Then come the names of the
//!    client with the most, and then those queried longest ago.
//!
//! After a restart the collector does not know which clients queried the names of a status. For 90
//! minutes, while there are names without a known client, only names that came since count for a
//! namespace. Each name that it loses makes up for one of these. Otherwise a namespace that queries
//! its old names again would lose them to a client that queries ever new ones. Names without a
//! known client go when no other name counts.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap, VecDeque},
    hash::Hash,
    time::Duration,
};

use runtime::clock::Timestamp;

use super::{Crowd, NameList, name::Name};

/// A client that uses a name queries it again within this time.
const ASKED_AGAIN_WITHIN: Duration = Duration::from_secs(90 * 60);

/// The names under a wildcard, in the order in which they leave.
pub(super) struct Leaving<'a> {
    candidates: Vec<Candidate<'a>>,
    /// The remaining names of each class.
    left: [usize; 4],
    /// The share of each namespace; `clients` has those of clients.
    groups: Vec<Share>,
    clients: Vec<Share>,
    /// The remaining names that leave as those of each namespace.
    leaving_as: Vec<usize>,
    /// Indices of candidates by class, group and number of namespaces that queried them. Then by
    /// client, those seen longest ago first.
    queues: BTreeMap<(usize, usize, usize), BTreeMap<usize, VecDeque<usize>>>,
}

const NO_LOSS: usize = 0;
const WITHOUT_RULE: usize = 1;
const NOT_ASKED_AGAIN: usize = 2;
const WITH_RULE: usize = 3;

/// The group of names that no client queried, and of classes that do not consider namespaces.
const NONE: usize = usize::MAX;

/// The share of a namespace or a client, and the part of it that counts. Names from a status do not
/// count while there are some without a known client.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
struct Share {
    counted: usize,
    all: usize,
}

struct Candidate<'a> {
    name: &'a Name,
    class: usize,
    weight: usize,
    counts: bool,
    /// Indices of the namespaces that queried it; the first is the one as whose name it leaves.
    groups: Box<[usize]>,
    clients: Box<[usize]>,
    is_gone: bool,
}

/// Numbers things in order of appearance.
struct Places<T>(HashMap<T, usize>);

impl<T: Eq + Hash> Places<T> {
    fn of(&mut self, thing: T) -> usize {
        let next = self.0.len();
        *self.0.entry(thing).or_insert(next)
    }
}

impl<'a> Leaving<'a> {
    /// The names of the list except its own. `weigh`: how much of the scarce resource a name takes.
    pub(super) fn of(
        list: &'a NameList,
        crowd: Crowd<'_>,
        now: Timestamp,
        weigh: impl Fn(&Name) -> usize,
    ) -> Self {
        let (mut groups, mut clients) = (Places(HashMap::new()), Places(HashMap::new()));
        let mut known = HashMap::new();
        let is_found = |it: &&Name| it.dns_name != list.spec;
        let is_unclaimed = |it: &Name| it.is_from_status && it.askers.is_empty();
        let may_be_claimed = |it: &Name| is_unclaimed(it) && now < it.sighted + ASKED_AGAIN_WITHIN;
        let any_unclaimed = list.names.iter().filter(is_found).any(may_be_claimed);
        let mut candidates: Vec<Candidate<'a>> = Vec::with_capacity(list.names.len());
        for name in list.names.iter().filter(is_found) {
            let mut of_groups = Vec::new();
            let mut is_without_rule = !name.askers.is_empty();
            for client in name.askers.iter() {
                let who = *known.entry(client).or_insert_with(|| crowd.who(client));
                is_without_rule &= crowd.is_without_rule(who);
                let group = groups.of(who);
                if !of_groups.contains(&group) {
                    of_groups.push(group);
                }
            }
            let is_loss = name.addresses.iter().any(|it| !list.is_covered(it));
            candidates.push(Candidate {
                name,
                class: if !is_loss {
                    NO_LOSS
                } else if is_without_rule {
                    WITHOUT_RULE
                } else if is_unclaimed(name) && !may_be_claimed(name) {
                    NOT_ASKED_AGAIN
                } else {
                    WITH_RULE
                },
                weight: weigh(name),
                counts: !(any_unclaimed && name.is_from_status),
                groups: of_groups.into(),
                clients: name.askers.iter().map(|it| clients.of(it)).collect(),
                is_gone: false,
            });
        }
        candidates.sort_unstable_by_key(|it| (it.name.last_asked(), &it.name.dns_name));
        let mut leaving = Self {
            groups: vec![Share::default(); groups.0.len()],
            clients: vec![Share::default(); clients.0.len()],
            leaving_as: vec![0; groups.0.len()],
            left: [0; 4],
            queues: BTreeMap::new(),
            candidates: Vec::new(),
        };
        for candidate in &candidates {
            leaving.add_weight(candidate);
        }
        for (place, candidate) in candidates.iter_mut().enumerate() {
            let share = |group: &usize| leaving.groups.get(*group).copied();
            candidate.groups.sort_by_key(share);
            leaving.add(place, candidate);
        }
        leaving.candidates = candidates;
        leaving
    }

    fn add_weight(&mut self, candidate: &Candidate<'_>) {
        let Candidate {
            weight,
            counts,
            groups,
            clients,
            ..
        } = candidate;
        change(&mut self.groups, groups, |it| it.add(*weight, *counts));
        change(&mut self.clients, clients, |it| it.add(*weight, *counts));
    }

    fn add(&mut self, place: usize, candidate: &Candidate<'_>) {
        let Candidate {
            class,
            weight,
            groups,
            clients,
            ..
        } = candidate;
        if let Some(left) = self.left.get_mut(*class) {
            *left += 1;
        }
        let group = candidate.leaves_as().unwrap_or(NONE);
        if let Some(left) = self.leaving_as.get_mut(group) {
            *left += 1;
        }
        // Among names without a client, the largest come first, by powers of two.
        let rank = match *class == WITH_RULE && groups.is_empty() {
            true => weight.leading_zeros() as usize,
            false => groups.len(),
        };
        let queues = self.queues.entry((*class, group, rank)).or_default();
        let none = &[NONE][..];
        for client in if clients.is_empty() { none } else { clients } {
            queues.entry(*client).or_default().push_back(place);
        }
    }

    /// The first candidate of a class and a group.
    fn first(&mut self, class: usize, group: usize) -> Option<usize> {
        let (candidates, clients) = (&self.candidates, &self.clients);
        let is_gone = |place: &usize| candidates.get(*place).is_none_or(|it| it.is_gone);
        let weight = |client: &usize| clients.get(*client).copied().unwrap_or_default();
        for (_, queues) in self
            .queues
            .range_mut((class, group, 0)..=(class, group, usize::MAX))
        {
            queues.retain(|_, queue| {
                while queue.front().is_some_and(is_gone) {
                    queue.pop_front();
                }
                !queue.is_empty()
            });
            let fronts = queues
                .iter()
                .filter_map(|(client, queue)| Some((client, *queue.front()?)));
            // The indices are in the order of time.
            let first = fronts.max_by_key(|(client, place)| (weight(client), Reverse(*place)));
            if let Some((_, place)) = first {
                return Some(place);
            }
        }
        None
    }

    fn next_place(&mut self) -> Option<usize> {
        let class = self.left.iter().position(|left| *left > 0)?;
        if class < WITH_RULE {
            return self.first(class, NONE);
        }
        let groups = self.groups.iter().copied().enumerate();
        let left = groups.zip(&self.leaving_as).filter(|(_, left)| **left > 0);
        let most = left.map(|(group, _)| group).max_by_key(|(_, share)| *share);
        match most.filter(|(_, share)| share.counted > 0) {
            Some((group, _)) => self.first(class, group),
            None => self
                .first(class, NONE)
                .or_else(|| self.first(class, most?.0)),
        }
    }
}

impl Candidate<'_> {
    /// The namespace as whose name it leaves, if the class considers that.
    fn leaves_as(&self) -> Option<usize> {
        let first = self.groups.first().copied();
        first.filter(|_| self.class == WITH_RULE)
    }
}

impl Share {
    fn add(&mut self, weight: usize, counts: bool) {
        self.counted += if counts { weight } else { 0 };
        self.all += weight;
    }

    fn subtract(&mut self, weight: usize) {
        self.counted = self.counted.saturating_sub(weight);
        self.all = self.all.saturating_sub(weight);
    }
}

fn change(shares: &mut [Share], places: &[usize], how: impl Fn(&mut Share)) {
    for place in places {
        if let Some(share) = shares.get_mut(*place) {
            how(share);
        }
    }
}

impl<'a> Iterator for Leaving<'a> {
    type Item = &'a Name;

    fn next(&mut self) -> Option<&'a Name> {
        let place = self.next_place()?;
        let gone = self.candidates.get_mut(place)?;
        gone.is_gone = true;
        let weight = gone.weight;
        if let Some(left) = gone.leaves_as().and_then(|it| self.leaving_as.get_mut(it)) {
            *left = left.saturating_sub(1);
        }
        change(&mut self.groups, &gone.groups, |it| it.subtract(weight));
        change(&mut self.clients, &gone.clients, |it| it.subtract(weight));
        if let Some(left) = self.left.get_mut(gone.class) {
            *left = left.saturating_sub(1);
        }
        Some(gone.name)
    }
}
