//! Limits the rate at which a client brings in new names under wildcards, so that one client cannot
//! delay the answers of others.
//!
//! The controller reports which names under wildcards are known ([`KnownNames`]); an answer for
//! such a name always passes. For other names a client has a budget, and pays once for the IPv4 and
//! IPv6 addresses of a name. A name that is refused passes when the client queries it again within
//! its budget.

use std::{
    collections::HashSet,
    hash::{BuildHasher, Hash},
    net::IpAddr,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use foldhash::quality::RandomState;
use ipnet::IpNet;
use lru::LruCache;
use parking_lot::{Mutex, MutexGuard};
use proto::api::{DnsName, Family};
use runtime::clock::Timestamp;

use crate::notices::{Kind, Notices};

/// The parts of the tables, each with a lock, so that readers and the controller rarely wait for
/// each other.
const PARTS: usize = 16;

/// The most clients with a budget of their own. A forgotten client gets its whole burst again.
const MOST_CLIENTS: usize = 1 << 16;

/// The most wildcards with a count of refused answers: those with the latest ones.
const MOST_WILDCARDS: NonZeroUsize = NonZeroUsize::new(1 << 12).unwrap();

/// The most names paid for in one family. A hash collision evicts a name, which is then paid for
/// twice.
const MOST_PAID: usize = 1 << 13;

/// The names under wildcards that have an address. Clones share them; the default is empty.
#[derive(Clone, Debug, Default)]
pub struct KnownNames(Arc<Parts<HashSet<u64>>>);

/// Separates the mark of a left-out wildcard from that of the wildcard's own name, which may have
/// addresses.
const LEFT_OUT: &str = "left out";

/// Tables by hash, each with a lock. A client cannot make names collide, since the hash is seeded
/// with a secret.
#[derive(Debug, Default)]
struct Parts<T> {
    hasher: RandomState,
    parts: [Mutex<T>; PARTS],
}

impl<T> Parts<T> {
    fn hash(&self, it: impl Hash) -> u64 {
        self.hasher.hash_one(it)
    }

    fn part(&self, hash: u64) -> Option<MutexGuard<'_, T>> {
        let part = self.parts.get(hash as usize % PARTS)?;
        Some(part.lock())
    }
}

impl KnownNames {
    pub fn insert(&self, name: &DnsName) {
        self.mark(name, true);
    }

    pub fn remove(&self, name: &DnsName) {
        self.mark(name, false);
    }

    pub fn contains(&self, name: &DnsName) -> bool {
        self.is_marked(name)
    }

    /// The namespaces of a wildcard exceed their quotas. No name under it is kept, so no client
    /// pays for any.
    pub fn leave_out(&self, wildcard: &DnsName) {
        self.mark((wildcard, LEFT_OUT), true);
    }

    /// Names under the wildcard are kept again.
    pub fn take_in(&self, wildcard: &DnsName) {
        self.mark((wildcard, LEFT_OUT), false);
    }

    fn is_left_out(&self, wildcard: &DnsName) -> bool {
        self.is_marked((wildcard, LEFT_OUT))
    }

    fn mark(&self, it: impl Hash, is_marked: bool) {
        let hash = self.0.hash(it);
        if let Some(mut part) = self.0.part(hash) {
            match is_marked {
                true => part.insert(hash),
                false => part.remove(&hash),
            };
        }
    }

    fn is_marked(&self, it: impl Hash) -> bool {
        let hash = self.0.hash(it);
        self.0.part(hash).is_some_and(|part| part.contains(&hash))
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        let parts = self.0.parts.iter();
        parts.map(|part| part.lock().len()).sum()
    }
}

/// The rate of new names of each client.
#[derive(clap::Args, Clone, Debug)]
pub struct NewNameLimits {
    /// New names under wildcards that one client may add in a second.
    ///
    /// The collector adds a name beyond that when a client asks for it again later. 0: no limit.
    #[arg(long = "new-names-rate", value_name = "NAMES/S", default_value = "50")]
    pub rate: u32,

    /// New names under wildcards that one client may add at once, before `--new-names-rate` limits it.
    #[arg(long = "new-names-burst", value_name = "NAMES", default_value = "1000")]
    pub burst: u32,

    /// Networks of clients that may add any number of new names; repeatable.
    ///
    /// Such clients ask for many others: nodes with a NodeLocal DNSCache, and proxies. Default: none.
    #[arg(long = "new-names-exempt", value_name = "CIDR", value_delimiter = ',')]
    pub exempt: Vec<IpNet>,
}

/// The refused answers of a wildcard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RefusedAnswers {
    /// The number of answers, since this process started.
    pub answers: u64,
    /// The time of the last one.
    pub last: Timestamp,
}

/// Decides which new names pass. Clones share the budgets; the default lets all pass.
#[derive(Clone, Debug, Default)]
pub struct NewNames(Option<Arc<Limited>>);

#[derive(Debug)]
struct Limited {
    limits: NewNameLimits,
    known: KnownNames,
    budgets: Parts<Option<LruCache<IpAddr, Budget>>>,
    /// Marks of names, clients and families that are paid for and whose answer is still to come; 0
    /// for none.
    paid: Box<[AtomicU64]>,
    refused: Mutex<LruCache<DnsName, RefusedAnswers>>,
    notices: Notices,
}

#[derive(Clone, Copy, Debug)]
struct Budget {
    left: f64,
    at: Timestamp,
}

impl NewNames {
    /// `known` has the names whose answers always pass, and `notices` reports refusals to the
    /// authors of rules.
    pub fn new(limits: NewNameLimits, known: &KnownNames, notices: &Notices) -> Self {
        let limited = Limited {
            limits,
            known: known.clone(),
            budgets: Parts::default(),
            paid: (0..MOST_PAID).map(|_| AtomicU64::default()).collect(),
            refused: Mutex::new(LruCache::new(MOST_WILDCARDS)),
            notices: notices.clone(),
        };
        Self((limited.limits.rate > 0).then(|| Arc::new(limited)))
    }

    /// Whether an answer passes that has addresses of this family for a name that a wildcard wants.
    pub fn admit(&self, name: &DnsName, family: Family, client: IpAddr, now: Timestamp) -> bool {
        let Some(limited) = &self.0 else {
            return true;
        };
        if limited.known.contains(name) {
            return true;
        }
        let Some(wildcard) = name.wildcard() else {
            return true;
        };
        // The controller refuses it whatever the budget is.
        if limited.known.is_left_out(&wildcard) || limited.pays(name, family, client, now) {
            return true;
        }
        limited.refuse(wildcard, now);
        false
    }

    /// The refused answers of a wildcard, if any.
    pub fn refused(&self, wildcard: &DnsName) -> Option<RefusedAnswers> {
        let limited = self.0.as_ref()?;
        limited.refused.lock().peek(wildcard).copied()
    }
}

impl Limited {
    /// Whether the client pays for the name now, or has paid for it with the other family.
    fn pays(&self, name: &DnsName, family: Family, client: IpAddr, now: Timestamp) -> bool {
        let client = client.to_canonical();
        if self.limits.exempt.iter().any(|net| net.contains(&client)) {
            return true;
        }
        let other = match family {
            Family::V4 => Family::V6,
            Family::V6 => Family::V4,
        };
        // Never 0, which means no mark.
        let [this, other] = [family, other].map(|it| self.budgets.hash((name, client, it)) | 1);
        if self.is_paid(this) {
            return true;
        }
        let has_budget = self.has_budget(client, now);
        if has_budget && let Some(place) = self.place(other) {
            place.store(other, Ordering::Relaxed);
        }
        has_budget
    }

    /// Removes the mark, and returns whether it was there.
    fn is_paid(&self, mark: u64) -> bool {
        let relaxed = Ordering::Relaxed;
        self.place(mark)
            .is_some_and(|place| place.compare_exchange(mark, 0, relaxed, relaxed).is_ok())
    }

    fn place(&self, mark: u64) -> Option<&AtomicU64> {
        self.paid.get((mark >> 1) as usize % MOST_PAID)
    }

    fn has_budget(&self, client: IpAddr, now: Timestamp) -> bool {
        let burst = f64::from(self.limits.burst.max(1));
        let Some(mut part) = self.budgets.part(self.budgets.hash(client)) else {
            return true;
        };
        let most = const { NonZeroUsize::new(MOST_CLIENTS / PARTS).unwrap() };
        let budgets = part.get_or_insert_with(|| LruCache::new(most));
        let budget = budgets.get_or_insert_mut(client, || Budget {
            left: burst,
            at: now,
        });
        let earned = now.since(budget.at).as_secs_f64() * f64::from(self.limits.rate);
        budget.left = (budget.left + earned).min(burst);
        // The clock may have been set back.
        budget.at = now;
        let has_budget = budget.left >= 1.0;
        if has_budget {
            budget.left -= 1.0;
        }
        has_budget
    }

    #[cold]
    fn refuse(&self, wildcard: DnsName, now: Timestamp) {
        self.notices.tell(&wildcard, Kind::NewNames);
        let none = || RefusedAnswers {
            answers: 0,
            last: now,
        };
        let mut all = self.refused.lock();
        let refused = all.get_or_insert_mut(wildcard, none);
        refused.answers += 1;
        refused.last = now;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn name(text: &str) -> DnsName {
        DnsName::parse(text).unwrap()
    }

    fn ip(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn limits() -> NewNameLimits {
        NewNameLimits {
            rate: 2,
            burst: 3,
            exempt: vec!["10.0.0.8/29".parse().unwrap()],
        }
    }

    fn admitted(names: &NewNames, client: IpAddr, asked: u32, at: Timestamp) -> usize {
        let asked = (0..asked).map(|i| name(&format!("n{i}.example.com")));
        asked
            .filter(|it| names.admit(it, Family::V4, client, at))
            .count()
    }

    #[test]
    fn a_client_has_a_burst_then_a_rate_and_other_clients_their_own() {
        let names = NewNames::new(limits(), &KnownNames::default(), &Notices::default());
        assert_eq!(admitted(&names, ip(1), 100, START), 3);
        assert_eq!(admitted(&names, ip(2), 100, START), 3);
        let later = START + Duration::from_secs(1);
        assert_eq!(admitted(&names, ip(1), 100, later), 2);
        let much_later = later + Duration::from_secs(3600);
        assert_eq!(admitted(&names, ip(1), 100, much_later), 3);
        // The clock was set back.
        assert_eq!(admitted(&names, ip(1), 100, START), 0);
        assert_eq!(admitted(&names, ip(1), 100, later), 2);
        // A cache that sends the queries of all pods of a node.
        assert_eq!(admitted(&names, ip(9), 100, START), 100);
        let refused = names.refused(&name("*.example.com")).unwrap();
        assert_eq!(refused.answers, 97 + 97 + 98 + 97 + 100 + 98);
        assert_eq!(refused.last, later);
        assert_eq!(names.refused(&name("*.other.example")), None);
    }

    #[test]
    fn an_answer_for_a_known_name_always_counts_and_costs_no_budget() {
        let known = KnownNames::default();
        let names = NewNames::new(limits(), &known, &Notices::default());
        let www = name("www.example.com");
        known.insert(&www);
        for _ in 0..100 {
            assert!(names.admit(&www, Family::V4, ip(1), START));
        }
        assert_eq!(admitted(&names, ip(1), 100, START), 3);
        assert!(names.admit(&www, Family::V4, ip(1), START));
        known.remove(&www);
        assert!(!names.admit(&www, Family::V4, ip(1), START));
        assert_eq!(known.count(), 0);
    }

    #[test]
    fn a_name_costs_a_client_once_for_both_families() {
        let names = NewNames::new(limits(), &KnownNames::default(), &Notices::default());
        let admit = |label: &str, family, client| {
            names.admit(
                &name(&format!("{label}.example.com")),
                family,
                client,
                START,
            )
        };
        for label in ["a", "b", "c"] {
            assert!(admit(label, Family::V4, ip(1)), "{label}");
        }
        for label in ["a", "b", "c"] {
            assert!(admit(label, Family::V6, ip(1)), "{label}");
            // A paid family passes once, and for this client only.
            assert!(!admit(label, Family::V6, ip(1)), "{label}");
        }
        assert!(!admit("d", Family::V6, ip(1)));
        assert!(admit("a", Family::V6, ip(2)));
    }

    #[test]
    fn names_under_a_wildcard_that_is_left_out_cost_no_budget() {
        let known = KnownNames::default();
        let names = NewNames::new(limits(), &known, &Notices::default());
        let wildcard = name("*.example.com");
        known.leave_out(&wildcard);
        assert_eq!(admitted(&names, ip(1), 100, START), 100);
        known.take_in(&wildcard);
        // The wildcard's own name does not make names under it known.
        known.insert(&wildcard);
        assert_eq!(admitted(&names, ip(1), 100, START), 3);
        assert_eq!(names.refused(&wildcard).map(|it| it.answers), Some(97));
    }

    #[test]
    fn of_many_wildcards_those_that_lost_answers_last_are_known() {
        let names = NewNames::new(limits(), &KnownNames::default(), &Notices::default());
        let most = MOST_WILDCARDS.get();
        let asked = |i: usize| {
            names.admit(
                &name(&format!("n.z{i}.example.com")),
                Family::V4,
                ip(1),
                START,
            )
        };
        let admitted = (0..most + 10).filter(|i| asked(*i)).count();
        assert_eq!(admitted, 3);
        let refused = |i: usize| names.refused(&name(&format!("*.z{i}.example.com")));
        assert_eq!(refused(3), None);
        assert!(refused(most + 9).is_some());
    }

    #[test]
    fn without_a_rate_all_are_taken_in() {
        let none = NewNameLimits {
            rate: 0,
            ..limits()
        };
        let names = NewNames::new(none, &KnownNames::default(), &Notices::default());
        assert_eq!(admitted(&names, ip(1), 10_000, START), 10_000);
        assert_eq!(admitted(&NewNames::default(), ip(1), 10_000, START), 10_000);
    }

    #[test]
    fn of_many_clients_a_bounded_part_is_known() {
        let names = NewNames::new(limits(), &KnownNames::default(), &Notices::default());
        for number in 0..2 * MOST_CLIENTS as u32 {
            let client = number.to_be_bytes().into();
            assert_eq!(admitted(&names, client, 1, START), 1);
        }
        let limited = names.0.unwrap();
        let parts = limited.budgets.parts.iter();
        let clients = parts.map(|part| part.lock().as_ref().map_or(0, LruCache::len));
        assert!(clients.sum::<usize>() <= MOST_CLIENTS);
    }
}
