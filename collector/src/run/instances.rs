//! The other collectors, the lead, and the DNS servers that stream here.

use std::{
    collections::BTreeSet,
    env,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use runtime::{
    OpenStore,
    changes::send_if_changed,
    cluster_cidrs::Networks,
    leader::{Leader, Leadership},
    peers::Peers,
    shutdown::Tasks,
};
use tokio::{sync::watch, time::sleep};

use super::{Program, probes::Blocks};
use crate::{
    flush::coverage::{RecentCoverage, StreamCoverage},
    listen::ConnectionTable,
};

/// The pod's addresses, which its manifest sets (`status.podIPs`).
const POD_IPS: &str = "POD_IPS";

/// The interval of counting the DNS servers that stream.
const COUNT: Duration = Duration::from_secs(1);

/// Keeps the source addresses of all collectors' queries. Never a Node's address, which other pods
/// have too.
pub(super) fn own_queries(
    program: &Program,
    networks: &watch::Receiver<Option<Arc<Networks>>>,
    tasks: &mut Tasks,
) {
    let OpenStore::Kube(store) = &program.store else {
        return;
    };
    let own = env::var(POD_IPS).unwrap_or_default();
    let own = own.split(',').filter_map(|ip| ip.trim().parse().ok());
    let services = &program.args.lookups.peer_service;
    let peers = Peers::of_services(store.cluster(), services, own);
    let (own, mut found) = (program.own.clone(), peers.addresses());
    tasks.spawn("collectors", peers.run(tasks.token()));
    let (mut networks, token) = (networks.clone(), tasks.token());
    tasks.spawn("own queries", async move {
        loop {
            let known = networks.borrow_and_update().clone();
            let is_node = |ip: &IpAddr| {
                let known = known.as_ref();
                known.is_some_and(|known| known.is_node(*ip) == Some(true))
            };
            let all = found.borrow_and_update().clone();
            let own_addresses = all.iter().filter(|ip| !is_node(ip)).copied();
            own.set(Arc::new(own_addresses.collect()));
            tokio::select! {
                () = token.cancelled() => return Ok(()),
                Ok(()) = networks.changed() => {}
                Ok(()) = found.changed() => {}
            }
        }
    });
}

/// Takes part in the election of the leader.
pub(super) fn leader(
    program: &Program,
    coverage: watch::Receiver<StreamCoverage>,
    tasks: &mut Tasks,
) -> Leader {
    let namespace = &program.args.objects_namespace;
    let leadership = Leadership::of(&program.store, namespace, "collector");
    let leadership = leadership.compare(Box::new(move || coverage.borrow().streaming));
    let leader = leadership.leader();
    tasks.spawn("leadership", leadership.run(tasks.token()));
    leader
}

/// Which DNS servers stream to this collector.
pub(super) fn coverage(
    program: &Program,
    connections: ConnectionTable,
    blocks: Blocks,
    servers: watch::Receiver<BTreeSet<SocketAddr>>,
    tasks: &mut Tasks,
) -> watch::Receiver<StreamCoverage> {
    let (sender, coverage) = watch::channel(StreamCoverage::default());
    if program.args.listen.listen.is_empty() {
        return coverage;
    }
    // A server that a flag names may not stream.
    let all_stream = matches!(program.store, OpenStore::Kube(_));
    let token = tasks.token();
    tasks.spawn("stream coverage", async move {
        let mut recent = RecentCoverage::default();
        loop {
            let peers = connections.known_addresses();
            let now = StreamCoverage::new(&peers, &servers.borrow(), &blocks.borrow(), all_stream);
            send_if_changed(&sender, recent.add(now));
            tokio::select! {
                () = token.cancelled() => return Ok(()),
                () = sleep(COUNT) => {}
            }
        }
    });
    coverage
}
