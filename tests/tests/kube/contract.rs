//! The requirements for every store.

use runtime::{cluster::KubeStore, store::contract::Subject};
use tests::kube::ApiServer;

use crate::cluster::store;

async fn subject() -> Subject<KubeStore> {
    let server = ApiServer::shared().await;
    Subject {
        store: store(&server).await,
        namespace: server.namespace().await,
        guard: Box::new(server),
    }
}

runtime::store_contract!(subject);
