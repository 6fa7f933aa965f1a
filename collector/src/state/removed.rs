//! The addresses that were taken away of late: a status that still shows them, as a late watch event does, does not bring
//! them back.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::name::Address;

/// For how long that is remembered: longer than a stale watch event or a retried write takes.
const REMEMBER: Duration = Duration::from_secs(60);

/// How many are remembered at once. Beyond it those are forgotten that no status has shown, and if they are too few the older
/// half. At worst such an address comes back with a stale status.
const MOST: usize = 8192;

#[derive(Clone, Debug, Default)]
pub(super) struct Removed(BTreeMap<(DnsName, IpAddr), Gone>);

#[derive(Clone, Copy, Debug)]
struct Gone {
    why: Why,
    /// The expiry that it had: a later one is news.
    expiry: Timestamp,
    since: Timestamp,
    /// A status has shown it, so that a late one may.
    shown: bool,
}

/// Why an address was taken away.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Why {
    /// Its time was over.
    Expired,
    /// There was no room for it. It may come back once there is.
    Evicted,
}

impl Removed {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The address has gone just now.
    pub(super) fn add(&mut self, dns_name: &DnsName, address: &Address, why: Why, now: Timestamp) {
        if self.0.len() >= MOST {
            self.0.retain(|_, gone| gone.shown);
        }
        if self.0.len() >= MOST {
            self.forget_older_half();
        }
        let gone = Gone {
            why,
            expiry: address.expiry(),
            since: now,
            shown: address.rendered > Timestamp::default(),
        };
        self.0.insert((dns_name.clone(), address.ip), gone);
    }

    /// Why the address was taken away, if what is said of it now is no news since.
    pub(super) fn why(&self, dns_name: &DnsName, ip: IpAddr, expiry: Timestamp) -> Option<Why> {
        if self.0.is_empty() {
            return None;
        }
        let gone = self.0.get(&(dns_name.clone(), ip))?;
        (expiry <= gone.expiry).then_some(gone.why)
    }

    /// It has come back.
    pub(super) fn forgive(&mut self, dns_name: &DnsName, ip: IpAddr) {
        if !self.0.is_empty() {
            self.0.remove(&(dns_name.clone(), ip));
        }
    }

    /// Forgets those that no late status can show any more.
    pub(super) fn forget(&mut self, now: Timestamp) {
        self.0.retain(|_, gone| gone.since + REMEMBER > now);
        if self.0.is_empty() {
            // An emptied one keeps its room.
            self.0 = BTreeMap::new();
        }
    }

    /// The clock was set: nothing went later than now.
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
