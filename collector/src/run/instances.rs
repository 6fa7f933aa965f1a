//! The other collectors, which of them leads, and how well this one hears.

use std::{collections::BTreeSet, env, net::SocketAddr};

use runtime::{
    changes::send_if_changed,
    leader::{Leader, Leadership},
    peers::Peers,
    shutdown::Tasks,
    store::OpenStore,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Program, follow, probes::Probing};
use crate::{
    args::Args,
    hearing::{Hearing, Signs, Tracker},
    resolve::OwnQueries,
};

/// The pod's addresses, as its manifest passes them on (`status.podIPs`).
const POD_IPS: &str = "POD_IPS";

/// The other collectors of this store, and this one's queries.
pub(super) fn peers(args: &Args, store: &OpenStore) -> (Peers, OwnQueries) {
    match store {
        OpenStore::Dir(store) => {
            let (peers, own) = Peers::of_folder(store, "collector");
            (peers, OwnQueries::from_loopback(own))
        }
        OpenStore::Kube(store) => {
            let own = env::var(POD_IPS).unwrap_or_default();
            let own = own.split(',').filter_map(|ip| ip.trim().parse().ok());
            let peers = Peers::of_services(store.cluster(), &args.peer_service, own);
            (peers, OwnQueries::default())
        }
    }
}

impl Program {
    /// Contends for the lead. A collector that hears nothing leaves it to the others.
    pub(super) fn leader(
        &self,
        peers: Peers,
        hearing: watch::Receiver<Hearing>,
        tasks: &mut Tasks,
    ) -> Leader {
        let own = self.own.clone();
        let ask_from = move |others| own.others_ask_from(others);
        let following = follow(peers.asking(), tasks.token(), ask_from);
        tasks.spawn("other collectors' queries", following);
        let (prefers, prefers_others) = watch::channel(false);
        let preferring = prefer(hearing, peers.alive(), prefers, tasks.token());
        tasks.spawn("preference of leaders", preferring);
        tasks.spawn("other collectors", peers.run(tasks.token()));
        let namespace = &self.args.common.objects_namespace;
        let leadership = Leadership::of(&self.store, namespace, "collector");
        let leadership = leadership.prefer_others(prefers_others);
        let leader = leadership.leader();
        tasks.spawn("leadership", leadership.run(tasks.token()));
        leader
    }

    /// How well the DNS servers are heard.
    pub(super) fn hearing(
        &self,
        probing: &Probing,
        servers: watch::Receiver<BTreeSet<SocketAddr>>,
        tasks: &mut Tasks,
    ) -> watch::Receiver<Hearing> {
        let (sender, hearing) = watch::channel(Hearing::default());
        if self.args.listen.listen.is_empty() {
            return hearing;
        }
        // Of the servers that a flag names, some may not stream.
        let tracker = Tracker::new(matches!(self.store, OpenStore::Kube(_)));
        let task = hear(
            tracker,
            (probing.open.clone(), servers, probing.blocks.clone()),
            sender,
            tasks.token(),
        );
        tasks.spawn("hearing", task);
        hearing
    }
}

type Heard = (
    watch::Receiver<crate::flush::streams::Open>,
    watch::Receiver<BTreeSet<SocketAddr>>,
    super::probes::Blocks,
);

async fn hear(
    mut tracker: Tracker,
    (mut open, mut servers, mut blocks): Heard,
    hearing: watch::Sender<Hearing>,
    token: CancellationToken,
) -> anyhow::Result<()> {
    loop {
        let now = tracker.look(Signs {
            open: &open.borrow_and_update(),
            servers: &servers.borrow_and_update(),
            blocks: &blocks.borrow_and_update(),
        });
        send_if_changed(&hearing, now);
        tokio::select! {
            () = token.cancelled() => return Ok(()),
            Ok(()) = open.changed() => {}
            Ok(()) = servers.changed() => {}
            Ok(()) = blocks.changed() => {}
        }
    }
}

/// While this collector hears nothing, and there may be another one, that is to lead.
async fn prefer(
    mut hearing: watch::Receiver<Hearing>,
    mut alive: watch::Receiver<Option<runtime::peers::Addresses>>,
    prefers: watch::Sender<bool>,
    token: CancellationToken,
) -> anyhow::Result<()> {
    loop {
        let is_alone = |others: &runtime::peers::Addresses| others.is_empty();
        let is_alone = alive.borrow_and_update().as_ref().is_some_and(is_alone);
        let now = hearing.borrow_and_update().is_deaf && !is_alone;
        send_if_changed(&prefers, now);
        tokio::select! {
            () = token.cancelled() => return Ok(()),
            Ok(()) = hearing.changed() => {}
            Ok(()) = alive.changed() => {}
            else => {
                // Both are as they stay.
                token.cancelled().await;
                return Ok(());
            }
        }
    }
}
