//! The store of `--store`.

use anyhow::Context;
use futures_util::{Stream, future::Either};

use crate::{
    args::StoreAddress,
    cluster::{Cluster, KubeStore},
    store::{
        BadObjects, Event, Kind, ObjectKey, Precondition, Scope, Store, StoreError, dir::DirStore,
    },
};

/// Either store. Leader election and Events depend on which it is.
#[derive(Clone)]
pub enum OpenStore {
    /// A folder.
    Dir(DirStore),
    /// A Kubernetes cluster.
    Kube(KubeStore),
}

impl OpenStore {
    /// Opens the store at an address. A folder must exist; the API server of a cluster may be away now. `manager` is
    /// the field manager of writes to a cluster.
    ///
    /// # Errors
    /// The folder cannot be read, or the configuration of the cluster cannot be used.
    /// [`UsageError`](crate::UsageError) if no cluster is configured.
    pub async fn open(address: &StoreAddress, manager: &'static str) -> anyhow::Result<Self> {
        Ok(match address {
            StoreAddress::Dir(path) => Self::Dir(DirStore::open(path)?),
            StoreAddress::Kube => {
                let cluster = Cluster::find(manager).await.context("--store kube")?;
                Self::Kube(KubeStore::new(cluster))
            }
        })
    }

    /// The objects that a watch could not decode.
    pub fn bad_objects(&self) -> BadObjects {
        match self {
            Self::Dir(store) => store.bad_objects(),
            Self::Kube(store) => store.cluster().bad_objects(),
        }
    }
}

impl Store for OpenStore {
    fn watch<K: Kind>(&self, scope: Scope) -> impl Stream<Item = Event<K>> + Send + 'static {
        match self {
            Self::Dir(store) => Either::Left(store.watch(scope)),
            Self::Kube(store) => Either::Right(store.watch(scope)),
        }
    }

    async fn get<K: Kind>(&self, key: &ObjectKey) -> Result<K, StoreError> {
        match self {
            Self::Dir(store) => store.get(key).await,
            Self::Kube(store) => store.get(key).await,
        }
    }

    async fn create<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        match self {
            Self::Dir(store) => store.create(object).await,
            Self::Kube(store) => store.create(object).await,
        }
    }

    async fn delete<K: Kind>(
        &self,
        key: &ObjectKey,
        precondition: &Precondition,
    ) -> Result<(), StoreError> {
        match self {
            Self::Dir(store) => store.delete::<K>(key, precondition).await,
            Self::Kube(store) => store.delete::<K>(key, precondition).await,
        }
    }

    async fn replace_status<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        match self {
            Self::Dir(store) => store.replace_status(object).await,
            Self::Kube(store) => store.replace_status(object).await,
        }
    }

    async fn replace<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        match self {
            Self::Dir(store) => store.replace(object).await,
            Self::Kube(store) => store.replace(object).await,
        }
    }
}
