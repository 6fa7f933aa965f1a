//! In which order names leave a wildcard that is full, so that nobody takes the place of others.
//!
//! 1. Names whose addresses stand in the wildcard's own entry: they are no loss.
//! 2. Names that only pods of namespaces without a rule for the wildcard asked for.
//! 3. Names of the namespace that has most. A name is of each namespace that asked for it, and clients that are no pods count as one
//!    namespace. Of these names those go first that fewest namespaces asked for, then those of the client that has most, then those
//!    that were seen longest ago.
//!
//! A name from a status is of nobody until somebody asks for it: it stands for itself, beside the namespaces.

use std::{cmp::Reverse, collections::HashMap, hash::Hash};

use super::{Crowd, Memory, name::Name};

/// The names under a wildcard, in the order in which they leave.
pub(super) struct Leaving<'a> {
    /// By class, in the order in which these leave.
    candidates: [Vec<Candidate<'a>>; 3],
    /// What each namespace has, and each client.
    groups: Vec<usize>,
    clients: Vec<usize>,
}

const NO_LOSS: usize = 0;
const WITHOUT_RULE: usize = 1;
const WITH_RULE: usize = 2;

struct Candidate<'a> {
    name: &'a Name,
    weight: usize,
    /// Who asked for it, by places in the lists: nobody if it came from a status.
    groups: Box<[usize]>,
    clients: Box<[usize]>,
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
        let mut candidates = [Vec::new(), Vec::new(), Vec::new()];
        let (mut groups, mut clients) = (Places(HashMap::new()), Places(HashMap::new()));
        let mut known = HashMap::new();
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
            let class = match (is_loss, is_without_rule) {
                (false, _) => NO_LOSS,
                (true, true) => WITHOUT_RULE,
                (true, false) => WITH_RULE,
            };
            if let Some(class) = candidates.get_mut(class) {
                class.push(Candidate {
                    name,
                    weight: weigh(name),
                    groups: of_groups.into(),
                    clients: name.askers.iter().map(|it| clients.of(it)).collect(),
                });
            }
        }
        let mut leaving = Self {
            groups: vec![0; groups.0.len()],
            clients: vec![0; clients.0.len()],
            candidates,
        };
        for candidate in leaving.candidates.iter().flatten() {
            let weight = candidate.weight;
            change(&mut leaving.groups, &candidate.groups, |it| it + weight);
            change(&mut leaving.clients, &candidate.clients, |it| it + weight);
        }
        leaving
    }

    /// The place of the first of some names of a class.
    fn first(&self, class: &[Candidate<'_>], among: impl Fn(&Candidate<'_>) -> bool) -> usize {
        let of_client = |place: &usize| self.clients.get(*place).copied().unwrap_or(0);
        let among = class.iter().enumerate().filter(|(_, it)| among(it));
        let first = among.min_by_key(|(_, candidate)| {
            let most = candidate.clients.iter().map(of_client).max();
            let name = candidate.name;
            (
                candidate.groups.len(),
                Reverse(most),
                name.seen,
                &name.dns_name,
            )
        });
        first.map_or(0, |(place, _)| place)
    }

    /// The class and the place of the next name.
    fn next_place(&self) -> Option<(usize, usize)> {
        let mut classes = self.candidates.iter().enumerate();
        let (number, class) = classes.find(|(_, class)| !class.is_empty())?;
        if number < WITH_RULE {
            return Some((number, self.first(class, |_| true)));
        }
        let groups = self.groups.iter().enumerate();
        let most = groups.max_by_key(|(_, weight)| **weight);
        let alone = class.iter().filter(|it| it.groups.is_empty());
        let alone = alone.map(|it| it.weight).max().unwrap_or(0);
        let place = match most {
            Some((group, weight)) if *weight >= alone => {
                self.first(class, |it| it.groups.contains(&group))
            }
            _ => self.first(class, |it| it.groups.is_empty()),
        };
        Some((number, place))
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
        let (class, place) = self.next_place()?;
        let gone = self.candidates.get_mut(class)?.swap_remove(place);
        let weight = gone.weight;
        change(&mut self.groups, &gone.groups, |it| {
            it.saturating_sub(weight)
        });
        change(&mut self.clients, &gone.clients, |it| {
            it.saturating_sub(weight)
        });
        Some(gone.name)
    }
}
