//! In which order names leave a wildcard that is full, so that nobody takes the place of others.
//!
//! 1. Names whose addresses stand in the wildcard's own entry: they are no loss.
//! 2. Names that only pods of namespaces without a rule for the wildcard asked for.
//! 3. Names of the namespace that has most. A name is of each namespace that asked for it, and clients that are no pods count as one
//!    namespace. Of these names those go first that fewest namespaces asked for, then those of the client that has most, then those
//!    that were seen longest ago.
//!
//! A name from a status is of nobody until somebody asks for it: it stands for itself, beside the namespaces.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap, VecDeque},
    hash::Hash,
};

use super::{Crowd, Memory, name::Name};

/// The names under a wildcard, in the order in which they leave.
pub(super) struct Leaving<'a> {
    candidates: Vec<Candidate<'a>>,
    /// How many of each class are left.
    left: [usize; 3],
    /// What each namespace has, and each client.
    groups: Vec<usize>,
    clients: Vec<usize>,
    /// Places of candidates by class, group and how many namespaces asked for them; then by client, those first that were seen longest ago.
    queues: BTreeMap<(usize, usize, usize), BTreeMap<usize, VecDeque<usize>>>,
}

const NO_LOSS: usize = 0;
const WITHOUT_RULE: usize = 1;
const WITH_RULE: usize = 2;

/// Of names that nobody asked for, and of those whose namespaces do not matter.
const NONE: usize = usize::MAX;

struct Candidate<'a> {
    name: &'a Name,
    class: usize,
    weight: usize,
    /// Who asked for it, by places in the lists.
    groups: Box<[usize]>,
    clients: Box<[usize]>,
    is_gone: bool,
}

/// Gives each thing a place in a list.
struct Places<T>(HashMap<T, usize>);

impl<T: Eq + Hash> Places<T> {
    fn of(&mut self, thing: T) -> usize {
        let next = self.0.len();
        *self.0.entry(thing).or_insert(next)
    }
}

impl<'a> Leaving<'a> {
    /// The names of the memory but for its own. `weigh`: how much each takes of what is scarce.
    pub(super) fn of(memory: &'a Memory, crowd: Crowd<'_>, weigh: impl Fn(&Name) -> usize) -> Self {
        let (mut groups, mut clients) = (Places(HashMap::new()), Places(HashMap::new()));
        let mut known = HashMap::new();
        let mut candidates: Vec<Candidate<'a>> = Vec::with_capacity(memory.names.len());
        for name in memory.names.iter().filter(|it| it.dns_name != memory.spec) {
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
            let is_loss = name.addresses.iter().any(|it| !memory.is_covered(it));
            candidates.push(Candidate {
                name,
                class: match (is_loss, is_without_rule) {
                    (false, _) => NO_LOSS,
                    (true, true) => WITHOUT_RULE,
                    (true, false) => WITH_RULE,
                },
                weight: weigh(name),
                groups: of_groups.into(),
                clients: name.askers.iter().map(|it| clients.of(it)).collect(),
                is_gone: false,
            });
        }
        candidates.sort_unstable_by_key(|it| (it.name.seen, &it.name.dns_name));
        let mut leaving = Self {
            groups: vec![0; groups.0.len()],
            clients: vec![0; clients.0.len()],
            left: [0; 3],
            queues: BTreeMap::new(),
            candidates: Vec::new(),
        };
        for (place, candidate) in candidates.iter().enumerate() {
            leaving.add(place, candidate);
        }
        leaving.candidates = candidates;
        leaving
    }

    fn add(&mut self, place: usize, candidate: &Candidate<'_>) {
        let Candidate {
            class,
            weight,
            groups,
            clients,
            ..
        } = candidate;
        change(&mut self.groups, groups, |it| it + weight);
        change(&mut self.clients, clients, |it| it + weight);
        if let Some(left) = self.left.get_mut(*class) {
            *left += 1;
        }
        let none = &[NONE][..];
        let of_class = if *class == WITH_RULE && !groups.is_empty() {
            groups
        } else {
            none
        };
        // Of names that nobody asked for the largest come first, by powers of two.
        let rank = match *class == WITH_RULE && groups.is_empty() {
            true => weight.leading_zeros() as usize,
            false => groups.len(),
        };
        for group in of_class {
            let queues = self.queues.entry((*class, *group, rank));
            let queues = queues.or_default();
            for client in if clients.is_empty() { none } else { clients } {
                queues.entry(*client).or_default().push_back(place);
            }
        }
    }

    /// The first candidate of a class and a group.
    fn first(&mut self, class: usize, group: usize) -> Option<usize> {
        let (candidates, clients) = (&self.candidates, &self.clients);
        let is_gone = |place: &usize| candidates.get(*place).is_none_or(|it| it.is_gone);
        let weight = |client: &usize| clients.get(*client).copied().unwrap_or(0);
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
            // The places are in the order of time.
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
        let most = groups.max_by_key(|(_, weight)| *weight);
        let alone = self.first(class, NONE);
        let alone_weight = alone.and_then(|place| Some(self.candidates.get(place)?.weight));
        if alone_weight > most.map(|(_, weight)| weight) {
            return alone;
        }
        let (group, _) = most?;
        self.first(class, group)
    }
}

fn change(weights: &mut [usize], places: &[usize], how: impl Fn(usize) -> usize) {
    for place in places {
        if let Some(weight) = weights.get_mut(*place) {
            *weight = how(*weight);
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
        change(&mut self.groups, &gone.groups, |it| {
            it.saturating_sub(weight)
        });
        change(&mut self.clients, &gone.clients, |it| {
            it.saturating_sub(weight)
        });
        if let Some(left) = self.left.get_mut(gone.class) {
            *left = left.saturating_sub(1);
        }
        Some(gone.name)
    }
}
