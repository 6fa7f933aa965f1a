//! The instances of a program in a cluster, by the addresses of their pods: the endpoints of their Services, ready or
//! not.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use runtime::{cluster::Cluster, store::ObjectKey};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    endpoints::{Discovery, Endpoints},
    networks::Networks,
};
use crate::matching::query_origin::OwnQueries;

/// How long an address counts after its instance left. A DNS server reports its last queries up to a second later, and
/// their reader may lag behind.
const LINGER: Duration = Duration::from_secs(30);

/// Keeps the source addresses of all collectors' queries: of this one, those behind the Services and, for a while, those that left. Never
/// a Node's address, which other pods have too.
///
/// # Errors
/// None: errors are logged and retried.
pub async fn run(
    cluster: Cluster,
    services: Vec<ObjectKey>,
    own: BTreeSet<IpAddr>,
    queries: OwnQueries,
    networks: watch::Receiver<Option<Arc<Networks>>>,
    token: CancellationToken,
) -> anyhow::Result<()> {
    let discovery = Discovery::of_hosts(&cluster, &services);
    let following = follow(discovery.found(), networks, own, queries);
    tokio::select! {
        ended = discovery.run(token.clone()) => ended,
        () = following => Ok(()),
    }
}

async fn follow(
    mut found: watch::Receiver<Option<Endpoints>>,
    mut networks: watch::Receiver<Option<Arc<Networks>>>,
    own: BTreeSet<IpAddr>,
    queries: OwnQueries,
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
        let known = networks.borrow_and_update().clone();
        let is_node = |ip: &IpAddr| {
            known
                .as_ref()
                .is_some_and(|it| it.is_node(*ip) == Some(true))
        };
        let all = before.iter().chain(left.keys()).chain(&own);
        queries.set(Arc::new(all.filter(|ip| !is_node(ip)).copied().collect()));
        let next = left.values().min().copied();
        tokio::select! {
            changed = found.changed() => if changed.is_err() { return },
            Ok(()) = networks.changed() => {}
            () = sleep_until(next.unwrap_or(now)), if next.is_some() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::endpoints::tests::listed;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    async fn has(queries: &OwnQueries, expected: &[u8]) {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let known = (1..10).filter(|last| queries.contains(address(*last)));
        assert_eq!(known.collect::<Vec<_>>(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn an_instance_that_left_counts_for_a_while_and_this_one_always() {
        let (listing, found) = watch::channel(None);
        let (_networks, networks) = watch::channel(None);
        let queries = OwnQueries::default();
        let own = [address(9)].into();
        let following = tokio::spawn(follow(found, networks, own, queries.clone()));
        has(&queries, &[9]).await;
        listing.send_replace(listed(&["10.0.0.1:0", "10.0.0.2:0"], true));
        has(&queries, &[1, 2, 9]).await;
        listing.send_replace(listed(&["10.0.0.2:0", "10.0.0.3:0"], true));
        has(&queries, &[1, 2, 3, 9]).await;
        tokio::time::sleep(LINGER).await;
        has(&queries, &[2, 3, 9]).await;
        // An instance that comes back no longer expires.
        listing.send_replace(listed(&["10.0.0.2:0"], true));
        has(&queries, &[2, 3, 9]).await;
        listing.send_replace(listed(&["10.0.0.2:0", "10.0.0.3:0"], true));
        tokio::time::sleep(LINGER * 2).await;
        has(&queries, &[2, 3, 9]).await;
        drop(listing);
        following.await.unwrap();
    }
}
