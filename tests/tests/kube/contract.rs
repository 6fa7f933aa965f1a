//! What every store must do.

use runtime::{
    cluster::Cluster,
    store::{contract::Subject, kube::KubeStore},
};
use tests::kube::ApiServer;

async fn subject() -> Subject<KubeStore> {
    let server = ApiServer::shared().await;
    let cluster = Cluster::of(server.config().await, "contract").unwrap();
    Subject {
        store: KubeStore::new(cluster),
        namespace: server.namespace().await,
        guard: Box::new(server),
    }
}

runtime::store_contract!(subject);
