//! What is known: each name's addresses, until when, and who brought them.

use std::{net::IpAddr, time::Duration};

use proto::api::{DnsName, Family};
use runtime::clock::Timestamp;

use super::{
    Crowd, Limits, Stored,
    evict::grown_bytes,
    make_room,
    name::{Address, Name, Verdict, give_back_room},
    removed::Removed,
    without_addresses::WithoutAddresses,
};
use crate::{guards::Guards, new_names::KnownNames, observation::Observation};

/// What is known of everything that one `spec.name` wants.
#[derive(Clone, Debug)]
pub struct NameState {
    pub(super) spec: DnsName,
    /// In their order, each once, with at least one address.
    pub(super) names: Vec<Name>,
    /// What there is to say while there are none, if there were any.
    pub(super) without_addresses: Option<Box<WithoutAddresses>>,
    pub(super) removed: Removed,
    /// The store refused an object that was a tenth larger than this.
    pub(super) most_bytes: u32,
    /// The object is no larger than this, as far as was counted.
    pub(super) at_most_bytes: usize,
    /// Who is told of the names under a wildcard.
    pub(super) known: Option<KnownNames>,
}

/// What a memory knows of one name.
#[derive(Clone, Debug)]
pub struct Known(Name);

/// When a status was read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum After {
    /// As it changed: its writer knew the times.
    Change,
    /// After a start or a gap: its times may be ten minutes old.
    Gap,
}

/// What an observation brought.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UpdateEffect {
    /// The status lacks an address, has one too many, or says wrongly whether the name is degraded.
    pub urgent: bool,
    /// Times in the status are off by more than the tolerance.
    pub times: bool,
    /// Addresses that were thrown out because a limit was reached.
    pub evicted_addresses: usize,
    /// Names that were thrown out because a limit was reached.
    pub evicted_names: usize,
    /// Names that lost their last address so: there is nothing to look up any more.
    pub gone: Vec<DnsName>,
    /// What was thrown out.
    pub evicted: Vec<(DnsName, IpAddr)>,
    /// Names of which a status has addresses that were not known: another writer put them there.
    pub from_others: Vec<DnsName>,
}

impl NameState {
    /// Nothing is known yet of what `spec` wants.
    pub fn new(spec: DnsName) -> Self {
        Self {
            spec,
            names: Vec::new(),
            without_addresses: None,
            removed: Removed::default(),
            most_bytes: u32::MAX,
            at_most_bytes: 0,
            known: None,
        }
    }

    /// The same, which tells of the names under a wildcard.
    #[must_use]
    pub fn telling(self, known: &KnownNames) -> Self {
        Self {
            known: self.spec.is_wildcard().then(|| known.clone()),
            ..self
        }
    }

    /// The name that all this is of.
    pub fn spec(&self) -> &DnsName {
        &self.spec
    }

    /// Whether no address is known.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// How many addresses are known, each name's counted for itself.
    pub fn addresses(&self) -> usize {
        self.names.iter().map(|name| name.addresses.len()).sum()
    }

    /// The names with addresses.
    pub fn names(&self) -> impl Iterator<Item = &DnsName> {
        self.names.iter().map(|name| &name.dns_name)
    }

    /// How many addresses of a name are known.
    pub fn addresses_of(&self, dns_name: &DnsName) -> usize {
        self.name(dns_name).map_or(0, |name| name.addresses.len())
    }

    /// When an answer for a name was last seen; long ago if none was.
    pub fn last_seen(&self, dns_name: &DnsName) -> Timestamp {
        self.name(dns_name)
            .map_or(Timestamp::default(), |name| name.seen)
    }

    /// Takes in an answer. The latest expiry of an address wins and never moves back.
    pub fn observe(
        &mut self,
        observation: &Observation,
        limits: &Limits,
        crowd: Crowd<'_>,
    ) -> UpdateEffect {
        let mut learned = UpdateEffect::default();
        if observation.addresses.is_empty() || !self.spec.matches(&observation.name) {
            return learned;
        }
        // An answer that comes late, as after a pause, opens nothing that is over by now.
        let given = observation.given.min(observation.at);
        let lives =
            |ttl: u32| given + Duration::from_secs(limits.clamp(ttl).into()) > observation.at;
        if given < observation.at && observation.addresses.iter().all(|(_, ttl)| !lives(*ttl)) {
            if let Some(name) = self.name_mut(&observation.name)
                && observation.client.is_some()
            {
                name.sighted = name.sighted.max(observation.at);
            }
            return learned;
        }
        let Some(name) = known_or_new(&mut self.names, &observation.name) else {
            return learned;
        };
        if let Some(client) = observation.client
            && (self.spec.is_wildcard() || name.askers.is_empty())
        {
            name.askers.add(client, crowd);
        }
        if name.addresses.is_empty() || observation.client.is_some() {
            name.sighted = name.sighted.max(observation.at);
        }
        let removed = &mut self.removed;
        let live = observation.addresses.iter().filter(|(_, ttl)| lives(*ttl));
        let fresh = live.map(|&(ip, ttl)| {
            removed.forgive(&observation.name, ip);
            let mut address = Address::seen(ip, limits.clamp(ttl), given);
            address.source = observation.source;
            address
        });
        let news = name.learn(fresh);
        if name.addresses.is_empty() {
            self.forget_empty();
            return learned;
        }
        learned.urgent = news.added > 0 || name.verdict != Verdict::Resolved;
        learned.times = news.times;
        name.verdict = Verdict::Resolved;
        name.failures = 0;
        name.not_absent(observation.family);
        name.seen = name.seen.max(given);
        self.forget_reason();
        if news.added > 0 {
            self.has_grown(&observation.name, news.added);
            self.enforce_addresses_of(&observation.name, limits, observation.at, &mut learned);
        }
        learned
    }

    /// Nothing that was learned by asking counts any more: after a pause, a step of the clock, or a change of leader
    /// every name is looked up again before anything of it is removed. Times in the future count as now.
    pub fn gap(&mut self, now: Timestamp, limits: &Limits) {
        for name in &mut self.names {
            name.gap(now, limits.grace);
        }
        self.removed.gap(now);
    }

    /// Answers may have been missed until now: nothing is removed before one TTL and grace have passed.
    pub fn hold(&mut self, now: Timestamp, limits: &Limits) {
        for address in self.names.iter_mut().flat_map(|name| &mut name.addresses) {
            address.hold(now, limits.grace);
        }
    }

    /// Clients may have asked for any name without being heard: none is idle yet.
    pub fn not_idle(&mut self, now: Timestamp) {
        for name in &mut self.names {
            name.sighted = now;
        }
    }

    /// Takes in a status from the store: what another collector, an earlier life of this one, or a person wrote.
    ///
    /// Times in the future count as now. After a gap, or where nothing is looked up, an address that was not known lives one more
    /// TTL and grace from now, since nothing is removed on the strength of stored times alone. What is no address, is refused by the guards, or stands
    /// under a name that `spec.name` does not want is not taken in, so the next [`NameState::render`] removes it.
    ///
    /// A status that tells of the end of the last rule says nothing of addresses.
    pub fn absorb(
        &mut self,
        stored: &Stored,
        now: Timestamp,
        limits: &Limits,
        guards: &Guards,
        after: After,
    ) -> UpdateEffect {
        self.removed.forget(now);
        let mut learned = UpdateEffect::default();
        if stored.is_no_rule(&self.spec) {
            return learned;
        }
        for entry in &stored.names {
            if !self.spec.matches(&entry.dns_name) {
                continue;
            }
            let mut addresses = Vec::with_capacity(entry.addresses.len());
            for address in &entry.addresses {
                let Ok(ip) = guards.admit(address.ip) else {
                    continue;
                };
                let looked_up = address.looked_up.min(now);
                let ttl = limits.clamp(u32::try_from(address.ttl).unwrap_or(0));
                let mut known = Address::seen(ip, ttl, looked_up);
                if self.removed.has(&entry.dns_name, ip, known.expiry()) {
                    continue;
                }
                self.removed.forgive(&entry.dns_name, ip);
                if after == After::Gap || !limits.lookups {
                    known.hold(now, limits.grace);
                }
                known.rendered = known.expiry();
                addresses.push(known);
            }
            if !addresses.is_empty() {
                let added = self.absorb_name(&entry.dns_name, addresses, entry.failures, now);
                learned
                    .from_others
                    .extend(added.then(|| entry.dns_name.clone()));
            }
        }
        if stored.names.is_empty() {
            return learned;
        }
        self.absorb_loss(stored);
        learned
    }

    /// Returns whether there is an address that was not known.
    fn absorb_name(
        &mut self,
        dns_name: &DnsName,
        mut addresses: Vec<Address>,
        failures: i32,
        now: Timestamp,
    ) -> bool {
        let Some(name) = known_or_new(&mut self.names, dns_name) else {
            return false;
        };
        if name.addresses.is_empty() {
            // The status does not say which clients asked for it, nor when.
            name.sighted = now;
            name.is_from_status = true;
        }
        for address in &mut addresses {
            // A status also has what failed look-ups extended; only news says that an address was in an answer again.
            if let Some(known) = name.address(&address.ip)
                && address.expiry() <= known.expiry()
            {
                address.seen = address.seen.min(known.seen);
            }
        }
        let seen = addresses.iter().map(|address| address.seen).max();
        name.seen = name.seen.max(seen.unwrap_or_default());
        let news = name.learn(addresses.into_iter());
        if name.verdict == Verdict::Unknown {
            name.failures = name.failures.max(failures);
        }
        self.forget_reason();
        if news.added > 0 {
            self.has_grown(dns_name, news.added);
        }
        news.added > 0
    }

    /// This collector leads from now on and goes on where the last leader was. It takes in again what it had evicted from its own
    /// memory and the status has; so it does the failures, which only a leader counts.
    pub fn take_over(
        &mut self,
        stored: &Stored,
        now: Timestamp,
        limits: &Limits,
        guards: &Guards,
    ) -> UpdateEffect {
        self.removed = Removed::default();
        let learned = self.absorb(stored, now, limits, guards, After::Gap);
        if stored.is_no_rule(&self.spec) {
            return learned;
        }
        for entry in &stored.names {
            if let Some(name) = self.name_mut(&entry.dns_name) {
                name.verdict = Verdict::Unknown;
                name.failures = entry.failures.max(0);
            }
        }
        self.absorb_loss(stored);
        learned
    }

    /// Forgets the addresses that the status lacks and whose time is over. Only a leader removes addresses from a status; a
    /// standby follows it.
    pub fn follow(&mut self, stored: &Stored, now: Timestamp, limits: &Limits) {
        if stored.is_no_rule(&self.spec) {
            return;
        }
        let listed = stored.listed();
        for name in &mut self.names {
            let dns_name = &name.dns_name;
            name.addresses.retain(|address| {
                address.earliest_removal(limits) > now
                    || listed.binary_search(&(dns_name, address.ip)).is_ok()
            });
        }
        self.forget_empty();
        // A standby counts its bytes only here. By them the budget charges what the leader writes.
        self.at_most_bytes = self.bytes();
    }

    /// The addresses that are not expired, by name and family, with the seconds that they have left and who brought them.
    pub fn alive(
        &self,
        now: Timestamp,
    ) -> impl Iterator<Item = (&DnsName, Family, Vec<(IpAddr, u32)>, Option<IpAddr>)> {
        let of_family = move |name: &Name, family| {
            let addresses = name.addresses.iter();
            let addresses = addresses.filter(|it| it.family() == family && it.expiry() > now);
            let left = |it: &Address| it.expiry().since(now).as_millis().div_ceil(1000);
            addresses
                .map(|it| (it.ip, u32::try_from(left(it)).unwrap_or(u32::MAX)))
                .collect::<Vec<_>>()
        };
        let all = self.names.iter().flat_map(|name| {
            let families = Family::ALL.into_iter();
            families.map(move |family| (name, family))
        });
        all.map(move |(name, family)| (name, family, of_family(name, family)))
            .filter(|(.., addresses)| !addresses.is_empty())
            .map(|(name, family, addresses)| {
                (&name.dns_name, family, addresses, name.askers.first())
            })
    }

    /// All that is known of one name, to be [adopted](NameState::adopt).
    pub fn copy(&self, dns_name: &DnsName) -> Option<Known> {
        self.name(dns_name).cloned().map(Known)
    }

    /// Takes in what another object's memory knows of a name that this one wants too.
    pub fn adopt(&mut self, known: Known, crowd: Crowd<'_>) -> UpdateEffect {
        let mut learned = UpdateEffect::default();
        let Known(known) = known;
        if !self.spec.matches(&known.dns_name) {
            return learned;
        }
        let Some(name) = known_or_new(&mut self.names, &known.dns_name) else {
            return learned;
        };
        if name.addresses.is_empty() {
            (name.verdict, name.failures) = (known.verdict, known.failures);
            name.is_from_status = known.is_from_status;
        }
        name.askers.join(&known.askers, crowd);
        name.seen = name.seen.max(known.seen);
        name.sighted = name.sighted.max(known.sighted);
        let news = name.learn(known.addresses.into_iter());
        learned.urgent = news.added > 0;
        learned.times = news.times;
        self.forget_empty();
        if !self.names.is_empty() {
            self.forget_reason();
        }
        if news.added > 0 {
            self.has_grown(&known.dns_name, news.added);
        }
        learned
    }

    /// The name as it is known; a new text if it is not, or nothing if it is no name.
    pub(super) fn read_name(&self, text: &str) -> Option<DnsName> {
        let known = |name: &Name| name.dns_name.as_str().cmp(text);
        if self.spec.as_str() == text {
            return Some(self.spec.clone());
        }
        if let Ok(found) = self.names.binary_search_by(known) {
            return Some(self.names.get(found)?.dns_name.clone());
        }
        let name = DnsName::parse(text).ok()?;
        (name.as_str() == text).then_some(name)
    }

    pub(super) fn name(&self, dns_name: &DnsName) -> Option<&Name> {
        self.names.get(find(&self.names, dns_name).ok()?)
    }

    pub(super) fn name_mut(&mut self, dns_name: &DnsName) -> Option<&mut Name> {
        let found = find(&self.names, dns_name).ok()?;
        self.names.get_mut(found)
    }

    /// Takes addresses away, so that a status which still shows them does not bring them back. Returns which.
    pub(super) fn take_away(
        &mut self,
        now: Timestamp,
        goes: impl Fn(&Name, &Address) -> bool,
    ) -> Vec<(DnsName, IpAddr)> {
        let mut gone = Vec::new();
        for name in &mut self.names {
            let mut addresses = std::mem::take(&mut name.addresses);
            addresses.retain(|address| {
                let goes = goes(name, address);
                if goes {
                    self.removed.add(&name.dns_name, address, now);
                    gone.push((name.dns_name.clone(), address.ip));
                }
                !goes
            });
            give_back_room(&mut addresses);
            name.addresses = addresses;
        }
        self.forget_emptied(Verdict::Expired);
        gone
    }

    /// Nobody is to know its names any more.
    pub fn end(&self) {
        if let Some(known) = &self.known {
            known.take_in(&self.spec);
        }
        for name in &self.names {
            if let Some(known) = &self.known {
                known.remove(&name.dns_name);
            }
        }
    }

    /// A name has so many addresses more.
    fn has_grown(&mut self, dns_name: &DnsName, added: usize) {
        self.at_most_bytes = self
            .at_most_bytes
            .saturating_add(grown_bytes(dns_name, added));
        if let Some(known) = &self.known {
            known.insert(dns_name);
        }
    }

    pub(super) fn forget_empty(&mut self) {
        self.names.retain(|name| {
            if let (true, Some(known)) = (name.addresses.is_empty(), &self.known) {
                known.remove(&name.dns_name);
            }
            !name.addresses.is_empty()
        });
        give_back_room(&mut self.names);
    }
}

fn find(names: &[Name], dns_name: &DnsName) -> Result<usize, usize> {
    names.binary_search_by(|name| name.dns_name.cmp(dns_name))
}

/// The name in its place in the list, which it gets if it has none. There is always one.
fn known_or_new<'a>(names: &'a mut Vec<Name>, dns_name: &DnsName) -> Option<&'a mut Name> {
    let place = find(names, dns_name).unwrap_or_else(|place| {
        make_room(names);
        names.insert(place, Name::new(dns_name.clone()));
        place
    });
    names.get_mut(place)
}
