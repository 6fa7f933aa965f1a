//! The instances of a program in a cluster, by the addresses of their pods: the endpoints of their Services, ready or
//! not.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use runtime::{cluster::Cluster, store::ObjectKey};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    endpoints::{Discovery, Endpoints},
    networks::Networks,
};
use crate::matching::query_origin::OwnQueries;

/// Keeps the source addresses of all collectors' queries: of this one, and those behind the Services. Never a Node's address,
/// which other pods have too.
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
    loop {
        let mut all = own.clone();
        if let Some(endpoints) = &*found.borrow_and_update() {
            all.extend(endpoints.keys().map(|address| address.ip().to_canonical()));
        }
        if let Some(known) = &*networks.borrow_and_update() {
            all.retain(|ip| known.is_node(*ip) != Some(true));
        }
        queries.set(Arc::new(all));
        tokio::select! {
            changed = found.changed() => if changed.is_err() { return },
            Ok(()) = networks.changed() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
    async fn listed_instances_and_this_one_count() {
        let (listing, found) = watch::channel(None);
        let (_networks, networks) = watch::channel(None);
        let queries = OwnQueries::default();
        let own = [address(9)].into();
        let following = tokio::spawn(follow(found, networks, own, queries.clone()));
        has(&queries, &[9]).await;
        listing.send_replace(listed(&["10.0.0.1:0", "10.0.0.2:0"], true));
        has(&queries, &[1, 2, 9]).await;
        listing.send_replace(listed(&["10.0.0.2:0", "10.0.0.3:0"], true));
        has(&queries, &[2, 3, 9]).await;
        drop(listing);
        following.await.unwrap();
    }
}
