//! The live Corefile.

use runtime::{leader::Leader, shutdown::Tasks, store::OpenStore};
use tokio::sync::watch;

use super::Program;
use crate::corefile::live::{self, LiveView};

impl Program {
    /// Looks at the cluster's Corefile, and gives what is known of it; a folder has none.
    pub(super) fn corefile(
        &self,
        leader: &Leader,
        tasks: &mut Tasks,
    ) -> watch::Receiver<Option<LiveView>> {
        let (shown, view) = watch::channel(None);
        if let (OpenStore::Kube(store), Some(config)) = (&self.store, self.args.corefile.config()) {
            let task = live::run(
                config,
                store.cluster().clone(),
                leader.clone(),
                self.reporter.clone(),
                shown,
                tasks.token(),
            );
            tasks.spawn("corefile", task);
        }
        view
    }
}
