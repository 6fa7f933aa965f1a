//! What is known: each name's addresses, until when, and who brought them.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use proto::api::{DnsName, DnsNameResolverStatus, Family, ResolvedAddress, ResolvedName};
use runtime::clock::Timestamp;

use super::{Limits, tolerance};
use crate::{guards::Guards, observation::Observation, resolve::Failure};

/// For how long a status that still shows a removed address does not bring it back: longer than a stale watch event or a
/// retried write takes.
const REMEMBER_REMOVED: Duration = Duration::from_secs(60);

/// From this many failures in a row on, nothing is extended any more.
pub(super) const FAILURE_THRESHOLD: i32 = 5;

/// How many removed addresses are remembered at once; beyond it the older half is forgotten. At worst such an address comes
/// back once with a stale status, and is the first to be evicted again.
const MAX_REMOVED: usize = 8192;

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
    /// When a client last asked for it: what keeps a name under a wildcard looked up.
    pub(super) sighted: Timestamp,
    /// The client that asked first, as far as this process knows.
    pub(super) brought_by: Option<IpAddr>,
    /// Look-ups that failed since the last answer.
    pub(super) failures: i32,
    pub(super) verdict: Verdict,
    /// When the last of our own look-ups that told what there is began, by family, since the last gap.
    pub(super) asked: [Timestamp; 2],
}

/// What the condition of a name says.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) enum Verdict {
    /// Nothing happened in this process's life: what the status says holds.
    #[default]
    Unknown,
    /// The last look-up gave an address.
    Resolved,
    /// The last look-up failed.
    Failing(Failure),
}

impl Name {
    /// When the last look-up of our own that told what there is in the family began.
    pub(super) fn asked(&self, family: Family) -> Timestamp {
        let [v4, v6] = self.asked;
        match family {
            Family::V4 => v4,
            Family::V6 => v6,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    /// The look-up that gave the latest expiry, and its TTL in seconds.
    pub(super) looked_up: Timestamp,
    pub(super) ttl: u32,
    /// When it was last in an answer, whatever the TTL: what eviction goes by.
    pub(super) seen: Timestamp,
    /// It is not removed before, where nothing is looked up.
    pub(super) hold_until: Timestamp,
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

    /// A look-up failed: what expires about now lives one more minimum TTL, if that is longer. Returns whether it does.
    fn outlive(&mut self, now: Timestamp, limits: &Limits) -> bool {
        let ttl = limits.clamp(0);
        let longer = now + Duration::from_secs(u64::from(ttl)) > self.expiry();
        let extended = longer && self.expiry() <= now + tolerance(self.ttl);
        if extended {
            self.looked_up = now;
            self.ttl = ttl;
        }
        extended
    }

    /// The latest expiry wins, and of equal ones the later look-up, so that the order of look-ups does not matter.
    fn extend(&mut self, other: &Self) {
        self.seen = self.seen.max(other.seen);
        if (other.expiry(), other.looked_up) > (self.expiry(), self.looked_up) {
            self.looked_up = other.looked_up;
            self.ttl = other.ttl;
        }
    }
}

/// What an observation brought.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Learned {
    /// The status lacks an address, has one too many, or says wrongly whether the name is degraded.
    pub urgent: bool,
    /// Times in the status are off by more than the tolerance.
    pub times: bool,
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
        if observation.client.is_some() {
            name.sighted = name.sighted.max(observation.at);
        }
        learned.urgent |= name.verdict != Verdict::Resolved;
        name.verdict = Verdict::Resolved;
        name.failures = 0;
        name.seen = name.seen.max(observation.at);
        for &(ip, ttl) in &observation.addresses {
            let fresh = Address {
                looked_up: observation.at,
                ttl: limits.clamp(ttl),
                seen: observation.at,
                hold_until: Timestamp::default(),
                rendered: Timestamp::default(),
            };
            self.removed.remove(&(observation.name.clone(), ip));
            let known = name.addresses.entry(ip).or_insert_with(|| {
                learned.urgent = true;
                fresh
            });
            known.extend(&fresh);
            learned.times |= known.expiry() > known.rendered + tolerance(known.ttl);
        }
        if learned.urgent {
            self.enforce(&observation.name, limits, observation.at, &mut learned);
        }
        learned
    }

    /// Takes in that one of our own look-ups, begun at `started`, told what there is of a name in a family.
    pub fn asked(&mut self, dns_name: &DnsName, family: Family, started: Timestamp) {
        let Some(name) = self.names.get_mut(dns_name) else {
            return;
        };
        let [v4, v6] = &mut name.asked;
        let asked = if family == Family::V4 { v4 } else { v6 };
        *asked = started.max(*asked);
    }

    /// Takes in that a whole round of our own look-ups failed. Only a name with addresses has failures.
    pub fn failed(
        &mut self,
        dns_name: &DnsName,
        failure: Failure,
        started: Timestamp,
        now: Timestamp,
        limits: &Limits,
    ) -> Learned {
        let mut learned = Learned::default();
        let Some(name) = self.names.get_mut(dns_name) else {
            return learned;
        };
        learned.urgent = !matches!(&name.verdict, Verdict::Failing(known) if *known == failure);
        name.failures = name.failures.saturating_add(1);
        if name.failures < FAILURE_THRESHOLD {
            for address in name.addresses.values_mut() {
                learned.times |= address.outlive(now, limits);
            }
        } else if failure == Failure::NXDOMAIN {
            name.asked = name.asked.map(|asked| asked.max(started));
        }
        name.verdict = Verdict::Failing(failure);
        learned
    }

    /// Takes in that a look-up failed in one family while it told what there is in the other. That is no failure of the
    /// name; the addresses of the family are kept as long as they may be stale.
    pub fn family_failed(
        &mut self,
        dns_name: &DnsName,
        family: Family,
        started: Timestamp,
        now: Timestamp,
        limits: &Limits,
    ) {
        let Some(name) = self.names.get_mut(dns_name) else {
            return;
        };
        let of_family = |ip: &IpAddr| ip.is_ipv4() == (family == Family::V4);
        let mut too_stale = false;
        for (_, address) in name.addresses.iter_mut().filter(|(ip, _)| of_family(ip)) {
            if address.seen + limits.max_stale <= now {
                too_stale = true;
            } else {
                address.outlive(now, limits);
            }
        }
        if too_stale {
            self.asked(dns_name, family, started);
        }
    }

    /// Nothing that was learned by asking counts any more: after a pause, a step of the clock, or a change of leader
    /// every name is looked up again before anything of it is removed.
    pub fn gap(&mut self, now: Timestamp, limits: &Limits) {
        for name in self.names.values_mut() {
            name.asked = <[Timestamp; 2]>::default();
            for address in name.addresses.values_mut() {
                address.hold_until =
                    now + Duration::from_secs(u64::from(address.ttl)) + limits.grace;
            }
        }
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
                continue;
            };
            for stored in &entry.resolved_addresses {
                if let Some((ip, stored)) = read(stored, now, limits, guards) {
                    self.absorb_address(&dns_name, ip, stored);
                }
            }
            if let Some(name) = self.names.get_mut(&dns_name) {
                if name.verdict == Verdict::Unknown {
                    name.failures = name.failures.max(entry.resolution_failures);
                }
                self.enforce(&dns_name, limits, now, &mut learned);
            }
        }
        learned
    }

    /// Forgets the expired addresses that the status lacks: another replica, which leads, has removed them.
    pub fn follow(&mut self, status: &DnsNameResolverStatus, now: Timestamp) {
        let has = |entry: &ResolvedName, ip: &IpAddr| {
            let same = |stored: &ResolvedAddress| {
                stored
                    .ip
                    .parse()
                    .is_ok_and(|stored| proto::address::canonical(stored) == *ip)
            };
            entry.resolved_addresses.iter().any(same)
        };
        self.names.retain(|dns_name, name| {
            let entry = status
                .resolved_names
                .iter()
                .find(|entry| entry.dns_name == dns_name.as_str());
            name.addresses.retain(|ip, address| {
                address.expiry() > now || entry.is_some_and(|entry| has(entry, ip))
            });
            !name.addresses.is_empty()
        });
    }

    fn absorb_address(&mut self, dns_name: &DnsName, ip: IpAddr, stored: Address) {
        let key = (dns_name.clone(), ip);
        if self
            .removed
            .get(&key)
            .is_some_and(|removed| stored.expiry() <= removed.expiry)
        {
            return;
        }
        self.removed.remove(&key);
        let name = self.names.entry(key.0).or_default();
        name.seen = name.seen.max(stored.seen);
        name.sighted = name.sighted.max(stored.seen);
        let known = name.addresses.entry(ip).or_insert(stored);
        known.extend(&stored);
    }

    /// Forgets which addresses were removed, once no late status can show them any more.
    pub(super) fn forget_removed(&mut self, now: Timestamp) {
        self.removed.retain(|_, removed| removed.forget > now);
    }

    fn forget_older_half(&mut self) {
        let mut times: Vec<_> = self.removed.values().map(|r| r.forget).collect();
        let middle = times.len() / 2;
        if middle < times.len() {
            let (_, &mut median, _) = times.select_nth_unstable(middle);
            self.removed.retain(|_, removed| removed.forget > median);
        }
    }

    /// How many removed addresses are remembered.
    #[cfg(test)]
    pub(super) fn remembered_removals(&self) -> usize {
        self.removed.len()
    }

    /// Takes an address away, so that a status which still shows it does not bring it back.
    pub(super) fn remove(&mut self, dns_name: &DnsName, ip: IpAddr, now: Timestamp) {
        let Some(name) = self.names.get_mut(dns_name) else {
            return;
        };
        let removed = name.addresses.remove(&ip);
        if name.addresses.is_empty() {
            self.names.remove(dns_name);
        }
        if let Some(address) = removed {
            if self.removed.len() >= MAX_REMOVED {
                self.forget_older_half();
            }
            let removed = Removed {
                expiry: address.expiry(),
                forget: now + REMEMBER_REMOVED,
            };
            self.removed.insert((dns_name.clone(), ip), removed);
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
