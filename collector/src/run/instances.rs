//! The other collectors, and the lead.

use std::{collections::BTreeSet, env, net::IpAddr, sync::Arc};

use runtime::{
    OpenStore,
    leader::{Leader, Leadership},
    shutdown::Tasks,
};
use tokio::sync::watch;

use super::Program;
use crate::{
    cluster::{instances, networks::Networks},
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
        let own: BTreeSet<IpAddr> = own.map(|ip: IpAddr| ip.to_canonical()).collect();
        let following = instances::run(
            store.cluster().clone(),
            self.args.lookups.peer_service.clone(),
            own,
            self.own.clone(),
            networks.clone(),
            tasks.token(),
        );
        tasks.spawn("collectors", following);
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
