//! The watches beside those of the objects: Corefiles, pods and Namespaces.

use std::sync::Arc;

use runtime::{OpenStore, cluster_cidrs::Networks, leader::Leader, shutdown::Tasks};
use tokio::sync::watch;

use super::{Found, Program};
use crate::{
    corefile::live::{self, LiveView},
    lookup::Servers,
    pods::{self, PodsView},
    rules::{BySource, Overview},
};

/// The summary of the pods; `None` while another replica leads.
pub(super) type Pods = watch::Receiver<Option<Arc<PodsView>>>;

impl Program {
    /// Checks the cluster's Corefiles, and returns the state of each; a folder has none.
    pub(super) fn corefiles(
        &self,
        leader: &Leader,
        tasks: &mut Tasks,
    ) -> Vec<watch::Receiver<Option<LiveView>>> {
        let OpenStore::Kube(store) = &self.store else {
            return Vec::new();
        };
        let look = |config| {
            let (shown, view) = watch::channel(None);
            let task = live::run(
                config,
                store.cluster().clone(),
                leader.clone(),
                self.reporter.clone(),
                shown,
                tasks.token(),
            );
            tasks.spawn("corefile", task);
            view
        };
        self.args
            .corefile
            .configs(self.args.lookups.peer_service.len().max(1))
            .into_iter()
            .map(look)
            .collect()
    }

    /// Watches pods that bypass the cluster's DNS.
    pub(super) fn pods(
        &self,
        overview: &watch::Receiver<BySource<Arc<Overview>>>,
        endpoints: &Option<Found>,
        networks: &watch::Receiver<Option<Arc<Networks>>>,
        leader: &Leader,
        tasks: &mut Tasks,
    ) -> Pods {
        let (view, shown) = watch::channel(None);
        let store = match &self.store {
            OpenStore::Kube(store) if self.args.lookups.watch_pods => store,
            _ => return shown,
        };
        let config = pods::Config {
            services: self.args.lookups.resolver_service.clone(),
            trusted: self.args.lookups.trusted_nameserver.clone(),
        };
        let inputs = pods::Inputs {
            overview: overview.clone(),
            endpoints: endpoints.clone(),
            networks: networks.clone(),
            leader: leader.clone(),
        };
        let outputs = pods::Outputs {
            clients: self.shared.clients.clone(),
            view,
            trusted: watch::channel(Servers::default()).0,
            reporter: self.reporter.clone(),
        };
        let task = pods::run(
            config,
            store.cluster().clone(),
            inputs,
            outputs,
            tasks.token(),
        );
        tasks.spawn("pods", task);
        shown
    }
}
