//! An ovn-writer on a cluster, and a northbound database with rules for its names.

use std::{path::Path, time::Duration};

use tests::{northbound::Northbound, programs::Program, workdir::Workdir};

/// Enough for thousands of objects.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// A database with rules. Fields are in the order in which they are dropped.
pub(crate) struct Ruled {
    pub(crate) northbound: Northbound,
    pub(crate) workdir: Workdir,
}

impl Ruled {
    /// Starts a database with a rule for each name.
    pub(crate) async fn start(names: &[String]) -> Self {
        let workdir = Workdir::new();
        let northbound = Northbound::start(workdir.path()).await;
        northbound.create_acls(names, false);
        Self {
            northbound,
            workdir,
        }
    }

    pub(crate) async fn writer(
        &self,
        kubeconfig: &Path,
        namespace: &str,
        more: &[&str],
    ) -> Program {
        let remote = self.northbound.remote();
        let args = [
            "--store",
            "kube",
            "--objects-namespace",
            namespace,
            "--nb",
            &remote,
        ];
        let args = args
            .iter()
            .chain(more)
            .map(|arg| (*arg).to_owned())
            .collect();
        let environment = vec![("KUBECONFIG", kubeconfig.display().to_string())];
        Program::start_with(self.workdir.path(), "ovn-writer", args, environment).await
    }
}
