//! The contract, and the statements of the module's documentation.

use std::{
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::PathBuf,
    pin::Pin,
    time::Duration,
};

use kube::ResourceExt;
use proto::api::DnsNameResolver;
use tempfile::TempDir;
use tokio::time::timeout;

use super::{file::MAX_SIZE, object::LOCK, *};
use crate::lock::Lock;
use crate::store::contract::{self, next, resolver, status};

const DEADLINE: Duration = Duration::from_secs(20);

async fn subject() -> contract::Subject<DirStore> {
    let Dir { dir, store } = Dir::new();
    contract::Subject {
        store,
        namespace: "ns".to_owned(),
        guard: Box::new(dir),
    }
}

mod concurrent;
mod elsewhere;
mod files;
mod processes;
mod watching;

mod holds_the_contract {
    use super::subject;

    crate::store_contract!(subject);
}

type Events = Pin<Box<dyn Stream<Item = Event<DnsNameResolver>> + Send>>;

struct Dir {
    dir: TempDir,
    store: DirStore,
}

impl Dir {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self {
            store: DirStore::open(dir.path()).unwrap(),
            dir,
        }
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("ns/dnsnameresolvers")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder().join(format!("{name}.yaml"))
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.folder()).unwrap();
        fs::write(self.file(name), text).unwrap();
    }

    fn watch(&self) -> Events {
        contract::watch(&self.store, Scope::All)
    }

    async fn get(&self, name: &str) -> Result<DnsNameResolver, StoreError> {
        self.store.get(&key(name)).await
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey {
        namespace: "ns".to_owned(),
        name: name.to_owned(),
    }
}

fn manifest(name: &str) -> String {
    format!(
        "apiVersion: network.openshift.io/v1alpha1\nkind: DNSNameResolver\nspec:\n  name: {name}\n"
    )
}

fn names(objects: &[DnsNameResolver]) -> Vec<String> {
    objects.iter().map(ResourceExt::name_any).collect()
}

async fn synced(watch: &mut Events) -> Vec<DnsNameResolver> {
    match next(watch).await {
        Event::Synced(objects) => objects,
        other => panic!("{other:?}"),
    }
}

async fn applied(watch: &mut Events) -> DnsNameResolver {
    match next(watch).await {
        Event::Applied(object) => object,
        other => panic!("{other:?}"),
    }
}
