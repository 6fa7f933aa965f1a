//! The watches beside those of the objects: Corefiles, pods and Namespaces.

use std::sync::Arc;

use runtime::{OpenStore, cluster_cidrs::Networks, leader::Leader, shutdown::Tasks};
use tokio::sync::{mpsc, watch};

use super::{Found, Program};
use crate::{
    corefile::live::{self, LiveView},
    lookup::{AuxiliaryServers, CONCURRENCY, LookupResult, Servers},
    namespaces,
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

    /// Watches pods that bypass the cluster's DNS; `trusted` gets their trusted servers.
    pub(super) fn pods(
        &self,
        overview: &watch::Receiver<BySource<Arc<Overview>>>,
        endpoints: &Option<Found>,
        networks: &watch::Receiver<Option<Arc<Networks>>>,
        leader: &Leader,
        trusted: watch::Sender<Servers>,
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
            trusted,
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

    /// Follows the quotas by annotations; a folder has no Namespaces.
    pub(super) fn namespaces(&self, tasks: &mut Tasks) {
        let OpenStore::Kube(store) = &self.store else {
            return;
        };
        let outputs = namespaces::task::Outputs {
            quotas: self.shared.quotas.clone(),
            clients: self.shared.clients.clone(),
            reporter: self.reporter.clone(),
        };
        let events = store.cluster().watch_all();
        let rules = self.args.name_limits.quota_rules();
        tasks.spawn(
            "namespaces",
            namespaces::run(rules, events, outputs, tasks.token()),
        );
    }

    /// The additional servers, if any are allowed, and their results.
    pub(super) fn beside(
        &self,
    ) -> (
        watch::Sender<Servers>,
        Option<AuxiliaryServers>,
        mpsc::Receiver<LookupResult>,
    ) {
        let (trusted, servers) = watch::channel(Servers::default());
        let (rounds, said) = mpsc::channel(CONCURRENCY);
        let may_be = !self.args.lookups.trusted_nameserver.is_empty();
        (
            trusted,
            may_be.then_some(AuxiliaryServers { servers, rounds }),
            said,
        )
    }
}
