//! The other instances of a program that share a store, by the source addresses of their DNS queries.
//!
//! In a cluster they are the endpoints of their Services, ready or not. With a folder they are on this host. There,
//! each instance takes a loopback address, and keeps a locked file of that name in `PATH/.NAME-peers`.

mod folder;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use self::folder::Folder;
use crate::{
    changes::send_if_changed,
    cluster::Cluster,
    endpoints::{Discovery, Endpoints},
    store::{ObjectKey, dir::DirStore},
};

/// How long an address counts after its instance left. A DNS server reports its last queries up to a second later, and
/// their reader may lag behind.
const LINGER: Duration = Duration::from_secs(30);

/// Addresses of the other instances; never IPv4-mapped.
pub type Addresses = Arc<BTreeSet<IpAddr>>;

/// Finds the other instances.
pub struct Peers {
    source: PeerSource,
    /// The addresses of this instance.
    own: BTreeSet<IpAddr>,
    asking: watch::Sender<Addresses>,
    alive: watch::Sender<Option<Addresses>>,
}

enum PeerSource {
    Services(Discovery),
    Folder(Folder),
}

impl Peers {
    fn new(source: PeerSource, own: BTreeSet<IpAddr>) -> Self {
        Self {
            source,
            own,
            asking: watch::Sender::default(),
            alive: watch::Sender::default(),
        }
    }

    /// The instances behind these Services, without this one, which has the addresses `own`.
    pub fn of_services(
        cluster: &Cluster,
        services: &[ObjectKey],
        own: impl IntoIterator<Item = IpAddr>,
    ) -> Self {
        let own = own.into_iter().map(|ip| ip.to_canonical()).collect();
        let discovery = Discovery::of_hosts(cluster, services);
        Self::new(PeerSource::Services(discovery), own)
    }

    /// The instances of the program `name` that share this folder. Takes a loopback address as this instance's source
    /// address, if one is available.
    ///
    /// # Errors
    /// None: without such an address the other instances take this one for a client, and the log says so.
    pub fn of_folder(store: &DirStore, name: &str) -> (Self, Option<Ipv4Addr>) {
        let folder = Folder::join(store.path(), name);
        let own = folder.own();
        let addresses = own.into_iter().map(IpAddr::V4).collect();
        (Self::new(PeerSource::Folder(folder), addresses), own)
    }

    /// The source addresses of the other instances' queries. An instance that left counts for half a minute more.
    pub fn asking(&self) -> watch::Receiver<Addresses> {
        self.asking.subscribe()
    }

    /// The running other instances; `None` until they are known.
    pub fn alive(&self) -> watch::Receiver<Option<Addresses>> {
        self.alive.subscribe()
    }

    /// Keeps all of these up to date until the token is cancelled.
    ///
    /// # Errors
    /// None: errors are logged and retried.
    pub async fn run(self, token: CancellationToken) -> anyhow::Result<()> {
        let Self {
            source,
            own,
            asking,
            alive,
        } = self;
        let following = follow(alive.subscribe(), asking);
        let finding = async {
            match source {
                PeerSource::Services(discovery) => {
                    let mut found = discovery.found();
                    let pass_on = async {
                        while found.changed().await.is_ok() {
                            let endpoints = found.borrow_and_update().clone();
                            alive.send_replace(endpoints.map(|it| others(&it, &own)));
                        }
                    };
                    tokio::join!(discovery.run(token.clone()), pass_on).0
                }
                PeerSource::Folder(folder) => folder.watch(&alive).await,
            }
        };
        tokio::select! {
            () = token.cancelled() => Ok(()),
            () = following => Ok(()),
            ended = finding => ended,
        }
    }
}

fn others(endpoints: &Endpoints, own: &BTreeSet<IpAddr>) -> Addresses {
    let all = endpoints.keys().map(|address| address.ip().to_canonical());
    Arc::new(all.filter(|ip| !own.contains(ip)).collect())
}

/// Sends the running instances and, for a while, those that left.
async fn follow(mut alive: watch::Receiver<Option<Addresses>>, asking: watch::Sender<Addresses>) {
    let mut left: BTreeMap<IpAddr, Instant> = BTreeMap::new();
    let mut before = Addresses::default();
    loop {
        let now = Instant::now();
        if let Some(alive) = alive.borrow_and_update().clone() {
            left.retain(|ip, until| *until > now && !alive.contains(ip));
            let gone = before.difference(&alive);
            left.extend(gone.map(|ip| (*ip, now + LINGER)));
            before = alive;
        }
        let all: BTreeSet<IpAddr> = before.iter().chain(left.keys()).copied().collect();
        send_if_changed(&asking, Arc::new(all));
        let next = left.values().min().copied();
        tokio::select! {
            changed = alive.changed() => if changed.is_err() { return },
            () = sleep_until(next.unwrap_or(now)), if next.is_some() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn set(of: &[u8]) -> Addresses {
        Arc::new(of.iter().map(|last| ip(*last)).collect())
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_left_counts_for_a_while_as_one_that_may_have_asked() {
        let (alive, seen) = watch::channel(None);
        let asking = watch::Sender::default();
        let mut told = asking.subscribe();
        let following = tokio::spawn(follow(seen, asking));
        alive.send_replace(Some(set(&[1, 2])));
        told.changed().await.unwrap();
        assert_eq!(*told.borrow_and_update(), set(&[1, 2]));
        let began = Instant::now();
        alive.send_replace(Some(set(&[2, 3])));
        told.changed().await.unwrap();
        assert_eq!(*told.borrow_and_update(), set(&[1, 2, 3]));
        told.changed().await.unwrap();
        assert_eq!(*told.borrow_and_update(), set(&[2, 3]));
        assert!(began.elapsed() >= LINGER);
        // An instance that comes back no longer expires.
        alive.send_replace(Some(set(&[2])));
        told.changed().await.unwrap();
        alive.send_replace(Some(set(&[2, 3])));
        tokio::time::sleep(LINGER * 2).await;
        assert_eq!(*told.borrow(), set(&[2, 3]));
        drop(alive);
        following.await.unwrap();
    }

    #[test]
    fn this_instance_is_none_of_the_others() {
        let of = |last| std::net::SocketAddr::new(ip(last), 0);
        let conditions = crate::endpoints::Conditions {
            ready: false,
            serving: false,
            terminating: true,
        };
        let endpoints = [1, 2].map(|last| (of(last), conditions));
        let endpoints: Endpoints = Arc::new(endpoints.into_iter().collect());
        assert_eq!(others(&endpoints, &[ip(1)].into()), set(&[2]));
    }
}
