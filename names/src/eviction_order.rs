//! The order in which names leave a full wildcard.
//!
//! Names that clients asked for in one minute only leave first. Among these, and then among all others, the next one to
//! leave is of the client with most names: the one that was asked for longest ago. A name belongs to that client, of
//! those that asked for it, which has fewest names. A name of a stored status has no known client: it counts as the only
//! name of a client.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap, VecDeque},
    net::IpAddr,
};

use super::{NameList, name::Name, reserve_one};

/// The names of one client, those asked for longest ago first.
#[derive(Default)]
struct OfClient<'a> {
    count: usize,
    /// Those asked for in one minute only, and the others.
    queues: [VecDeque<&'a Name>; 2],
}

/// The names of the list except its own, in the order in which they leave.
pub(super) fn eviction_order(list: &NameList) -> Vec<&Name> {
    let found = list
        .names
        .iter()
        .filter(|name| name.dns_name != list.rule_name);
    let mut found: Vec<&Name> = found.collect();
    found.sort_unstable_by_key(|name| (name.last_asked(), &name.dns_name));
    let mut asked: HashMap<IpAddr, usize> = HashMap::new();
    for client in found.iter().flat_map(|name| name.clients.iter()) {
        *asked.entry(client).or_default() += 1;
    }
    let mut clients: HashMap<Option<IpAddr>, OfClient<'_>> = HashMap::new();
    for name in &found {
        let names_of = |client: &IpAddr| (asked.get(client).copied(), *client);
        let owner = name.clients.iter().min_by_key(names_of);
        let of_client = clients.entry(owner).or_default();
        of_client.count += 1;
        let queue = usize::from(name.is_asked_in_two_minutes);
        if let Some(queue) = of_client.queues.get_mut(queue) {
            queue.push_back(name);
        }
    }
    let mut order = Vec::with_capacity(found.len());
    for queue in 0..2 {
        drain(queue, &mut clients, &mut order);
    }
    order
}

/// Takes all names of a queue, each time one of the client with most names.
fn drain<'a>(
    queue: usize,
    clients: &mut HashMap<Option<IpAddr>, OfClient<'a>>,
    order: &mut Vec<&'a Name>,
) {
    let rank = |client: Option<IpAddr>, of_client: &OfClient<'_>| {
        let first = of_client.queues.get(queue)?.front()?;
        let count = client.map_or(1, |_| of_client.count);
        Some((count, Reverse(first.last_asked()), client))
    };
    let ranks = clients.iter();
    let mut ranks: BTreeSet<_> = ranks
        .filter_map(|(client, of_client)| rank(*client, of_client))
        .collect();
    while let Some((.., client)) = ranks.pop_last() {
        let Some(of_client) = clients.get_mut(&client) else {
            continue;
        };
        let names = of_client.queues.get_mut(queue);
        order.extend(names.and_then(VecDeque::pop_front));
        of_client.count -= 1;
        ranks.extend(rank(client, of_client));
    }
}

/// The most clients kept for each name: the first ones.
const MOST: usize = 8;

/// Clients that asked for a name, the first one first.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientsOfName(Vec<IpAddr>);

impl ClientsOfName {
    pub(super) fn as_slice(&self) -> &[IpAddr] {
        &self.0
    }

    pub(super) fn first(&self) -> Option<IpAddr> {
        self.0.first().copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = IpAddr> {
        self.0.iter().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn insert(&mut self, client: IpAddr) {
        if self.0.len() < MOST && !self.0.contains(&client) {
            reserve_one(&mut self.0);
            self.0.push(client);
        }
    }

    pub(super) fn extend(&mut self, others: &Self) {
        for client in others.iter() {
            self.insert(client);
        }
    }
}
