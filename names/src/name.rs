//! The state of one DNS name.
//!
//! A process has a hundred thousand of these, most with one address. So lists are sorted and have
//! no spare capacity.

use std::{net::IpAddr, time::Duration};

use proto::api::{DnsName, Family};
use proto::timestamp::Timestamp;

use super::{
    Limits,
    eviction_order::ClientsOfName,
    limits::{MAX_STORED_TTL, tolerance},
    reserve_one,
};
use crate::{condition::Guard, failure::Failure, observation::Provenance};

#[derive(Clone, Debug)]
pub(super) struct Name {
    pub(super) dns_name: DnsName,
    /// Sorted by address, without duplicates.
    pub(super) addresses: Vec<Address>,
    /// The time of the last answer.
    pub(super) seen: Timestamp,
    /// The time of the last query by a client. A name under a wildcard is looked up only while
    /// clients use it.
    pub(super) last_client_query: Timestamp,
    /// Clients that asked for it, as far as this process knows. For a name that no wildcard found,
    /// only the first.
    pub(super) clients: ClientsOfName,
    /// Clients asked for it in two minutes at least. A name of a status counts as asked for so.
    pub(super) is_asked_in_two_minutes: bool,
    /// Failed look-ups since the last answer.
    pub(super) failures: i32,
    pub(super) resolution: ResolutionState,
    /// The start of the last conclusive look-up of each family since the last gap.
    pub(super) last_conclusive: [Timestamp; 2],
    /// Look-ups in a row, by family, in which every server that answered said that there is no
    /// address.
    absences: [u8; 2],
    /// The start of the first of them.
    absent_since: [Timestamp; 2],
    /// The start of the last failed look-up since the last gap.
    pub(super) last_failure: Timestamp,
}

/// The least number of such look-ups in a row after which a family closes.
pub(super) const ABSENCE_THRESHOLD: u8 = 5;

/// The least time from the first to the last of them.
const ABSENT_FOR: Duration = Duration::from_secs(60);

/// The state of the condition of a name.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum ResolutionState {
    /// No event in this process: the condition in the status stays.
    #[default]
    Unknown,
    /// The last look-up gave an address.
    Resolved,
    /// The last look-up failed.
    Failing(Failure),
    /// The name exists, but look-ups in a row gave no address.
    NoAddress,
    /// The addresses expired, and no answer renewed them.
    Expired,
    /// The guards refuse the addresses that it had.
    Refused,
    /// This guard refuses the addresses of every answer, and it never had one.
    AnswerRefused(Guard),
    /// The namespaces that use it exceed their limits.
    LimitExceeded,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub(super) ip: IpAddr,
    /// The TTL in seconds of the answer with the latest expiry.
    pub(super) ttl: u32,
    /// The time of that answer.
    pub(super) answered_at: Timestamp,
    /// The time of the last answer with the address, whatever its TTL. Eviction goes by it.
    pub(super) seen: Timestamp,
    /// The earliest removal, because answers may have been lost.
    pub(super) not_before: Timestamp,
    /// The latest expiry that was compared with the status, or read from one. Zero for an address
    /// that was in no status.
    pub(super) rendered: Timestamp,
    /// Where it was last seen.
    pub(super) source: Provenance,
    /// Its times are those of a status, which are no TTL of an answer.
    pub(super) is_stored: bool,
}

// There are hundreds of thousands of these. The source takes bytes that were padding.
const _: () = assert!(size_of::<Address>() == 56);

/// The news that an update brings to a name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MergeEffect {
    /// Addresses that were not known.
    pub(super) added: usize,
    /// Expiries in the status are off by more than the tolerance.
    pub(super) times: bool,
}

impl Name {
    /// The time of the last query by a client. A status does not record it, so for a name from a
    /// status it is the time of the last answer.
    pub(super) fn last_asked(&self) -> Timestamp {
        if self.clients.is_empty() {
            self.seen
        } else {
            self.last_client_query
        }
    }

    /// A client asked for it.
    pub(super) fn on_client_query(&mut self, at: Timestamp) {
        let minute = |at: Timestamp| at.as_millis().div_euclid(60_000);
        let was_asked = !self.clients.is_empty();
        self.is_asked_in_two_minutes |= was_asked && minute(at) != minute(self.last_client_query);
        self.last_client_query = self.last_client_query.max(at);
    }

    pub(super) fn new(dns_name: DnsName) -> Self {
        Self {
            dns_name,
            addresses: Vec::new(),
            seen: Timestamp::default(),
            last_client_query: Timestamp::default(),
            clients: ClientsOfName::default(),
            is_asked_in_two_minutes: false,
            failures: 0,
            resolution: ResolutionState::Unknown,
            last_conclusive: <[Timestamp; 2]>::default(),
            absences: [0; 2],
            absent_since: <[Timestamp; 2]>::default(),
            last_failure: Timestamp::default(),
        }
    }

    pub(super) fn address(&self, ip: &IpAddr) -> Option<&Address> {
        let found = self.addresses.binary_search_by_key(ip, |known| known.ip);
        self.addresses.get(found.ok()?)
    }

    /// Merges addresses into the sorted list.
    pub(super) fn merge(&mut self, addresses: impl Iterator<Item = Address>) -> MergeEffect {
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
                    reserve_one(&mut self.addresses);
                    self.addresses.push(address);
                    news.added += 1;
                }
            }
        }
        if news.added > 0 {
            // At best two sorted runs, which the stable sort only merges.
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

    /// The start of the last conclusive look-up of the family.
    pub(super) fn last_conclusive(&self, family: Family) -> Timestamp {
        *of_family(&self.last_conclusive, family)
    }

    /// Records a conclusive look-up of the family that began at `started`.
    pub(super) fn conclude(&mut self, family: Family, started: Timestamp) {
        let last = of_family_mut(&mut self.last_conclusive, family);
        *last = started.max(*last);
    }

    /// Look-ups in a row in which every server that answered said that the family has no address.
    pub(super) fn absences(&self, family: Family) -> u8 {
        *of_family(&self.absences, family)
    }

    /// Counts one more of them, which began at `started`. Returns whether they close the family.
    pub(super) fn count_absence(&mut self, family: Family, started: Timestamp) -> bool {
        let absences = of_family_mut(&mut self.absences, family);
        let since = of_family_mut(&mut self.absent_since, family);
        if *absences == 0 {
            *since = started;
        }
        *absences = absences.saturating_add(1);
        is_absent_for_long(*absences, *since, started)
    }

    /// Any other result resets the count.
    pub(super) fn reset_absences(&mut self, family: Family) {
        *of_family_mut(&mut self.absences, family) = 0;
    }

    /// Whether look-ups, of which the last began at `started`, have closed every family that has
    /// addresses.
    pub(super) fn is_closing(&self, started: Timestamp) -> bool {
        let mut families = self.addresses.iter().map(Address::family);
        families.all(|family| {
            let since = *of_family(&self.absent_since, family);
            is_absent_for_long(self.absences(family), since, started)
        })
    }

    /// Whether an address of the family was in no answer for `max_stale`.
    pub(super) fn is_stale(&self, family: Family, now: Timestamp, limits: &Limits) -> bool {
        let mut addresses = self.addresses.iter();
        addresses.any(|address| address.family() == family && address.is_stale(now, limits))
    }

    /// Extends the addresses of a family that expire about now, by one minimum TTL, unless they are
    /// stale. Returns whether any was extended.
    pub(super) fn extend_expiry(
        &mut self,
        family: Family,
        now: Timestamp,
        limits: &Limits,
    ) -> bool {
        let mut any = false;
        for address in &mut self.addresses {
            if address.family() == family && !address.is_stale(now, limits) {
                any |= address.extend_expiry(now, limits);
            }
        }
        any
    }

    /// Time passed unnoticed, or the clock was set: earlier look-ups do not count, and times in the
    /// future become now.
    pub(super) fn on_clock_jump(&mut self, now: Timestamp, grace: Duration) {
        self.last_conclusive = <[Timestamp; 2]>::default();
        self.absences = [0; 2];
        self.last_failure = Timestamp::default();
        self.seen = self.seen.min(now);
        // Clients may have queried it during the gap.
        self.last_client_query = now;
        for address in &mut self.addresses {
            if address.answered_at > now {
                // The clock was set back.
                address.not_before = Timestamp::default();
            }
            address.answered_at = address.answered_at.min(now);
            address.seen = address.seen.min(now);
            address.not_before = address.not_before.min(now + MAX_STORED_TTL + grace);
            address.keep_for_ttl(now, grace);
        }
    }
}

impl Address {
    /// An address of an answer.
    pub(super) fn seen(ip: IpAddr, ttl: u32, at: Timestamp) -> Self {
        Self {
            ip,
            ttl,
            answered_at: at,
            seen: at,
            not_before: Timestamp::default(),
            rendered: Timestamp::default(),
            source: Provenance::STATUS,
            is_stored: false,
        }
    }

    /// An address of a status. `ttl` is the stored one.
    pub(super) fn stored(ip: IpAddr, ttl: u32, at: Timestamp) -> Self {
        Self {
            is_stored: true,
            ..Self::seen(ip, ttl, at)
        }
    }

    pub(super) fn expiry(&self) -> Timestamp {
        self.answered_at + Duration::from_secs(u64::from(self.ttl))
    }

    /// The earliest time of removal.
    pub(super) fn earliest_removal(&self, limits: &Limits) -> Timestamp {
        (self.expiry() + limits.grace).max(self.seen + limits.retain)
    }

    pub(super) fn family(&self) -> Family {
        match self.ip {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }

    /// Whether it was in no answer for `max_stale`.
    fn is_stale(&self, now: Timestamp, limits: &Limits) -> bool {
        self.seen + limits.max_stale <= now
    }

    /// Keeps it for one more TTL and grace from now. The times of a status are late enough for that.
    pub(super) fn keep_for_ttl(&mut self, now: Timestamp, grace: Duration) {
        if !self.is_stored {
            let until = now + Duration::from_secs(u64::from(self.ttl)) + grace;
            self.not_before = self.not_before.max(until);
        }
    }

    /// After a failed look-up, extends an address that expires about now by one minimum TTL.
    /// Returns whether that is later.
    fn extend_expiry(&mut self, now: Timestamp, limits: &Limits) -> bool {
        let ttl = limits.clamp(0);
        let longer = now + Duration::from_secs(u64::from(ttl)) > self.expiry();
        let extended = longer && self.expiry() <= now + tolerance(self.ttl);
        if extended {
            self.answered_at = now;
            self.ttl = ttl;
        }
        extended
    }

    /// The latest expiry wins, then the later look-up, so the order of look-ups does not matter.
    fn extend(&mut self, other: &Self) {
        // A status only repeats an answer, so another source takes precedence.
        if other.seen > self.seen || (other.seen == self.seen && other.source != Provenance::STATUS)
        {
            self.source = other.source;
        }
        self.seen = self.seen.max(other.seen);
        self.rendered = self.rendered.max(other.rendered);
        self.not_before = self.not_before.max(other.not_before);
        match (self.is_stored, other.is_stored) {
            // The TTL of the answer says when to look the name up. The stored time only delays the
            // removal.
            (true, false) => {
                self.not_before = self.not_before.max(self.expiry());
                (self.answered_at, self.ttl, self.is_stored) =
                    (other.answered_at, other.ttl, false);
            }
            (false, true) => self.not_before = self.not_before.max(other.expiry()),
            _ if (other.expiry(), other.answered_at) > (self.expiry(), self.answered_at) => {
                self.answered_at = other.answered_at;
                self.ttl = other.ttl;
            }
            _ => {}
        }
    }
}

fn is_absent_for_long(absences: u8, since: Timestamp, last: Timestamp) -> bool {
    absences >= ABSENCE_THRESHOLD && since + ABSENT_FOR <= last
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

/// Shrinks the list once half of its capacity is unused.
pub(super) fn shrink_half_empty<T>(list: &mut Vec<T>) {
    if list.len() <= list.capacity() / 2 {
        list.shrink_to(list.len() + list.len() / 4);
    }
}
