//! The other collectors, and the lead.

use std::{env, net::IpAddr, sync::Arc};

use runtime::{
    OpenStore,
    leader::{Leader, Leadership},
    shutdown::Tasks,
};
use tokio::sync::watch;

use super::Program;
use crate::{
    cluster::{instances::Peers, networks::Networks},
    flush::coverage::StreamCoverage,
};

/// The pod's addresses, which its manifest sets (`status.podIPs`).
const POD_IPS: &str = "POD_IPS";

impl Program {
    /// Keeps the source addresses of all collectors' queries. Never a Node's address, which other pods
    /// have too.
    pub(super) fn own_queries(
        &self,
        networks: &watch::Receiver<Option<Arc<Networks>>>,
        tasks: &mut Tasks,
    ) {
        let OpenStore::Kube(store) = &self.store else {
            return;
        };
        let own = env::var(POD_IPS).unwrap_or_default();
        let own = own.split(',').filter_map(|ip| ip.trim().parse().ok());
        let services = &self.args.lookups.peer_service;
        let peers = Peers::of_services(store.cluster(), services, own);
        let (own, mut found) = (self.own.clone(), peers.addresses());
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
        &self,
        coverage: watch::Receiver<StreamCoverage>,
        tasks: &mut Tasks,
    ) -> Leader {
        let namespace = &self.args.objects_namespace;
        let leadership = Leadership::of(&self.store, namespace, "collector");
        let leadership = leadership.compare(Box::new(move || coverage.borrow().streaming));
        let leader = leadership.leader();
        tasks.spawn("leadership", leadership.run(tasks.token()));
        leader
    }
}
