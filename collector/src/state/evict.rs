//! Eviction when a name, a wildcard or an object reaches a limit. Only evictions of the leader
//! leave a status.

use std::net::IpAddr;

use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::{
    Crowd, Limits, NameList, NameState, UpdateEffect,
    leaving::Leaving,
    name::{Address, Name},
    removal::Cause,
};

/// The size of an address in a stored object, with its entry in `managedFields`: 139 bytes, its
/// text twice, and its TTL. Measured on kube-apiserver 1.36: 173 bytes for an address of 14
/// characters. With the chart's definition `managedFields` do not grow, but OpenShift's has
/// list-maps.
const ADDRESS_V4_BYTES: usize = 190;
/// The same of an IPv6 address, the most that any costs.
pub const ADDRESS_V6_BYTES: usize = 240;
/// The size of a name without its text, while its look-ups fail: only then a name under a wildcard
/// has a condition. An outage must not evict any.
const NAME_BYTES: usize = 520;
/// The rest of an object.
pub(super) const OBJECT_BYTES: usize = 4_000;

/// The least size that the store's refusal can lower the limit to. Otherwise a store that refuses
/// everything would empty every address set.
const NEVER_TOO_LARGE: usize = 64 << 10;

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
    most: u32,
    /// An upper bound of the size, updated as addresses are added.
    at_most: usize,
}

impl Default for ObjectSize {
    fn default() -> Self {
        Self {
            most: u32::MAX,
            at_most: 0,
        }
    }
}

impl ObjectSize {
    /// Whether a limit is exceeded by more than the slack, so that [`Eviction::enforce`] must not
    /// wait for the next write. Cheap.
    pub fn is_crowded(&self, list: &NameList, limits: &Limits) -> bool {
        let names = limits.names_per_wildcard;
        (list.spec.is_wildcard() && list.names.len() > with_slack(names).saturating_add(1))
            || self.at_most > with_slack(self.most(limits))
    }

    /// Whether the object is at a limit of names or bytes, as of the last [`Eviction::enforce`].
    pub fn is_full(&self, list: &NameList, limits: &Limits) -> bool {
        let names = list.spec.is_wildcard() && list.names.len() >= limits.names_per_wildcard;
        names || self.at_most.saturating_add(2 * NAME_BYTES) >= self.most(limits)
    }

    /// An upper bound of the stored size in bytes.
    pub fn bytes(&self) -> usize {
        self.at_most.max(OBJECT_BYTES)
    }

    /// The used part of each limit; 1 is full. The limits are the addresses of the fullest name,
    /// the names under a wildcard, and the bytes of the object.
    pub fn fill(&self, list: &NameList, limits: &Limits) -> [f64; 3] {
        let part = |of: usize, most: usize| of as f64 / most.max(1) as f64;
        let most = list.names.iter().map(|name| name.addresses.len()).max();
        let under = if list.spec.is_wildcard() {
            list.names.len()
        } else {
            0
        };
        [
            part(most.unwrap_or(0), limits.addresses_per_name),
            part(under, limits.names_per_wildcard),
            part(bytes(list), self.most(limits)),
        ]
    }

    /// Adds the size of new addresses of a name.
    pub(super) fn grow(&mut self, dns_name: &DnsName, added: usize) {
        let grown = name_bytes(dns_name) + added * ADDRESS_V6_BYTES;
        self.at_most = self.at_most.saturating_add(grown);
    }

    /// Recomputes the size of the object.
    pub(super) fn recount(&mut self, list: &NameList) -> usize {
        self.at_most = bytes(list);
        self.at_most
    }

    fn most(&self, limits: &Limits) -> usize {
        let most = usize::try_from(self.most).unwrap_or(usize::MAX);
        most.min(limits.object_bytes)
    }
}

/// Evicts addresses from a state until it is within its limits.
pub struct Eviction<'a> {
    state: &'a mut NameState,
    limits: &'a Limits,
    now: Timestamp,
}

impl<'a> Eviction<'a> {
    pub fn new(state: &'a mut NameState, limits: &'a Limits, now: Timestamp) -> Self {
        Self { state, limits, now }
    }

    fn list(&self) -> &NameList {
        &self.state.list
    }

    fn recount(&mut self) -> usize {
        self.state.size.recount(&self.state.list)
    }

    /// Enforces all limits. Call it before each write, and when the state [is
    /// crowded](ObjectSize::is_crowded).
    pub fn enforce(&mut self, crowd: Crowd<'_>) -> UpdateEffect {
        let mut learned = UpdateEffect::default();
        learned.evicted_addresses += self.enforce_addresses(&mut learned);
        learned.evicted_names += self.enforce_names(crowd, &mut learned);
        learned.evicted_addresses += self.enforce_bytes(crowd, &mut learned);
        learned.urgent |= learned.evicted_addresses + learned.evicted_names > 0;
        learned
    }

    /// The store refused the object as too large: evicts a tenth, and limits the object to the rest
    /// from now on.
    pub fn shrink(&mut self, crowd: Crowd<'_>) -> UpdateEffect {
        let bytes = bytes(self.list());
        if bytes <= NEVER_TOO_LARGE {
            return UpdateEffect::default();
        }
        self.state.size.most = u32::try_from(bytes - bytes / 10).unwrap_or(u32::MAX);
        self.enforce(crowd)
    }

    /// Removes the addresses seen longest ago from names with too many.
    fn enforce_addresses(&mut self, learned: &mut UpdateEffect) -> usize {
        let mut going = Vec::new();
        for name in &self.list().names {
            self.surplus(name, &mut going);
        }
        self.evict(going, learned)
    }

    /// The same for one name, if it is over by more than an eighth.
    pub(super) fn of_name(&mut self, dns_name: &DnsName, learned: &mut UpdateEffect) {
        let mut going = Vec::new();
        let most = with_slack(self.limits.addresses_per_name);
        let name = self.list().name(dns_name);
        if let Some(name) = name.filter(|it| it.addresses.len() > most) {
            self.surplus(name, &mut going);
        }
        let evicted = self.evict(going, learned);
        learned.evicted_addresses += evicted;
        learned.urgent |= evicted > 0;
    }

    /// The addresses of a name beyond its limit.
    fn surplus(&self, name: &Name, going: &mut Vec<(DnsName, IpAddr)>) {
        let surplus = name
            .addresses
            .len()
            .saturating_sub(self.limits.addresses_per_name);
        if surplus > 0 {
            self.oldest(name, surplus, going);
        }
    }

    /// The addresses of a name seen longest ago.
    fn oldest(&self, name: &Name, count: usize, going: &mut Vec<(DnsName, IpAddr)>) {
        let victims = name.addresses.iter();
        let mut victims: Vec<_> = victims.map(|it| self.victim(name, it)).collect();
        if (1..victims.len()).contains(&count) {
            victims.select_nth_unstable(count - 1);
        }
        going.extend(victims.into_iter().take(count).map(key));
    }

    /// Removes regular names under a wildcard beyond the limit, in the order of [`Leaving`].
    fn enforce_names(&mut self, crowd: Crowd<'_>, learned: &mut UpdateEffect) -> usize {
        let regular = self
            .list()
            .names
            .iter()
            .filter(|it| it.dns_name != self.list().spec);
        let surplus = regular
            .count()
            .saturating_sub(self.limits.names_per_wildcard);
        if surplus == 0 || !self.list().spec.is_wildcard() {
            return 0;
        }
        let mut going = Vec::new();
        let leaving = Leaving::of(self.list(), crowd, self.now, |_| 1);
        for name in leaving.take(surplus) {
            self.oldest(name, name.addresses.len(), &mut going);
        }
        self.evict(going, learned);
        surplus
    }

    /// Removes addresses until the object is small enough. Whole names under a wildcard go first,
    /// in the order of [`Leaving`], and of the last one only as many addresses as necessary. Then
    /// the object's own addresses seen longest ago go.
    fn enforce_bytes(&mut self, crowd: Crowd<'_>, learned: &mut UpdateEffect) -> usize {
        let bytes = self.recount();
        let mut excess = bytes.saturating_sub(self.state.size.most(self.limits));
        if excess == 0 {
            return 0;
        }
        let mut going = Vec::new();
        let own = self.list().name(&self.list().spec);
        for name in Leaving::of(self.list(), crowd, self.now, bytes_of).chain(own) {
            let whole = bytes_of(name);
            if whole <= excess {
                self.oldest(name, name.addresses.len(), &mut going);
                excess -= whole;
                continue;
            }
            let count = excess.div_ceil(ADDRESS_V4_BYTES).min(name.addresses.len());
            self.oldest(name, count, &mut going);
            break;
        }
        let evicted = self.evict(going, learned);
        self.recount();
        evicted
    }

    /// Returns the number of removed addresses.
    fn evict(&mut self, mut going: Vec<(DnsName, IpAddr)>, learned: &mut UpdateEffect) -> usize {
        if going.is_empty() {
            return 0;
        }
        going.sort_unstable();
        self.state
            .take_away(Cause::Forgotten(self.now), |name, address| {
                let this = (&name.dns_name, address.ip);
                let found = going.binary_search_by(|(dns_name, ip)| (dns_name, *ip).cmp(&this));
                found.is_ok()
            });
        let mut names: Vec<_> = going.iter().map(|(dns_name, _)| dns_name).collect();
        names.dedup();
        let names = names.into_iter();
        learned
            .gone
            .extend(names.filter(|it| self.list().name(it).is_none()).cloned());
        going.len()
    }

    fn victim<'n>(&self, name: &'n Name, address: &Address) -> Victim<'n> {
        let dns_name = &name.dns_name;
        let own = *dns_name == self.list().spec;
        let is_loss = own || !self.list().is_covered(address);
        (is_loss, own, address.seen, dns_name, address.ip)
    }
}

/// The estimated size of the object as the API server stores it, with `managedFields`; rather too
/// large than too small.
fn bytes(list: &NameList) -> usize {
    OBJECT_BYTES + list.names.iter().map(bytes_of).sum::<usize>()
}

/// The size of a name with its addresses in a stored object.
pub(super) fn bytes_of(name: &Name) -> usize {
    let v4 = name
        .addresses
        .partition_point(|address| address.ip.is_ipv4());
    name_bytes(&name.dns_name)
        + v4 * ADDRESS_V4_BYTES
        + (name.addresses.len() - v4) * ADDRESS_V6_BYTES
}

fn key((.., dns_name, ip): Victim<'_>) -> (DnsName, IpAddr) {
    (dns_name.clone(), ip)
}

pub(super) fn name_bytes(dns_name: &DnsName) -> usize {
    NAME_BYTES + 2 * dns_name.as_str().len()
}
