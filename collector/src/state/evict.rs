//! Circuit breakers: what goes when a name, a wildcard or an object is full. The same input evicts the same.

use std::{collections::BTreeMap, net::IpAddr};

use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::{Learned, Limits, Memory};

/// What an address costs in a stored object: 85 bytes of JSON, and the field that `managedFields` has for it. Measured
/// as 0.5 MB for 1,000 addresses.
const ADDRESS_BYTES: usize = 500;
/// The same for a name with its condition, and its share of `managedFields`.
const NAME_BYTES: usize = 1_000;
/// Everything else of an object.
const OBJECT_BYTES: usize = 2_000;

impl Memory {
    /// Brings the memory back into the limits after `dns_name` grew.
    pub(super) fn enforce(
        &mut self,
        dns_name: &DnsName,
        limits: &Limits,
        now: Timestamp,
        learned: &mut Learned,
    ) {
        for ip in self.surplus_addresses(dns_name, limits) {
            self.remove(dns_name, ip, now);
            learned.evicted_addresses += 1;
        }
        while let Some(victim) = self.surplus_name(limits) {
            self.remove_name(&victim, now);
            learned.evicted_names += 1;
        }
        learned.evicted_addresses += self.shrink(limits, now);
        learned.urgent |= learned.evicted_addresses + learned.evicted_names > 0;
    }

    /// The oldest-seen addresses over the limit; found in one pass, since one answer can bring a thousand.
    fn surplus_addresses(&self, dns_name: &DnsName, limits: &Limits) -> Vec<IpAddr> {
        let Some(name) = self.names.get(dns_name) else {
            return Vec::new();
        };
        let surplus = name
            .addresses
            .len()
            .saturating_sub(limits.addresses_per_name);
        if limits.protected || surplus == 0 {
            return Vec::new();
        }
        let mut by_age: Vec<_> = name
            .addresses
            .iter()
            .map(|(ip, address)| (address.seen, *ip))
            .collect();
        by_age.sort_unstable();
        by_age.into_iter().take(surplus).map(|(_, ip)| ip).collect()
    }

    /// The oldest-seen name of the client that brought in most, so that a client that asks for random labels evicts its
    /// own. The wildcard's own name is no regular name and stays.
    fn surplus_name(&self, limits: &Limits) -> Option<DnsName> {
        let regular = || self.names.iter().filter(|(name, _)| **name != self.spec);
        if limits.protected
            || !self.spec.is_wildcard()
            || regular().count() <= limits.names_per_wildcard
        {
            return None;
        }
        let mut brought: BTreeMap<Option<IpAddr>, usize> = BTreeMap::new();
        for (_, name) in regular() {
            *brought.entry(name.brought_by).or_default() += 1;
        }
        let most = brought.values().copied().max()?;
        regular()
            .filter(|(_, name)| brought.get(&name.brought_by) == Some(&most))
            .min_by_key(|(dns_name, name)| (name.seen, *dns_name))
            .map(|(dns_name, _)| dns_name.clone())
    }

    fn remove_name(&mut self, dns_name: &DnsName, now: Timestamp) {
        let Some(name) = self.names.get(dns_name) else {
            return;
        };
        let addresses: Vec<IpAddr> = name.addresses.keys().copied().collect();
        for ip in addresses {
            self.remove(dns_name, ip, now);
        }
    }

    /// Removes the oldest-seen addresses until the object is small enough; returns how many.
    fn shrink(&mut self, limits: &Limits, now: Timestamp) -> usize {
        let too_large = |names: usize, addresses: usize| {
            OBJECT_BYTES + names * NAME_BYTES + addresses * ADDRESS_BYTES > limits.object_bytes
        };
        let addresses = self.addresses();
        if !too_large(self.names.len(), addresses) {
            return 0;
        }
        let mut by_age: Vec<_> = self
            .names
            .iter()
            .flat_map(|(dns_name, name)| {
                name.addresses
                    .iter()
                    .map(move |(ip, address)| (address.seen, dns_name.clone(), *ip))
            })
            .collect();
        by_age.sort_unstable();
        let mut removed = 0;
        for (_, dns_name, ip) in by_age {
            if !too_large(self.names.len(), addresses - removed) {
                break;
            }
            self.remove(&dns_name, ip, now);
            removed += 1;
        }
        removed
    }
}
