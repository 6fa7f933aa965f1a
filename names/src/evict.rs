//! Eviction when a name, a wildcard or an object reaches a limit. Only evictions of the leader
//! leave a status.

use std::net::IpAddr;

use proto::api::DnsName;
use proto::timestamp::Timestamp;

use super::{
    Limits, NameList, NameState, UpdateEffect,
    eviction_order::eviction_order,
    name::{Address, Name},
    removal::Cause,
};

/// A name counts as so many addresses in the size of an object, since a name in a status takes as many
/// bytes, with its condition, as three addresses.
const NAME_SIZE: usize = 3;

/// The least size that the store's refusal can lower the limit to. Otherwise a store that refuses
/// everything would empty every address set.
const NEVER_TOO_LARGE: usize = 300;

/// The state may exceed a limit by one part in this many until its status is written, since
/// choosing victims is expensive.
const SLACK: usize = 8;

fn with_slack(most: usize) -> usize {
    most.saturating_add(most / SLACK)
}

/// Sorts addresses in order of eviction. Addresses that the wildcard's own entry has for as long or
/// longer go first: removing them loses nothing. Those of the object's own name go last.
type Victim<'a> = (bool, bool, Timestamp, &'a DnsName, IpAddr);

/// The size of an object and its limit.
#[derive(Clone, Debug)]
pub struct ObjectSize {
    /// The largest size that the store may accept: it refused one a tenth larger.
    limit: u32,
    /// An upper bound of the size, updated as addresses are added.
    upper_bound: u32,
}

impl Default for ObjectSize {
    fn default() -> Self {
        Self {
            limit: u32::MAX,
            upper_bound: 0,
        }
    }
}

impl ObjectSize {
    /// Whether a limit is exceeded by more than the slack, so that [`Eviction::enforce`] must not
    /// wait for the next write. Cheap.
    pub fn is_over_limit(&self, list: &NameList, limits: &Limits) -> bool {
        let names = limits.names_per_wildcard;
        (list.rule_name.is_wildcard() && list.names.len() > with_slack(names).saturating_add(1))
            || self.upper_bound as usize > with_slack(self.limit(limits))
    }

    /// The used part of each limit; 1 is full. The limits are the addresses of the fullest name,
    /// the names under a wildcard, and the size of the object.
    pub fn fill(&self, list: &NameList, limits: &Limits) -> [f64; 3] {
        let part = |of: usize, most: usize| of as f64 / most.max(1) as f64;
        let most = list.names.iter().map(|name| name.addresses.len()).max();
        let under = if list.rule_name.is_wildcard() {
            list.names.len()
        } else {
            0
        };
        [
            part(most.unwrap_or(0), limits.addresses_per_name),
            part(under, limits.names_per_wildcard),
            part(size(list), self.limit(limits)),
        ]
    }

    /// Adds the size of new addresses of a name.
    pub(super) fn grow(&mut self, added: usize) {
        let added = u32::try_from(NAME_SIZE + added).unwrap_or(u32::MAX);
        self.upper_bound = self.upper_bound.saturating_add(added);
    }

    /// Recomputes the size of the object.
    pub(super) fn recount(&mut self, list: &NameList) -> usize {
        let size = size(list);
        self.upper_bound = u32::try_from(size).unwrap_or(u32::MAX);
        size
    }

    fn limit(&self, limits: &Limits) -> usize {
        let most = usize::try_from(self.limit).unwrap_or(usize::MAX);
        most.min(limits.object_size)
    }
}

/// Evicts addresses from a state until it is within its limits.
pub struct Eviction<'a> {
    state: &'a mut NameState,
    limits: &'a Limits,
}

impl<'a> Eviction<'a> {
    pub fn new(state: &'a mut NameState, limits: &'a Limits) -> Self {
        Self { state, limits }
    }

    fn list(&self) -> &NameList {
        &self.state.list
    }

    fn recount(&mut self) -> usize {
        self.state.size.recount(&self.state.list)
    }

    /// Enforces all limits. Call it before each write, and when the state [is
    /// over a limit](ObjectSize::is_over_limit).
    pub fn enforce(&mut self) -> UpdateEffect {
        let mut effect = UpdateEffect::default();
        effect.evicted_addresses += self.enforce_addresses(&mut effect);
        effect.evicted_names += self.enforce_names(&mut effect);
        effect.evicted_addresses += self.enforce_size(&mut effect);
        effect.urgent |= effect.evicted_addresses + effect.evicted_names > 0;
        effect
    }

    /// The store refused the object as too large: evicts a tenth, and limits the object to the rest
    /// from now on.
    pub fn shrink(&mut self) -> UpdateEffect {
        let size = size(self.list());
        if size <= NEVER_TOO_LARGE {
            return UpdateEffect::default();
        }
        self.state.size.limit = u32::try_from(size - size / 10).unwrap_or(u32::MAX);
        self.enforce()
    }

    /// Removes the addresses seen longest ago from names with too many.
    fn enforce_addresses(&mut self, effect: &mut UpdateEffect) -> usize {
        let mut victims = Vec::new();
        for name in &self.list().names {
            self.surplus(name, &mut victims);
        }
        self.evict(victims, effect)
    }

    /// The same for one name, if it is over by more than an eighth.
    pub(super) fn of_name(&mut self, dns_name: &DnsName, effect: &mut UpdateEffect) {
        let mut victims = Vec::new();
        let most = with_slack(self.limits.addresses_per_name);
        let name = self.list().name(dns_name);
        if let Some(name) = name.filter(|it| it.addresses.len() > most) {
            self.surplus(name, &mut victims);
        }
        let evicted = self.evict(victims, effect);
        effect.evicted_addresses += evicted;
        effect.urgent |= evicted > 0;
    }

    /// The addresses of a name beyond its limit.
    fn surplus(&self, name: &Name, victims: &mut Vec<(DnsName, IpAddr)>) {
        let surplus = name
            .addresses
            .len()
            .saturating_sub(self.limits.addresses_per_name);
        if surplus > 0 {
            self.oldest(name, surplus, victims);
        }
    }

    /// The addresses of a name seen longest ago.
    fn oldest(&self, name: &Name, count: usize, victims: &mut Vec<(DnsName, IpAddr)>) {
        let candidates = name.addresses.iter();
        let mut candidates: Vec<_> = candidates.map(|it| self.victim(name, it)).collect();
        if (1..candidates.len()).contains(&count) {
            candidates.select_nth_unstable(count - 1);
        }
        victims.extend(candidates.into_iter().take(count).map(key));
    }

    /// Removes regular names under a wildcard beyond the limit.
    fn enforce_names(&mut self, effect: &mut UpdateEffect) -> usize {
        let regular = self
            .list()
            .names
            .iter()
            .filter(|it| it.dns_name != self.list().rule_name);
        let surplus = regular
            .count()
            .saturating_sub(self.limits.names_per_wildcard);
        if surplus == 0 || !self.list().rule_name.is_wildcard() {
            return 0;
        }
        let mut victims = Vec::new();
        for name in eviction_order(self.list()).into_iter().take(surplus) {
            self.oldest(name, name.addresses.len(), &mut victims);
        }
        self.evict(victims, effect);
        surplus
    }

    /// Removes addresses until the object is small enough. Whole names under a wildcard go first, in the same order as
    /// beyond their number, and of the last one only as many addresses as necessary. Then the object's own addresses seen
    /// longest ago go.
    fn enforce_size(&mut self, effect: &mut UpdateEffect) -> usize {
        let size = self.recount();
        let mut excess = size.saturating_sub(self.state.size.limit(self.limits));
        if excess == 0 {
            return 0;
        }
        let mut victims = Vec::new();
        let own = self.list().name(&self.list().rule_name);
        for name in eviction_order(self.list()).into_iter().chain(own) {
            let addresses = name.addresses.len();
            let whole = addresses + NAME_SIZE;
            if whole > excess {
                self.oldest(name, excess.min(addresses), &mut victims);
                break;
            }
            self.oldest(name, addresses, &mut victims);
            excess -= whole;
        }
        let evicted = self.evict(victims, effect);
        self.recount();
        evicted
    }

    /// Returns the number of removed addresses.
    fn evict(&mut self, mut victims: Vec<(DnsName, IpAddr)>, effect: &mut UpdateEffect) -> usize {
        if victims.is_empty() {
            return 0;
        }
        victims.sort_unstable();
        self.state
            .remove_where(Cause::OverOrEvicted, |name, address| {
                let this = (&name.dns_name, address.ip);
                let found = victims.binary_search_by(|(dns_name, ip)| (dns_name, *ip).cmp(&this));
                found.is_ok()
            });
        let mut names: Vec<_> = victims.iter().map(|(dns_name, _)| dns_name).collect();
        names.dedup();
        let names = names.into_iter();
        effect
            .names_gone
            .extend(names.filter(|it| self.list().name(it).is_none()).cloned());
        victims.len()
    }

    fn victim<'n>(&self, name: &'n Name, address: &Address) -> Victim<'n> {
        let dns_name = &name.dns_name;
        let own = *dns_name == self.list().rule_name;
        let is_loss = own || !self.list().is_covered(address);
        (is_loss, own, address.seen, dns_name, address.ip)
    }
}

/// The size of an object: its addresses, and its names, which count as three addresses each.
fn size(list: &NameList) -> usize {
    list.addresses() + NAME_SIZE * list.names.len()
}

fn key((.., dns_name, ip): Victim<'_>) -> (DnsName, IpAddr) {
    (dns_name.clone(), ip)
}
