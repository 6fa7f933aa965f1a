//! The instances of a program in a cluster, by the addresses of their pods: the endpoints of their Services, ready or
//! not.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use runtime::{changes::send_if_changed, cluster::Cluster, store::ObjectKey};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::endpoints::{Discovery, Endpoints};

/// How long an address counts after its instance left. A DNS server reports its last queries up to a second later, and
/// their reader may lag behind.
const LINGER: Duration = Duration::from_secs(30);

/// Addresses of instances; never IPv4-mapped.
pub type Addresses = Arc<BTreeSet<IpAddr>>;

/// Finds the instances.
pub struct Peers {
    discovery: Discovery,
    /// The addresses of this instance.
    own: BTreeSet<IpAddr>,
    addresses: watch::Sender<Addresses>,
}

impl Peers {
    /// The instances behind these Services, and this one, which has the addresses `own`.
    pub fn of_services(
        cluster: &Cluster,
        services: &[ObjectKey],
        own: impl IntoIterator<Item = IpAddr>,
    ) -> Self {
        Self {
            discovery: Discovery::of_hosts(cluster, services),
            own: own.into_iter().map(|ip| ip.to_canonical()).collect(),
            addresses: watch::Sender::default(),
        }
    }

    /// The addresses of all instances. Those of an instance that left count for half a minute more.
    pub fn addresses(&self) -> watch::Receiver<Addresses> {
        self.addresses.subscribe()
    }

    /// Keeps the addresses up to date until the token is cancelled.
    ///
    /// # Errors
    /// None: errors are logged and retried.
    pub async fn run(self, token: CancellationToken) -> anyhow::Result<()> {
        let following = follow(self.discovery.found(), self.own, self.addresses);
        tokio::select! {
            ended = self.discovery.run(token.clone()) => ended,
            () = following => Ok(()),
        }
    }
}

/// Sends this instance, those that are listed and, for a while, those that left.
async fn follow(
    mut found: watch::Receiver<Option<Endpoints>>,
    own: BTreeSet<IpAddr>,
    addresses: watch::Sender<Addresses>,
) {
    let mut left: BTreeMap<IpAddr, Instant> = BTreeMap::new();
    let mut before = BTreeSet::new();
    loop {
        let now = Instant::now();
        if let Some(endpoints) = found.borrow_and_update().clone() {
            let listed = endpoints.keys().map(|address| address.ip().to_canonical());
            let listed: BTreeSet<IpAddr> = listed.collect();
            left.retain(|ip, until| *until > now && !listed.contains(ip));
            let gone = before.difference(&listed);
            left.extend(gone.map(|ip| (*ip, now + LINGER)));
            before = listed;
        }
        let all = before.iter().chain(left.keys()).chain(&own);
        send_if_changed(&addresses, Arc::new(all.copied().collect()));
        let next = left.values().min().copied();
        tokio::select! {
            changed = found.changed() => if changed.is_err() { return },
            () = sleep_until(next.unwrap_or(now)), if next.is_some() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::cluster::endpoints::Conditions;

    fn set(of: &[u8]) -> Addresses {
        let ips = of.iter().map(|last| IpAddr::from([10, 0, 0, *last]));
        Arc::new(ips.collect())
    }

    fn listed(of: &[u8]) -> Option<Endpoints> {
        let conditions = Conditions {
            ready: false,
            serving: false,
            terminating: true,
        };
        let all = set(of);
        let all = all.iter().map(|ip| (SocketAddr::new(*ip, 0), conditions));
        Some(Arc::new(all.collect()))
    }

    #[tokio::test(start_paused = true)]
    async fn an_instance_that_left_counts_for_a_while_and_this_one_always() {
        let (listing, found) = watch::channel(None);
        let addresses = watch::Sender::default();
        let mut seen = addresses.subscribe();
        let own = BTreeSet::clone(&set(&[9]));
        let following = tokio::spawn(follow(found, own, addresses));
        seen.changed().await.unwrap();
        assert_eq!(*seen.borrow_and_update(), set(&[9]));
        listing.send_replace(listed(&[1, 2]));
        seen.changed().await.unwrap();
        assert_eq!(*seen.borrow_and_update(), set(&[1, 2, 9]));
        let began = Instant::now();
        listing.send_replace(listed(&[2, 3]));
        seen.changed().await.unwrap();
        assert_eq!(*seen.borrow_and_update(), set(&[1, 2, 3, 9]));
        seen.changed().await.unwrap();
        assert_eq!(*seen.borrow_and_update(), set(&[2, 3, 9]));
        assert!(began.elapsed() >= LINGER);
        // An instance that comes back no longer expires.
        listing.send_replace(listed(&[2]));
        seen.changed().await.unwrap();
        listing.send_replace(listed(&[2, 3]));
        tokio::time::sleep(LINGER * 2).await;
        assert_eq!(*seen.borrow(), set(&[2, 3, 9]));
        drop(listing);
        following.await.unwrap();
    }
}
