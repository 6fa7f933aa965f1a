//! What is known: each name's addresses, until when, and who brought them.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use proto::api::{DnsName, DnsNameResolverStatus, ResolvedAddress};
use runtime::clock::Timestamp;

use super::{Limits, tolerance};
use crate::{guards::Guards, observation::Observation};

/// For how long a status that still shows a removed address does not bring it back: longer than a stale watch event or a
/// retried write takes.
const REMEMBER_REMOVED: Duration = Duration::from_secs(60);

/// What is known of everything that one `spec.name` wants.
#[derive(Clone, Debug)]
pub struct Memory {
    pub(super) spec: DnsName,
    pub(super) names: BTreeMap<DnsName, Name>,
    /// Addresses that were taken away, with the expiry they had: only news brings them back.
    removed: BTreeMap<(DnsName, IpAddr), Removed>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Name {
    pub(super) addresses: BTreeMap<IpAddr, Address>,
    /// When it was last in an answer.
    pub(super) seen: Timestamp,
    /// The client that asked first, as far as this process knows.
    pub(super) brought_by: Option<IpAddr>,
    /// Whether an answer came in this process's life.
    pub(super) resolved: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    /// The look-up that gave the latest expiry, and its TTL in seconds.
    pub(super) looked_up: Timestamp,
    pub(super) ttl: u32,
    /// When it was last in an answer, whatever the TTL: what eviction goes by.
    pub(super) seen: Timestamp,
    /// It is not removed before.
    hold_until: Timestamp,
    /// The expiry that was last compared with the status.
    pub(super) rendered: Timestamp,
}

#[derive(Clone, Copy, Debug)]
struct Removed {
    expiry: Timestamp,
    forget: Timestamp,
}

impl Address {
    pub(super) fn expiry(&self) -> Timestamp {
        self.looked_up + Duration::from_secs(u64::from(self.ttl))
    }

    /// The latest expiry wins, and of equal ones the later look-up, so that the order of look-ups does not matter.
    fn extend(&mut self, other: &Self) {
        self.seen = self.seen.max(other.seen);
        if (other.expiry(), other.looked_up) > (self.expiry(), self.looked_up) {
            self.looked_up = other.looked_up;
            self.ttl = other.ttl;
        }
    }

    fn removal(&self, grace: Duration) -> Timestamp {
        (self.expiry() + grace).max(self.hold_until)
    }
}

/// What an observation brought.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Learned {
    /// The status may have to be written.
    pub changed: bool,
    /// Addresses that were thrown out because a limit was reached.
    pub evicted_addresses: usize,
    /// Names that were thrown out because a limit was reached.
    pub evicted_names: usize,
}

impl Memory {
    /// Nothing is known yet of what `spec` wants.
    pub fn new(spec: DnsName) -> Self {
        Self {
            spec,
            names: BTreeMap::new(),
            removed: BTreeMap::new(),
        }
    }

    /// Whether no address is known.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// How many addresses are known, each name's counted for itself.
    pub fn addresses(&self) -> usize {
        self.names.values().map(|name| name.addresses.len()).sum()
    }

    /// Takes in an answer. The latest expiry of an address wins and never moves back.
    pub fn observe(&mut self, observation: &Observation, limits: &Limits) -> Learned {
        let mut learned = Learned::default();
        if observation.addresses.is_empty() || !self.spec.matches(&observation.name) {
            return learned;
        }
        let name = self.names.entry(observation.name.clone()).or_default();
        if name.addresses.is_empty() {
            name.brought_by = observation.client;
        }
        learned.changed |= !name.resolved;
        name.resolved = true;
        name.seen = name.seen.max(observation.at);
        for &(ip, ttl) in &observation.addresses {
            let ttl = limits.clamp(ttl);
            let fresh = Address {
                looked_up: observation.at,
                ttl,
                seen: observation.at,
                hold_until: Timestamp::default(),
                rendered: Timestamp::default(),
            };
            self.removed.remove(&(observation.name.clone(), ip));
            let known = name.addresses.entry(ip).or_insert_with(|| {
                learned.changed = true;
                fresh
            });
            known.extend(&fresh);
            learned.changed |= known.expiry() > known.rendered + tolerance(known.ttl);
        }
        if learned.changed {
            self.enforce(&observation.name, limits, observation.at, &mut learned);
        }
        learned
    }

    /// Takes in a status from the store: what other replicas, an earlier life of this one, or a person wrote.
    ///
    /// Times in the future count as now. An address that was not known lives one more TTL and grace from now, since
    /// nothing is removed on the strength of stored times alone. What is no address, is refused by the guards, or stands
    /// under a name that `spec.name` does not want is not taken in, so the next [`Memory::render`] removes it.
    pub fn absorb(
        &mut self,
        status: &DnsNameResolverStatus,
        now: Timestamp,
        limits: &Limits,
        guards: &Guards,
    ) -> Learned {
        let mut learned = Learned::default();
        for entry in &status.resolved_names {
            let Some(dns_name) = DnsName::parse(&entry.dns_name)
                .ok()
                .filter(|name| name.as_str() == entry.dns_name && self.spec.matches(name))
            else {
                learned.changed = true;
                continue;
            };
            for stored in &entry.resolved_addresses {
                let Some((ip, stored)) = read(stored, now, limits, guards) else {
                    learned.changed = true;
                    continue;
                };
                self.absorb_address(&dns_name, ip, stored, &mut learned);
            }
            if self.names.contains_key(&dns_name) {
                self.enforce(&dns_name, limits, now, &mut learned);
            }
        }
        learned
    }

    fn absorb_address(
        &mut self,
        dns_name: &DnsName,
        ip: IpAddr,
        stored: Address,
        learned: &mut Learned,
    ) {
        let key = (dns_name.clone(), ip);
        if self
            .removed
            .get(&key)
            .is_some_and(|removed| stored.expiry() <= removed.expiry)
        {
            learned.changed = true;
            return;
        }
        self.removed.remove(&key);
        let name = self.names.entry(key.0).or_default();
        name.seen = name.seen.max(stored.seen);
        name.addresses
            .entry(ip)
            .and_modify(|known| {
                known.extend(&stored);
            })
            .or_insert(stored);
    }

    /// Forgets the addresses whose expiry and grace are over, and the names that have none left. Returns how many
    /// addresses went.
    pub fn expire(&mut self, now: Timestamp, limits: &Limits) -> usize {
        self.removed.retain(|_, removed| removed.forget > now);
        let mut due = Vec::new();
        for (dns_name, name) in &self.names {
            for (ip, address) in &name.addresses {
                if address.removal(limits.grace) <= now {
                    due.push((dns_name.clone(), *ip));
                }
            }
        }
        for (dns_name, ip) in &due {
            self.remove(dns_name, *ip, now);
        }
        due.len()
    }

    /// When [`Memory::expire`] will next find something.
    pub fn next_removal(&self, limits: &Limits) -> Option<Timestamp> {
        self.names
            .values()
            .flat_map(|name| name.addresses.values())
            .map(|address| address.removal(limits.grace))
            .min()
    }

    /// Takes an address away, so that a status which still shows it does not bring it back.
    pub(super) fn remove(&mut self, dns_name: &DnsName, ip: IpAddr, now: Timestamp) {
        let Some(name) = self.names.get_mut(dns_name) else {
            return;
        };
        if let Some(address) = name.addresses.remove(&ip) {
            let removed = Removed {
                expiry: address.expiry(),
                forget: now + REMEMBER_REMOVED,
            };
            self.removed.insert((dns_name.clone(), ip), removed);
        }
        if name.addresses.is_empty() {
            self.names.remove(dns_name);
        }
    }
}

/// A stored address as memory has it, or nothing if it is none or must not be programmed.
fn read(
    stored: &ResolvedAddress,
    now: Timestamp,
    limits: &Limits,
    guards: &Guards,
) -> Option<(IpAddr, Address)> {
    let ip = guards.admit(stored.ip.parse().ok()?).ok()?;
    let looked_up = Timestamp::from_millis(stored.last_lookup_time.0.as_millisecond()).min(now);
    let ttl = limits.clamp(u32::try_from(stored.ttl_seconds).unwrap_or(0));
    let hold_until = now + Duration::from_secs(u64::from(ttl)) + limits.grace;
    let address = Address {
        looked_up,
        ttl,
        seen: looked_up,
        hold_until,
        rendered: Timestamp::default(),
    };
    Some((ip, address))
}
