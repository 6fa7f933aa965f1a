//! The other collectors, the lead, and the DNS servers that stream here.

use std::{collections::BTreeSet, env, net::SocketAddr};

use runtime::{
    OpenStore,
    changes::send_if_changed,
    leader::{Leader, Leadership},
    peers::Peers,
    shutdown::Tasks,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Program, follow, probes::Blocks};
use crate::{
    args::Args, flush::streams::Open, query_origin::OwnQueries, stream_coverage::StreamCoverage,
};

/// The pod's addresses, which its manifest sets (`status.podIPs`).
const POD_IPS: &str = "POD_IPS";

/// The other collectors of this store, and the record of this one's queries.
pub(super) fn peers(args: &Args, store: &OpenStore) -> (Peers, OwnQueries) {
    match store {
        OpenStore::Dir(store) => {
            let (peers, own) = Peers::of_folder(store, "collector");
            (peers, OwnQueries::from_loopback(own))
        }
        OpenStore::Kube(store) => {
            let own = env::var(POD_IPS).unwrap_or_default();
            let own = own.split(',').filter_map(|ip| ip.trim().parse().ok());
            let peers = Peers::of_services(store.cluster(), &args.lookups.peer_service, own);
            (peers, OwnQueries::default())
        }
    }
}

/// Takes part in the election of the leader.
pub(super) fn leader(
    program: &Program,
    peers: Peers,
    coverage: watch::Receiver<StreamCoverage>,
    tasks: &mut Tasks,
) -> Leader {
    let own = program.own.clone();
    let ask_from = move |others| own.others_ask_from(others);
    let following = follow(peers.asking(), tasks.token(), ask_from);
    tasks.spawn("other collectors' queries", following);
    tasks.spawn("other collectors", peers.run(tasks.token()));
    let namespace = &program.args.common.objects_namespace;
    let leadership = Leadership::of(&program.store, namespace, "collector");
    let leadership = leadership.compare(Box::new(move || coverage.borrow().streaming));
    let leader = leadership.leader();
    tasks.spawn("leadership", leadership.run(tasks.token()));
    leader
}

/// Which DNS servers stream to this collector.
pub(super) fn coverage(
    program: &Program,
    open: watch::Receiver<Open>,
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
    let task = follow_coverage(open, servers, blocks, all_stream, sender, tasks.token());
    tasks.spawn("stream coverage", task);
    coverage
}

async fn follow_coverage(
    mut open: watch::Receiver<Open>,
    mut servers: watch::Receiver<BTreeSet<SocketAddr>>,
    mut blocks: Blocks,
    all_stream: bool,
    coverage: watch::Sender<StreamCoverage>,
    token: CancellationToken,
) -> anyhow::Result<()> {
    loop {
        let now = StreamCoverage::new(
            &open.borrow_and_update(),
            &servers.borrow_and_update(),
            &blocks.borrow_and_update(),
            all_stream,
        );
        send_if_changed(&coverage, now);
        tokio::select! {
            () = token.cancelled() => return Ok(()),
            Ok(()) = open.changed() => {}
            Ok(()) = servers.changed() => {}
            Ok(()) = blocks.changed() => {}
        }
    }
}
