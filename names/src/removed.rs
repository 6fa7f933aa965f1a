//! The addresses removed lately. A status that still has them, such as a late watch event, must not
//! bring them back.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use proto::api::DnsName;
use proto::timestamp::Timestamp;

use super::name::Address;

/// How long a removal is remembered: longer than a stale watch event or a retried write takes.
const REMEMBER: Duration = Duration::from_secs(60);

/// The most removals remembered. Beyond it, those that no status has shown are forgotten, and then
/// the older half. At worst a stale status brings such an address back.
const MOST: usize = 8192;

#[derive(Clone, Debug, Default)]
pub(super) struct Removed(BTreeMap<(DnsName, IpAddr), Gone>);

#[derive(Clone, Copy, Debug)]
struct Gone {
    /// The time of its last answer: a later one is a new answer.
    looked_up: Timestamp,
    since: Timestamp,
    /// A status has shown the address, so a late one may show it again.
    shown: bool,
}

impl Removed {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn add(&mut self, dns_name: &DnsName, address: &Address, now: Timestamp) {
        if self.0.len() >= MOST {
            self.0.retain(|_, gone| gone.shown);
        }
        if self.0.len() >= MOST {
            self.forget_older_half();
        }
        let gone = Gone {
            looked_up: address.looked_up,
            since: now,
            shown: address.rendered > Timestamp::default(),
        };
        self.0.insert((dns_name.clone(), address.ip), gone);
    }

    /// Whether the address was removed, and this answer is not a new one.
    pub(super) fn has(&self, dns_name: &DnsName, ip: IpAddr, looked_up: Timestamp) -> bool {
        let gone = || self.0.get(&(dns_name.clone(), ip));
        !self.0.is_empty() && gone().is_some_and(|gone| looked_up <= gone.looked_up)
    }

    /// Forgets a removal after a new answer.
    pub(super) fn forgive(&mut self, dns_name: &DnsName, ip: IpAddr) {
        if !self.0.is_empty() {
            self.0.remove(&(dns_name.clone(), ip));
        }
    }

    /// Forgets removals that no late status can show any more.
    pub(super) fn forget(&mut self, now: Timestamp) {
        self.0.retain(|_, gone| gone.since + REMEMBER > now);
        if self.0.is_empty() {
            // An emptied map keeps its capacity.
            self.0 = BTreeMap::new();
        }
    }

    /// The clock was set: no removal is later than now.
    pub(super) fn gap(&mut self, now: Timestamp) {
        for gone in self.0.values_mut() {
            gone.since = gone.since.min(now);
        }
    }

    fn forget_older_half(&mut self) {
        let mut times: Vec<_> = self.0.values().map(|gone| gone.since).collect();
        let middle = times.len() / 2;
        if middle < times.len() {
            let (_, &mut median, _) = times.select_nth_unstable(middle);
            self.0.retain(|_, gone| gone.since > median);
        }
    }
}
