//! The names that one `spec.name` matches, with their addresses.

use std::net::IpAddr;

use proto::api::DnsName;
use proto::timestamp::Timestamp;

use super::{
    Limits,
    limits::tolerance,
    name::{Address, Name, shrink_half_empty},
    reserve_one,
};

/// The names that have addresses.
#[derive(Clone, Debug)]
pub struct NameList {
    pub(super) rule_name: DnsName,
    /// Sorted, without duplicates, each with at least one address.
    pub(super) names: Vec<Name>,
}

/// A copy of the state of one name.
#[derive(Clone, Debug)]
pub struct NameSnapshot(pub(super) Name);

impl NameList {
    pub(super) fn new(rule_name: DnsName) -> Self {
        Self {
            rule_name,
            names: Vec::new(),
        }
    }

    /// The `spec.name` of the object.
    pub fn rule_name(&self) -> &DnsName {
        &self.rule_name
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The number of addresses; an address of two names counts twice.
    pub fn addresses(&self) -> usize {
        self.names.iter().map(|name| name.addresses.len()).sum()
    }

    /// The number of addresses that `is_asked` selects.
    pub fn count(&self, is_asked: impl Fn(&DnsName, IpAddr) -> bool) -> usize {
        let of_name = |name: &Name| {
            let addresses = name.addresses.iter();
            addresses
                .filter(|it| is_asked(&name.dns_name, it.ip))
                .count()
        };
        self.names.iter().map(of_name).sum()
    }

    pub fn names(&self) -> impl Iterator<Item = &DnsName> {
        self.names.iter().map(|name| &name.dns_name)
    }

    pub fn addresses_of(&self, dns_name: &DnsName) -> usize {
        self.name(dns_name).map_or(0, |name| name.addresses.len())
    }

    /// A copy of one name's state, to be [adopted](super::NameState::merge_snapshot) by another object.
    pub fn copy(&self, dns_name: &DnsName) -> Option<NameSnapshot> {
        self.name(dns_name).cloned().map(NameSnapshot)
    }

    /// The known clients that asked for a name.
    pub fn clients_of(&self, name: &DnsName) -> &[IpAddr] {
        self.name(name).map_or(&[], |name| name.clients.as_slice())
    }

    /// Whether any name has the address.
    pub fn has_address(&self, ip: IpAddr) -> bool {
        self.names.iter().any(|name| name.address(&ip).is_some())
    }

    /// Parses a name, sharing the text of a known one. `None` if it is no valid name.
    pub(super) fn read_name(&self, text: &str) -> Option<DnsName> {
        let known = |name: &Name| name.dns_name.as_str().cmp(text);
        if self.rule_name.as_str() == text {
            return Some(self.rule_name.clone());
        }
        if let Ok(found) = self.names.binary_search_by(known) {
            return Some(self.names.get(found)?.dns_name.clone());
        }
        let name = DnsName::parse(text).ok()?;
        (name.as_str() == text).then_some(name)
    }

    /// Whether the name has the address.
    pub fn has(&self, dns_name: &DnsName, ip: &IpAddr) -> bool {
        let name = self.name(dns_name);
        name.is_some_and(|name| name.address(ip).is_some())
    }

    pub(super) fn name(&self, dns_name: &DnsName) -> Option<&Name> {
        self.names.get(self.find(dns_name).ok()?)
    }

    pub(super) fn name_mut(&mut self, dns_name: &DnsName) -> Option<&mut Name> {
        let found = self.find(dns_name).ok()?;
        self.names.get_mut(found)
    }

    fn find(&self, dns_name: &DnsName) -> Result<usize, usize> {
        self.names
            .binary_search_by(|name| name.dns_name.cmp(dns_name))
    }

    /// The entry of the name, inserted if it is missing. Always `Some`.
    pub(super) fn name_or_new(&mut self, dns_name: &DnsName) -> Option<&mut Name> {
        let place = self.find(dns_name).unwrap_or_else(|place| {
            reserve_one(&mut self.names);
            self.names.insert(place, Name::new(dns_name.clone()));
            place
        });
        self.names.get_mut(place)
    }

    /// Removes the names without addresses.
    pub(super) fn remove_empty(&mut self) {
        self.names.retain(|name| !name.addresses.is_empty());
        shrink_half_empty(&mut self.names);
    }

    /// When a name is due for a look-up: at the first expiry since its last look-up. `None` for a
    /// name without addresses, and for one under a wildcard that is idle.
    pub fn next_lookup(&self, dns_name: &DnsName, limits: &Limits) -> Option<Timestamp> {
        let name = self.name(dns_name)?;
        let expired = |address: &Address| {
            let expiry = address.expiry();
            (name.last_conclusive(address.family()) < expiry).then_some(expiry)
        };
        let at = name.addresses.iter().filter_map(expired).min()?;
        (!self.is_found(name) || at < name.last_client_query + limits.wildcard_idle).then_some(at)
    }

    /// Whether only a wildcard wants the name.
    pub(super) fn is_found(&self, name: &Name) -> bool {
        self.rule_name != name.dns_name
    }

    /// The entry of the wildcard itself. It is the first one: `*` sorts before letters, digits and
    /// hyphens.
    pub(super) fn wildcard(&self) -> Option<&Name> {
        let first = self.names.first()?;
        (first.dns_name.is_wildcard() && first.dns_name == self.rule_name).then_some(first)
    }

    /// Whether the wildcard's own entry has this address of a regular name for as long or longer.
    pub(super) fn is_covered(&self, address: &Address) -> bool {
        let own = self.wildcard().and_then(|own| own.address(&address.ip));
        own.is_some_and(|own| address.expiry() <= own.expiry() + tolerance(address.ttl))
    }
}
