//! Helpers of all tests of this program.

use runtime::{cluster::Cluster, cluster::KubeStore, store::ObjectKey};
use tests::kube::ApiServer;

/// A client of the administrator.
pub(crate) async fn admin(server: &ApiServer) -> Cluster {
    Cluster::of(server.config().await, "tests").unwrap()
}

pub(crate) async fn store(server: &ApiServer) -> KubeStore {
    KubeStore::new(admin(server).await)
}

pub(crate) fn key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}
