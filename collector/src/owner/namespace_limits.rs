//! What a namespace may have, so that none takes the room of others in the store, the databases and the memory.
//!
//! A name in rules is charged to each namespace whose rules have it, and a name that a wildcard found to those whose pods asked for it.
//! Names of a namespace that has too much are left out in the order of its EgressFirewall, the last first and those of Deny rules last. A name
//! that another namespace pays for stays. What is left out comes back when the namespace has room for it, for ten minutes.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use metrics::gauge;
use proto::api::DnsName;
use runtime::clock::Timestamp;
use tracing::info;

use super::Owner;
use crate::{
    clients::Namespace, observation::Source, policy::left_out::Kind, recent::What, state::Crowd,
};

/// How often it is looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// A namespace has room again for names that were left out when it has had so much for so long.
const ROOM_FOR: Duration = Duration::from_secs(600);
const ROOM: f64 = 0.9;

/// The limits.
#[derive(Clone, Copy, Debug)]
pub struct NamespaceLimits {
    /// `--max-addresses`: addresses of all names.
    pub addresses: usize,
    /// `--max-addresses-per-namespace`: addresses that are charged to a namespace.
    pub addresses_per_namespace: usize,
    /// `--max-names-per-namespace`: names in its rules.
    pub names_per_namespace: usize,
}

impl Default for NamespaceLimits {
    fn default() -> Self {
        Self {
            addresses: 1_000_000,
            addresses_per_namespace: 20_000,
            names_per_namespace: 10_000,
        }
    }
}

/// What is known of namespaces at their limits.
#[derive(Debug, Default)]
pub(super) struct Shares {
    looked_at: Timestamp,
    /// The names of each namespace, in the order in which they are left out.
    pub(super) order: BTreeMap<Namespace, Arc<[DnsName]>>,
    /// Names that are left out, with how many addresses they had; 0 if another leader left them out.
    left_out: HashMap<DnsName, usize>,
    /// Those that another leader left out, and whose namespaces are still to be looked for.
    taken_over: Vec<DnsName>,
    /// Namespaces that had too much, with since when they have had room.
    over: BTreeMap<Namespace, Option<Timestamp>>,
}

impl Shares {
    pub(super) fn set_order(&mut self, namespace: Namespace, order: Option<Arc<[DnsName]>>) {
        match order {
            Some(order) => self.order.insert(namespace, order),
            None => self.order.remove(&namespace),
        };
    }
}

/// What namespaces have.
#[derive(Debug, Default)]
struct Charged {
    /// Addresses of all names.
    all: usize,
    addresses: HashMap<Namespace, usize>,
    names: HashMap<Namespace, usize>,
}

impl Charged {
    fn give_back(&mut self, namespaces: &[Namespace], addresses: usize) {
        self.all = self.all.saturating_sub(addresses);
        for namespace in namespaces {
            if let Some(charged) = self.addresses.get_mut(namespace) {
                *charged = charged.saturating_sub(addresses);
            }
            if let Some(charged) = self.names.get_mut(namespace) {
                *charged = charged.saturating_sub(1);
            }
        }
    }

    fn addresses_of(&self, namespace: Namespace) -> usize {
        self.addresses.get(&namespace).copied().unwrap_or(0)
    }

    fn names_of(&self, namespace: Namespace) -> usize {
        self.names.get(&namespace).copied().unwrap_or(0)
    }

    fn has_room(&self, namespace: Namespace, more: usize, limits: &NamespaceLimits) -> bool {
        let part = |limit: usize| (limit as f64 * ROOM) as usize;
        self.addresses_of(namespace) + more <= part(limits.addresses_per_namespace)
            && self.names_of(namespace) < part(limits.names_per_namespace)
            && self.all + more <= part(limits.addresses)
    }
}

impl Owner {
    /// Leaves names out of namespaces that have too much, and takes them in again.
    pub(super) fn look_at_namespaces(&mut self, now: Timestamp) {
        if !self.leader || self.shares.looked_at + INTERVAL > now {
            return;
        }
        self.shares.looked_at = now;
        let limits = self.config.namespace_limits;
        let mut charged = self.charged();
        let is_over = |(_, names): (&Namespace, &usize)| *names > limits.names_per_namespace;
        let any_over = charged.all > limits.addresses_per_namespace.min(limits.addresses)
            || charged.names.iter().any(is_over);
        if any_over {
            self.cut(&mut charged, &limits, now);
        }
        if !self.shares.left_out.is_empty() {
            self.take_in_again(&mut charged, &limits, now);
        }
        gauge!("collector_names_left_out").set(self.shares.left_out.len() as f64);
    }

    fn charged(&self) -> Charged {
        let mut charged = Charged::default();
        let clients = &self.config.shared.clients;
        for (spec, entry) in &self.entries {
            charged.all += entry.memory.addresses();
            if !entry.wanted {
                continue;
            }
            let own = entry.memory.addresses_of(spec);
            let is_counted = usize::from(!entry.left_out);
            for namespace in &entry.with_rule {
                *charged.addresses.entry(*namespace).or_default() += own;
                *charged.names.entry(*namespace).or_default() += is_counted;
            }
            // What others' rules bring in is not a namespace's own doing.
            let crowd = entry.crowd(clients);
            for (askers, addresses) in entry.memory.found() {
                let who = askers.iter().map(|client| crowd.who(*client));
                let paying: BTreeSet<Namespace> =
                    who.filter_map(|it| crowd.with_rule(it)).collect();
                for namespace in paying {
                    *charged.addresses.entry(namespace).or_default() += addresses;
                }
            }
        }
        charged
    }

    /// Leaves out what is too much.
    fn cut(&mut self, charged: &mut Charged, limits: &NamespaceLimits, now: Timestamp) {
        let too_much = |charged: &Charged, namespace: Namespace| {
            charged.addresses_of(namespace) > limits.addresses_per_namespace
                || charged.names_of(namespace) > limits.names_per_namespace
        };
        let known = charged.addresses.keys().chain(charged.names.keys());
        let over = known.copied().filter(|it| too_much(charged, *it));
        let mut over: BTreeSet<Namespace> = over.collect();
        for namespace in over.clone() {
            let too_much = |charged: &Charged| too_much(charged, namespace);
            self.cut_one(namespace, &over, charged, &too_much, now);
        }
        if charged.all > limits.addresses {
            self.drop_unasked(charged, limits, now);
        }
        // All together have too much: the namespace that has most is next, until it is enough.
        let addresses = charged.addresses.iter();
        let mut most: Vec<(usize, Namespace)> =
            addresses.map(|(it, count)| (*count, *it)).collect();
        most.sort_unstable();
        let too_much = |charged: &Charged| charged.all > limits.addresses;
        while too_much(charged)
            && let Some((_, namespace)) = most.pop()
        {
            over.insert(namespace);
            self.cut_one(namespace, &over, charged, &too_much, now);
        }
    }

    /// Leaves out names of a namespace as long as it has too much; of these, those that only namespaces `over` their limits have.
    fn cut_one(
        &mut self,
        namespace: Namespace,
        over: &BTreeSet<Namespace>,
        charged: &mut Charged,
        too_much: &dyn Fn(&Charged) -> bool,
        now: Timestamp,
    ) {
        let Some(order) = self.shares.order.get(&namespace).cloned() else {
            return;
        };
        let most_names = self.config.namespace_limits.names_per_namespace;
        let mut count = 0;
        for name in order.iter() {
            if !too_much(charged) {
                break;
            }
            let Some(entry) = self.entries.get(name) else {
                continue;
            };
            let has_many_names = charged.names_of(namespace) > most_names;
            let frees_nothing = entry.memory.is_empty() && !has_many_names;
            let is_free = entry.with_rule.iter().all(|it| over.contains(it));
            if entry.left_out || frees_nothing || !is_free {
                continue;
            }
            let with_rule = entry.with_rule.clone();
            let addresses = self.leave_out(name, now);
            charged.give_back(&with_rule, addresses);
            count += 1;
        }
        // A name of its own, always the same: so the namespace is told once in a while, and no other.
        let is_own = |name: &&DnsName| {
            let entry = self.entries.get(*name);
            entry.is_some_and(|entry| *entry.with_rule == [namespace])
        };
        let is_left_out = |name: &&DnsName| self.shares.left_out.contains_key(*name);
        let own = order.iter().find(is_own);
        let first = own.or_else(|| order.iter().find(is_left_out));
        if let Some(first) = first.filter(|_| count > 0) {
            self.shares.over.extend(over.iter().map(|it| (*it, None)));
            info!(names = count, name = %first, "names are left out: their namespace has too many addresses or names");
            self.config.shared.notices.tell(first, Kind::OverLimit);
        }
    }

    /// Takes out what wildcards found that no namespace with a rule for them asked for, of those with most of it first.
    fn drop_unasked(&mut self, charged: &mut Charged, limits: &NamespaceLimits, now: Timestamp) {
        let clients = self.config.shared.clients.clone();
        let is_unasked = |askers: &[IpAddr], crowd: Crowd<'_>| {
            let mut who = askers.iter().map(|client| crowd.who(*client));
            !who.any(|it| crowd.with_rule(it).is_some())
        };
        let unasked = self.entries.iter().filter_map(|(spec, entry)| {
            let crowd = entry.crowd(&clients);
            let unasked = entry
                .memory
                .found()
                .filter(|(askers, _)| is_unasked(askers, crowd));
            let count: usize = unasked.map(|(_, addresses)| addresses).sum();
            (count > 0).then(|| (count, spec.clone()))
        });
        let mut most: Vec<(usize, DnsName)> = unasked.collect();
        most.sort_unstable();
        while charged.all > limits.addresses
            && let Some((_, spec)) = most.pop()
        {
            let Some(entry) = self.entries.get_mut(&spec) else {
                continue;
            };
            let (memory, _, crowd) = entry.parts(&clients);
            let gone = memory.drop_found(now, |askers| is_unasked(askers, crowd));
            charged.all = charged.all.saturating_sub(gone.len());
            let names: BTreeSet<DnsName> = gone.into_iter().map(|(name, _)| name).collect();
            for name in &names {
                self.reschedule(name);
            }
            self.dirty.insert(spec);
        }
    }

    /// Nothing of the name is kept, and its object says why. Returns how many addresses it had.
    fn leave_out(&mut self, name: &DnsName, now: Timestamp) -> usize {
        let Some(entry) = self.entries.get_mut(name) else {
            return 0;
        };
        entry.left_out = true;
        let gone = entry.memory.leave_out(now);
        let count = gone.len();
        self.shares.left_out.insert(name.clone(), count);
        let found: BTreeSet<DnsName> = gone.into_iter().map(|(found, _)| found).collect();
        for found in found {
            self.reschedule(&found);
            self.note(found, None, What::Evicted, Source::STATUS, now);
        }
        self.reschedule(name);
        self.dirty.insert(name.clone());
        count
    }

    fn take_in_again(&mut self, charged: &mut Charged, limits: &NamespaceLimits, now: Timestamp) {
        if !self.wanted_in_sync {
            return;
        }
        for name in std::mem::take(&mut self.shares.taken_over) {
            let with_rule = self.entries.get(&name).map(|it| it.with_rule.clone());
            let with_rule = with_rule.iter().flatten();
            self.shares.over.extend(with_rule.map(|it| (*it, None)));
        }
        let (entries, over) = (&self.entries, &self.shares.over);
        // Nobody wants it any more, or another namespace pays for it.
        let is_free = |name: &DnsName| {
            let entry = entries.get(name).filter(|entry| entry.wanted);
            entry.is_none_or(|entry| !entry.with_rule.iter().all(|it| over.contains_key(it)))
        };
        let names = self.shares.left_out.keys();
        let free: Vec<DnsName> = names.filter(|it| is_free(it)).cloned().collect();
        for name in &free {
            self.take_in(name, charged);
        }
        let mut with_room = Vec::new();
        for (namespace, since) in &mut self.shares.over {
            if !charged.has_room(*namespace, 0, limits) {
                *since = None;
            } else if *since.get_or_insert(now) + ROOM_FOR <= now {
                with_room.push(*namespace);
            }
        }
        for namespace in with_room {
            let order = self.shares.order.get(&namespace).cloned();
            let mut is_whole = true;
            for name in order.iter().flat_map(|order| order.iter().rev()) {
                let Some(had) = self.shares.left_out.get(name).copied() else {
                    continue;
                };
                is_whole = charged.has_room(namespace, had, limits);
                if !is_whole {
                    break;
                }
                self.take_in(name, charged);
            }
            if is_whole {
                self.shares.over.remove(&namespace);
            }
        }
    }

    fn take_in(&mut self, name: &DnsName, charged: &mut Charged) {
        let had = self.shares.left_out.remove(name).unwrap_or(0);
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        entry.left_out = false;
        for namespace in &entry.with_rule {
            *charged.addresses.entry(*namespace).or_default() += had;
            *charged.names.entry(*namespace).or_default() += 1;
        }
        charged.all += had;
        self.reschedule(name);
        self.dirty.insert(name.clone());
    }

    /// This collector leads from now on, and goes on with what the last leader left out, as the statuses say; or it does not lead any
    /// more.
    pub(super) fn take_over_left_out(&mut self, now: Timestamp) {
        self.shares = Shares {
            order: std::mem::take(&mut self.shares.order),
            ..Shares::default()
        };
        let leader = self.leader;
        let mut left_out = Vec::new();
        for (name, entry) in &mut self.entries {
            let mut objects = entry.objects.iter();
            entry.left_out = leader && objects.any(|object| object.status.is_over_limit(name));
            if entry.left_out {
                entry.memory.leave_out(now);
                left_out.push(name.clone());
            }
        }
        for name in left_out {
            self.goes_on_left_out(name);
        }
    }

    /// Another leader left this name out.
    pub(super) fn goes_on_left_out(&mut self, name: DnsName) {
        self.reschedule(&name);
        self.shares.left_out.insert(name.clone(), 0);
        self.shares.taken_over.push(name);
    }

    /// The clock was set.
    pub(super) fn shares_gap(&mut self, now: Timestamp) {
        self.shares.looked_at = self.shares.looked_at.min(now);
        for since in self.shares.over.values_mut().flatten() {
            *since = (*since).min(now);
        }
    }
}
