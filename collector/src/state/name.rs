//! What is known of one DNS name.
//!
//! A hundred thousand of these are kept, most with one address, so lists are sorted and as long as they need to be.

use std::{net::IpAddr, time::Duration};

use proto::api::{DnsName, Family};
use runtime::clock::Timestamp;

use super::{Limits, askers::Askers, make_room, tolerance};
use crate::{failure::Failure, observation::Provenance};

#[derive(Clone, Debug)]
pub(super) struct Name {
    pub(super) dns_name: DnsName,
    /// In the order of their addresses, each once.
    pub(super) addresses: Vec<Address>,
    /// When it was last in an answer.
    pub(super) seen: Timestamp,
    /// When a client last asked for it: what keeps a name under a wildcard looked up.
    pub(super) sighted: Timestamp,
    /// Clients that asked, as far as this process knows; of a name that no wildcard brought the first alone.
    pub(super) askers: Askers,
    /// It came from a status, and not from an answer to a client.
    pub(super) is_from_status: bool,
    /// Look-ups that failed since the last answer.
    pub(super) failures: i32,
    pub(super) verdict: Verdict,
    /// When the last of our own look-ups that told what there is began, by family, since the last gap.
    pub(super) asked: [Timestamp; 2],
    /// Our own look-ups in a row, by family, in which every server that answered said that there is no address.
    absences: [u8; 2],
    /// When the last of our own look-ups that failed began, since the last gap.
    pub(super) tried: Timestamp,
}

/// This many look-ups in a row in which every server that answered said that there is no address close a family.
pub(super) const ABSENCES: u8 = 5;

/// What the condition of a name says.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Verdict {
    /// Nothing happened in this process's life: what the status says holds.
    #[default]
    Unknown,
    /// The last look-up gave an address.
    Resolved,
    /// The last look-up failed.
    Failing(Failure),
    /// The name exists, and look-ups in a row gave no address of it.
    NoAddress,
    /// The addresses expired, and no answer renewed them.
    Expired,
    /// The guards refuse the addresses that it had.
    Refused,
    /// No EgressFirewall uses the name any more.
    NoRule,
    /// The namespaces that use it have too much.
    LimitExceeded,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub(super) ip: IpAddr,
    /// The TTL in seconds of the look-up that gave the latest expiry.
    pub(super) ttl: u32,
    /// When that was.
    pub(super) looked_up: Timestamp,
    /// When it was last in an answer, whatever the TTL: what eviction goes by.
    pub(super) seen: Timestamp,
    /// It is not removed before: answers may have been missed.
    pub(super) not_before: Timestamp,
    /// The latest expiry that was compared with the status, or that a status had; zero for an address that was in none.
    pub(super) rendered: Timestamp,
    /// Where it was last seen.
    pub(super) source: Provenance,
}

// There are hundreds of thousands of them: where one was seen takes bytes that were padding.
const _: () = assert!(size_of::<Address>() == 56);

/// What a name did not have before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MergeEffect {
    /// Addresses that were not known.
    pub(super) added: usize,
    /// Expiries in the status are off by more than the tolerance.
    pub(super) times: bool,
}

impl Name {
    /// When a client last asked for it. A status does not say so: then it is when the name was last in an answer.
    pub(super) fn last_asked(&self) -> Timestamp {
        match self.askers.is_empty() {
            true => self.seen,
            false => self.sighted,
        }
    }

    pub(super) fn new(dns_name: DnsName) -> Self {
        Self {
            dns_name,
            addresses: Vec::new(),
            seen: Timestamp::default(),
            sighted: Timestamp::default(),
            askers: Askers::default(),
            is_from_status: false,
            failures: 0,
            verdict: Verdict::Unknown,
            asked: <[Timestamp; 2]>::default(),
            absences: [0; 2],
            tried: Timestamp::default(),
        }
    }

    pub(super) fn address(&self, ip: &IpAddr) -> Option<&Address> {
        let found = self.addresses.binary_search_by_key(ip, |known| known.ip);
        self.addresses.get(found.ok()?)
    }

    /// Takes in addresses.
    pub(super) fn learn(&mut self, addresses: impl Iterator<Item = Address>) -> MergeEffect {
        let mut news = MergeEffect::default();
        let before = self.addresses.len();
        for address in addresses {
            let (known, _) = self.addresses.split_at_mut(before);
            let found = known.binary_search_by_key(&address.ip, |known| known.ip);
            match found.ok().and_then(|found| known.get_mut(found)) {
                Some(known) => {
                    known.extend(&address);
                    news.times |= known.expiry() > known.rendered + tolerance(known.ttl);
                }
                None => {
                    make_room(&mut self.addresses);
                    self.addresses.push(address);
                    news.added += 1;
                }
            }
        }
        if news.added > 0 {
            // Two sorted parts at best, which this kind of sort just merges.
            self.addresses.sort_by_key(|address| address.ip);
            self.addresses.dedup_by(|again, known| {
                let same = again.ip == known.ip;
                if same {
                    known.extend(again);
                }
                same
            });
        }
        news
    }

    /// When the last look-up of our own that told what there is in the family began.
    pub(super) fn asked(&self, family: Family) -> Timestamp {
        *of_family(&self.asked, family)
    }

    /// A look-up of our own that began at `started` told what there is in the family.
    pub(super) fn answered(&mut self, family: Family, started: Timestamp) {
        let asked = of_family_mut(&mut self.asked, family);
        *asked = started.max(*asked);
    }

    /// Look-ups in a row in which every server that answered said that there is no address in the family.
    pub(super) fn absences(&self, family: Family) -> u8 {
        *of_family(&self.absences, family)
    }

    /// One more of them. Returns whether they close the family.
    pub(super) fn absent(&mut self, family: Family) -> bool {
        let absences = of_family_mut(&mut self.absences, family);
        *absences = absences.saturating_add(1);
        *absences >= ABSENCES
    }

    /// Anything else: the count begins anew.
    pub(super) fn not_absent(&mut self, family: Family) {
        *of_family_mut(&mut self.absences, family) = 0;
    }

    /// Whether look-ups have closed every family in which there are addresses.
    pub(super) fn is_closing(&self) -> bool {
        let mut families = self.addresses.iter().map(Address::family);
        families.all(|family| self.absences(family) >= ABSENCES)
    }

    /// Whether an address of the family was in no answer for as long as one may be stale.
    pub(super) fn is_stale(&self, family: Family, now: Timestamp, limits: &Limits) -> bool {
        let mut addresses = self.addresses.iter();
        addresses.any(|address| address.family() == family && address.is_stale(now, limits))
    }

    /// The addresses of a family that expire about now, and are not too stale, live one more minimum TTL. Returns whether any does.
    pub(super) fn outlive(&mut self, family: Family, now: Timestamp, limits: &Limits) -> bool {
        let mut any = false;
        for address in &mut self.addresses {
            if address.family() == family && !address.is_stale(now, limits) {
                any |= address.outlive(now, limits);
            }
        }
        any
    }

    /// Time went by unnoticed, or the clock was set: no look-up before counts, nor any time that is still to come.
    pub(super) fn gap(&mut self, now: Timestamp, grace: Duration) {
        self.asked = <[Timestamp; 2]>::default();
        self.absences = [0; 2];
        self.tried = Timestamp::default();
        self.seen = self.seen.min(now);
        // Nobody knows who asked meanwhile.
        self.sighted = now;
        for address in &mut self.addresses {
            address.looked_up = address.looked_up.min(now);
            address.seen = address.seen.min(now);
            address.hold(now, grace);
        }
    }
}

impl Address {
    /// An address that was in an answer.
    pub(super) fn seen(ip: IpAddr, ttl: u32, at: Timestamp) -> Self {
        Self {
            ip,
            ttl,
            looked_up: at,
            seen: at,
            not_before: Timestamp::default(),
            rendered: Timestamp::default(),
            source: Provenance::STATUS,
        }
    }

    pub(super) fn expiry(&self) -> Timestamp {
        self.looked_up + Duration::from_secs(u64::from(self.ttl))
    }

    /// Whatever else has to happen, it is not removed before.
    pub(super) fn earliest_removal(&self, limits: &Limits) -> Timestamp {
        (self.expiry() + limits.grace).max(self.seen + limits.retain)
    }

    /// The same on shorter terms. A TTL that is the floor may have been raised to it.
    pub(super) fn earliest_removal_on(&self, shorter: &Limits, limits: &Limits) -> Timestamp {
        let floor = limits.clamp(0);
        let ttl = match self.ttl > floor {
            true => self.ttl,
            false => self.ttl.min(shorter.clamp(0)),
        };
        let shortened = Self { ttl, ..*self };
        shortened.earliest_removal(shorter)
    }

    pub(super) fn family(&self) -> Family {
        match self.ip {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }

    /// Whether it was in no answer for as long as an address may be stale.
    fn is_stale(&self, now: Timestamp, limits: &Limits) -> bool {
        self.seen + limits.max_stale <= now
    }

    /// It stays one more TTL and grace from now.
    pub(super) fn hold(&mut self, now: Timestamp, grace: Duration) {
        self.not_before = now + Duration::from_secs(u64::from(self.ttl)) + grace;
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
        // A status only repeats what somebody saw.
        if other.seen > self.seen || (other.seen == self.seen && other.source != Provenance::STATUS)
        {
            self.source = other.source;
        }
        self.seen = self.seen.max(other.seen);
        self.rendered = self.rendered.max(other.rendered);
        if (other.expiry(), other.looked_up) > (self.expiry(), self.looked_up) {
            self.looked_up = other.looked_up;
            self.ttl = other.ttl;
        }
    }
}

fn of_family<T>([v4, v6]: &[T; 2], family: Family) -> &T {
    match family {
        Family::V4 => v4,
        Family::V6 => v6,
    }
}

fn of_family_mut<T>([v4, v6]: &mut [T; 2], family: Family) -> &mut T {
    match family {
        Family::V4 => v4,
        Family::V6 => v6,
    }
}

/// Gives back the room of what is gone, once that is half.
pub(super) fn give_back_room<T>(list: &mut Vec<T>) {
    if list.len() <= list.capacity() / 2 {
        list.shrink_to(list.len() + list.len() / 4);
    }
}
