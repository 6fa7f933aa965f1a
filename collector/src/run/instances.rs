//! The other collectors, the lead, and the reception of DNS servers.

use std::{collections::BTreeSet, env, net::SocketAddr};

use runtime::{
    OpenStore,
    changes::send_if_changed,
    leader::{Leader, Leadership, Others},
    peers::{Addresses, Peers},
    shutdown::Tasks,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Program, follow, probes::Blocks};
use crate::{
    args::Args,
    flush::streams::Open,
    hearing::{Hearing, Tracker},
    query_origin::OwnQueries,
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

/// Takes part in the election of the leader. A collector that receives no DNS server leaves the
/// lead to the others.
pub(super) fn leader(
    program: &Program,
    peers: Peers,
    hearing: watch::Receiver<Hearing>,
    tasks: &mut Tasks,
) -> Leader {
    let own = program.own.clone();
    let ask_from = move |others| own.others_ask_from(others);
    let following = follow(peers.asking(), tasks.token(), ask_from);
    tasks.spawn("other collectors' queries", following);
    let (sender, others) = watch::channel(Others::NoBetter);
    let comparing = compare(hearing, peers.alive(), sender, tasks.token());
    tasks.spawn("preference of leaders", comparing);
    tasks.spawn("other collectors", peers.run(tasks.token()));
    let namespace = &program.args.common.objects_namespace;
    let leadership = Leadership::of(&program.store, namespace, "collector");
    let leadership = leadership.beside(others);
    let leader = leadership.leader();
    tasks.spawn("leadership", leadership.run(tasks.token()));
    leader
}

/// Which DNS servers are received.
pub(super) fn hearing(
    program: &Program,
    open: watch::Receiver<Open>,
    blocks: Blocks,
    servers: watch::Receiver<BTreeSet<SocketAddr>>,
    tasks: &mut Tasks,
) -> watch::Receiver<Hearing> {
    let (sender, hearing) = watch::channel(Hearing::default());
    if program.args.listen.listen.is_empty() {
        return hearing;
    }
    // A server that a flag names may not stream.
    let tracker = Tracker::new(matches!(program.store, OpenStore::Kube(_)));
    let task = hear(tracker, open, servers, blocks, sender, tasks.token());
    tasks.spawn("hearing", task);
    hearing
}

async fn hear(
    mut tracker: Tracker,
    mut open: watch::Receiver<Open>,
    mut servers: watch::Receiver<BTreeSet<SocketAddr>>,
    mut blocks: Blocks,
    hearing: watch::Sender<Hearing>,
    token: CancellationToken,
) -> anyhow::Result<()> {
    loop {
        let now = tracker.look(
            &open.borrow_and_update(),
            &servers.borrow_and_update(),
            &blocks.borrow_and_update(),
        );
        send_if_changed(&hearing, now);
        tokio::select! {
            () = token.cancelled() => return Ok(()),
            Ok(()) = open.changed() => {}
            Ok(()) = servers.changed() => {}
            Ok(()) = blocks.changed() => {}
        }
    }
}

/// Publishes how well this collector would lead, if there may be another.
async fn compare(
    mut hearing: watch::Receiver<Hearing>,
    mut alive: watch::Receiver<Option<Addresses>>,
    others: watch::Sender<Others>,
    token: CancellationToken,
) -> anyhow::Result<()> {
    loop {
        let is_alone = alive
            .borrow_and_update()
            .as_ref()
            .is_some_and(|others| others.is_empty());
        let hears = *hearing.borrow_and_update();
        let now = match is_alone {
            false if hears.is_deaf => Others::Better,
            false if hears.is_missing => Others::MayBeBetter,
            _ => Others::NoBetter,
        };
        send_if_changed(&others, now);
        tokio::select! {
            () = token.cancelled() => return Ok(()),
            Ok(()) = hearing.changed() => {}
            Ok(()) = alive.changed() => {}
            else => {
                // The preference is final.
                token.cancelled().await;
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[tokio::test]
    async fn who_hears_less_leaves_the_lead_to_another_if_there_may_be_one() {
        let (hearing, heard) = watch::channel(Hearing::default());
        let (alive, others_alive) = watch::channel(None);
        let (sender, mut others) = watch::channel(Others::NoBetter);
        let token = CancellationToken::new();
        let comparing = tokio::spawn(compare(heard, others_alive, sender, token.clone()));
        let deaf = Hearing {
            is_deaf: true,
            is_missing: true,
            is_broken: false,
        };
        let missing = Hearing {
            is_deaf: false,
            ..deaf
        };
        let another: BTreeSet<IpAddr> = [[10, 0, 0, 7].into()].into();
        let nobody = Some(Addresses::default());
        for (hears, is_alive, expected) in [
            (deaf, None, Others::Better),
            (missing, None, Others::MayBeBetter),
            (missing, nobody, Others::NoBetter),
            (missing, Some(another.into()), Others::MayBeBetter),
            (Hearing::default(), None, Others::NoBetter),
        ] {
            alive.send_replace(is_alive);
            hearing.send_replace(hears);
            others.wait_for(|it| *it == expected).await.unwrap();
        }
        token.cancel();
        comparing.await.unwrap().unwrap();
    }
}
