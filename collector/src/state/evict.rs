//! Circuit breakers: what goes when a name, a wildcard or an object is full. Only what the leader evicts leaves a status.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    net::IpAddr,
};

use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::{
    Learned, Limits, Memory, Stored,
    name::{Address, Name},
};

/// What an address costs in a stored object, with the place that it has in `managedFields`: 139 bytes, twice its text and
/// its TTL. Measured on kube-apiserver 1.36 as 173 bytes for one of 14 characters.
const ADDRESS_V4_BYTES: usize = 190;
const ADDRESS_V6_BYTES: usize = 240;
/// The same for a name with its condition, but for its text.
const NAME_BYTES: usize = 700;
/// Everything else of an object.
pub(super) const OBJECT_BYTES: usize = 4_000;

/// Nobody takes less than this for too large: who says so would empty every set.
const NEVER_TOO_LARGE: usize = 64 << 10;

/// In the order in which addresses go. What stands in the wildcard's own entry too, for as long or longer, goes first: it is no
/// loss. Those of the object's own name go last.
type Victim<'a> = (bool, bool, Timestamp, &'a DnsName, IpAddr);

impl Memory {
    /// How many new addresses of the name may be taken in. Only what stands in a Deny rule is bounded so, since nothing
    /// of it is thrown out.
    pub(super) fn room(&self, dns_name: &DnsName, limits: &Limits) -> usize {
        if !limits.protected {
            return usize::MAX;
        }
        let entry = match self.name(dns_name) {
            Some(_) => 0,
            None => name_bytes(dns_name),
        };
        let left = self
            .most_bytes(limits)
            .saturating_sub(self.bytes())
            .saturating_sub(entry);
        left / ADDRESS_V6_BYTES
    }

    /// Brings the memory back into the limits.
    pub(super) fn enforce(&mut self, limits: &Limits, now: Timestamp, learned: &mut Learned) {
        if limits.protected {
            return;
        }
        learned.evicted_addresses += self.enforce_addresses(limits, now, learned);
        learned.evicted_names += self.enforce_names(limits, now, learned);
        learned.evicted_addresses += self.enforce_bytes(limits, now, learned);
        learned.urgent |= learned.evicted_addresses + learned.evicted_names > 0;
    }

    /// The store says that the object, with `stored` for its present status, is too large: evicts a tenth, and never again
    /// lets the object grow beyond what is left. Of what stands in a Deny rule only that goes which the status lacks.
    pub fn shrink(&mut self, stored: &Stored, now: Timestamp, limits: &Limits) -> Learned {
        let mut learned = Learned::default();
        let bytes = self.bytes();
        if bytes <= NEVER_TOO_LARGE {
            return learned;
        }
        self.most_bytes = u32::try_from(bytes - bytes / 10).unwrap_or(u32::MAX);
        if limits.protected {
            let listed = stored.listed();
            let mut news: Vec<_> = self
                .victims()
                .into_iter()
                .filter(|(.., dns_name, ip)| listed.binary_search(&(*dns_name, *ip)).is_err())
                .map(|(_, _, seen, dns_name, ip)| (Reverse(seen), dns_name.clone(), ip))
                .collect();
            news.sort_unstable();
            news.truncate(self.addresses().div_ceil(10));
            let going = news.into_iter().map(|(_, name, ip)| (name, ip)).collect();
            learned.evicted_addresses = self.evict(going, now, &mut learned);
        } else {
            self.enforce(limits, now, &mut learned);
        }
        learned
    }

    /// Names with more addresses than they may have lose the oldest-seen.
    fn enforce_addresses(
        &mut self,
        limits: &Limits,
        now: Timestamp,
        learned: &mut Learned,
    ) -> usize {
        let mut going = Vec::new();
        for name in &self.names {
            let most = limits.addresses_per_name;
            let surplus = name.addresses.len().saturating_sub(most);
            if surplus > 0 {
                let victim = |address| self.victim(name, address);
                let mut victims: Vec<_> = name.addresses.iter().map(victim).collect();
                victims.select_nth_unstable(surplus - 1);
                going.extend(victims.into_iter().take(surplus).map(key));
            }
        }
        self.evict(going, now, learned)
    }

    /// While there are too many regular names under a wildcard, the oldest-seen goes of the client that brought in most, so
    /// that a client that asks for random labels evicts its own.
    fn enforce_names(&mut self, limits: &Limits, now: Timestamp, learned: &mut Learned) -> usize {
        let regular = || self.names.iter().filter(|name| name.dns_name != self.spec);
        let surplus = regular().count().saturating_sub(limits.names_per_wildcard);
        if surplus == 0 || !self.spec.is_wildcard() {
            return 0;
        }
        let mut by_client: BTreeMap<Option<IpAddr>, Vec<_>> = BTreeMap::new();
        for name in regular() {
            let is_loss = name.addresses.iter().any(|it| !self.is_covered(it));
            let victim = (is_loss, name.seen, &name.dns_name);
            by_client
                .entry(name.brought_by)
                .or_default()
                .push(Reverse(victim));
        }
        let by_client = by_client.into_values().map(BinaryHeap::from);
        let mut by_client: Vec<_> = by_client.collect();
        let mut going = Vec::new();
        for _ in 0..surplus {
            let client = by_client.iter_mut().max_by_key(|names| {
                let next = names.peek().copied();
                // What is no loss goes first, whoever brought it.
                let no_loss = next.is_some_and(|Reverse((is_loss, ..))| !is_loss);
                (no_loss, names.len(), next)
            });
            let next = client.and_then(BinaryHeap::pop);
            let Some(Reverse((.., dns_name))) = next else {
                break;
            };
            let addresses = self.name(dns_name).into_iter();
            let addresses = addresses.flat_map(|name| &name.addresses);
            going.extend(addresses.map(|address| (dns_name.clone(), address.ip)));
        }
        self.evict(going, now, learned);
        surplus
    }

    /// Removes the oldest-seen addresses until the object is small enough.
    fn enforce_bytes(&mut self, limits: &Limits, now: Timestamp, learned: &mut Learned) -> usize {
        let excess = self.bytes().saturating_sub(self.most_bytes(limits));
        if excess == 0 {
            return 0;
        }
        let mut victims = self.victims();
        // So many are enough for sure.
        let enough = excess.div_ceil(ADDRESS_V4_BYTES).min(victims.len());
        if enough < victims.len() {
            victims.select_nth_unstable(enough);
            victims.truncate(enough);
        }
        victims.sort_unstable();
        let mut left: BTreeMap<&DnsName, usize> = BTreeMap::new();
        let (mut going, mut freed) = (Vec::new(), 0);
        for victim in victims {
            if freed >= excess {
                break;
            }
            let (.., dns_name, ip) = victim;
            let all = || self.addresses_of(dns_name);
            let left = left.entry(dns_name).or_insert_with(all);
            *left -= 1;
            freed += address_bytes(ip);
            if *left == 0 {
                freed += name_bytes(dns_name);
            }
            going.push(key(victim));
        }
        self.evict(going, now, learned)
    }

    /// Returns how many went.
    fn evict(
        &mut self,
        mut going: Vec<(DnsName, IpAddr)>,
        now: Timestamp,
        learned: &mut Learned,
    ) -> usize {
        if going.is_empty() {
            return 0;
        }
        going.sort_unstable();
        self.take_away(now, |name, address| {
            let this = (&name.dns_name, address.ip);
            let found = going.binary_search_by(|(dns_name, ip)| (dns_name, *ip).cmp(&this));
            found.is_ok()
        });
        let mut names: Vec<_> = going.iter().map(|(dns_name, _)| dns_name).collect();
        names.dedup();
        let names = names.into_iter();
        learned
            .gone
            .extend(names.filter(|it| self.name(it).is_none()).cloned());
        let count = going.len();
        learned.evicted.append(&mut going);
        count
    }

    fn victims(&self) -> Vec<Victim<'_>> {
        let of_name = |name| {
            let victim = move |address| self.victim(name, address);
            name.addresses.iter().map(victim)
        };
        self.names.iter().flat_map(of_name).collect()
    }

    fn victim<'a>(&self, name: &'a Name, address: &Address) -> Victim<'a> {
        let dns_name = &name.dns_name;
        let own = *dns_name == self.spec;
        let is_loss = own || !self.is_covered(address);
        (is_loss, own, address.seen, dns_name, address.ip)
    }

    /// How full it is, as parts of its limits, where 1 is full: the addresses of the fullest name, the names under a wildcard, and
    /// the bytes of the object.
    pub fn fill(&self, limits: &Limits) -> [f64; 3] {
        let part = |of: usize, most: usize| of as f64 / most.max(1) as f64;
        let most = self.names.iter().map(|name| name.addresses.len()).max();
        let under = if self.spec.is_wildcard() {
            self.names.len()
        } else {
            0
        };
        [
            part(most.unwrap_or(0), limits.addresses_per_name),
            part(under, limits.names_per_wildcard),
            part(self.bytes(), self.most_bytes(limits)),
        ]
    }

    fn most_bytes(&self, limits: &Limits) -> usize {
        let most = usize::try_from(self.most_bytes).unwrap_or(usize::MAX);
        most.min(limits.object_bytes)
    }

    /// How large the object is as the API server stores it, `managedFields` included: rather too much than too little.
    pub(super) fn bytes(&self) -> usize {
        let name = |name: &Name| {
            let v6 = name
                .addresses
                .partition_point(|address| address.ip.is_ipv4());
            name_bytes(&name.dns_name)
                + v6 * ADDRESS_V4_BYTES
                + (name.addresses.len() - v6) * ADDRESS_V6_BYTES
        };
        OBJECT_BYTES + self.names.iter().map(name).sum::<usize>()
    }
}

fn key((.., dns_name, ip): Victim<'_>) -> (DnsName, IpAddr) {
    (dns_name.clone(), ip)
}

pub(super) fn name_bytes(dns_name: &DnsName) -> usize {
    NAME_BYTES + 2 * dns_name.as_str().len()
}

pub(super) fn address_bytes(ip: IpAddr) -> usize {
    match ip {
        IpAddr::V4(_) => ADDRESS_V4_BYTES,
        IpAddr::V6(_) => ADDRESS_V6_BYTES,
    }
}
