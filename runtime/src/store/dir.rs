//! A store in a folder: `PATH/<namespace>/<plural kind>/<name>.yaml`, one object a file.
//!
//! People and programs may read and edit the files at any time.
//!
//! - A file is an object; deleting the file deletes the object. `metadata.namespace` and `metadata.name` are optional,
//!   but must match the path. Only names that end in `.yaml` and do not begin with a dot are objects. Names that end in
//!   `.yml` or `.json` are reported.
//! - If the root or the only folder in scope vanishes or cannot be read, nothing is deleted. The watch sends
//!   [`Event::OutOfSync`] until the folder is back, empty or not, and nothing is created in it until then. `rm -r` of
//!   such a folder is no deletion of its objects, because its files vanish together with it: delete the files instead.
//!   If another folder takes its place, the watch delivers the whole new content, so that consumers can doubt it.
//! - If all namespaces are in scope, their folders may belong to tenants, and none may block the others. A namespace
//!   that vanishes takes its objects with it, after 100 ms like a file. If more than half of the namespaces with
//!   objects are missing at once, a mount went away: the watch sends [`Event::OutOfSync`].
//! - The objects of an unreadable namespace are [`Event::Undecodable`]. Its cause may be its mode, a broken link, or a
//!   file in the folder's place. If none of its objects is known, [`ObjectKey::all_in`] stands for them.
//! - A file may fail to decode: half written, malformed, larger than 4 MiB, several documents, or contradicting its
//!   path. It is reported with its path and line, counted, and neither treated as deleted nor overwritten.
//! - A file that is written in place is read when its writer closes it. A file that vanishes counts as deleted after
//!   100 ms, so that editors may move the old file away before they write a new one.
//! - The version is a hash of the content with the file's inode and time of birth. It is not stored, and a
//!   `resourceVersion` in a file is ignored. The uid is written when an object is created; a file made by hand has none
//!   unless it contains one.
//! - Symbolic links are followed when reading, since a mounted `ConfigMap` has them. Such an object is never written or
//!   deleted.
//! - A write holds `flock` on `PATH/.lock` over compare and rename, and waits at most 10 s for it. 16 writes prepare
//!   their files at once.
//! - A file is synced before it is renamed, and its folder before the write is acknowledged. An acknowledged write
//!   survives a crash, also of the machine.
//! - A killed process leaves files `.tmp0` to `.tmp15` in the folder of a kind. They are never read, and later writes
//!   remove them. A status write keeps the rest of the document, but not its comments and layout.
//! - Notifications of the file system only say where to look. Every 10 s, and after lost notifications, everything is
//!   read.

mod fault;
mod file;
mod folder;
mod layout;
mod lock;
mod manifest;
mod notifications;
mod objects;
mod watch;

use std::{collections::BTreeSet, fs, panic::resume_unwind, path::Path, sync::Arc, time::Duration};

use anyhow::Context;
use futures_util::Stream;
use tokio::{sync::Semaphore, task::spawn_blocking, time::sleep_until};

pub(crate) use self::lock::Lock;
use self::{file::FileError, folder::Folder, notifications::Notifications, watch::Watch};
use super::{
    BadObjects, Event, Kind, ObjectKey, Precondition, Replace, Scope, Store, StoreError, metrics,
};

/// How long a write waits for other processes.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// How many writes are under way at once. They mostly wait for the disk, which handles many requests in parallel.
const WRITES: usize = 16;

/// A store in a folder. Clones share it.
#[derive(Clone)]
pub struct DirStore {
    folder: Arc<Folder>,
    turns: Arc<Semaphore>,
}

impl DirStore {
    /// Opens the store in a folder, which must exist.
    ///
    /// # Errors
    /// The folder cannot be read, or is something else.
    pub fn open(path: impl AsRef<Path>) -> anyhow::Result<Self> {
        let path = path.as_ref();
        let root = fs::read_dir(path).and_then(|_| std::path::absolute(path));
        let root = root
            .with_context(|| format!("cannot open the folder {} of the store", path.display()))?;
        Ok(Self::of(Folder::new(root, LOCK_TIMEOUT)))
    }

    fn of(folder: Folder) -> Self {
        Self {
            folder: Arc::new(folder),
            turns: Arc::new(Semaphore::new(WRITES)),
        }
    }

    /// The files that a watch could not read.
    pub fn bad_objects(&self) -> BadObjects {
        self.folder.bad_objects.clone()
    }

    /// The folder, as an absolute path.
    pub fn path(&self) -> &Path {
        &self.folder.root
    }
}

impl Store for DirStore {
    fn watch<K: Kind>(&self, scope: Scope) -> impl Stream<Item = Event<K>> + Send + 'static {
        events(Arc::clone(&self.folder), scope)
    }

    async fn list_keys<K: Kind>(&self, scope: &Scope) -> Result<BTreeSet<ObjectKey>, StoreError> {
        let (folder, scope) = (Arc::clone(&self.folder), scope.clone());
        let list = move || folder.list_keys::<K>(&scope);
        blocking(move || list().map_err(StoreError::unavailable)).await
    }

    async fn get<K: Kind>(&self, key: &ObjectKey) -> Result<K, StoreError> {
        self.run::<K, _>(key.clone(), Folder::get).await
    }

    async fn create<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        let (key, object) = (ObjectKey::of(object), object.clone());
        let create = move |folder: &Folder, _: &ObjectKey| folder.create(&object);
        self.write::<K, _>("create", key, create).await
    }

    async fn delete<K: Kind>(
        &self,
        key: &ObjectKey,
        precondition: &Precondition,
    ) -> Result<(), StoreError> {
        let precondition = precondition.clone();
        let delete = move |folder: &Folder, key: &ObjectKey| folder.delete::<K>(key, &precondition);
        self.write::<K, _>("delete", key.clone(), delete).await
    }

    async fn replace_status<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        let (key, object) = (ObjectKey::of(object), object.clone());
        let replace = move |folder: &Folder, _: &ObjectKey| folder.replace_status(&object);
        self.write::<K, _>("replace_status", key, replace).await
    }
}

impl Replace for DirStore {
    async fn replace<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        let (key, object) = (ObjectKey::of(object), object.clone());
        let replace = move |folder: &Folder, _: &ObjectKey| folder.replace(&object);
        self.write::<K, _>("replace", key, replace).await
    }
}

impl DirStore {
    /// Carries a write out when its turn comes.
    async fn write<K: Kind, T: Send + 'static>(
        &self,
        operation: &'static str,
        key: ObjectKey,
        write: impl FnOnce(&Folder, &ObjectKey) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let _turn = self.turns.acquire().await;
        metrics::timed::<K, T>(operation, self.run::<K, T>(key, write)).await
    }

    async fn run<K: Kind, T: Send + 'static>(
        &self,
        key: ObjectKey,
        work: impl FnOnce(&Folder, &ObjectKey) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let folder = Arc::clone(&self.folder);
        blocking(move || {
            let done = work(&folder, &key);
            done.map_err(|error| error.in_store(&folder.file_of::<K>(&key), &key))
        })
        .await
    }
}

/// The events of a watch, without end.
fn events<K: Kind>(
    folder: Arc<Folder>,
    scope: Scope,
) -> impl Stream<Item = Event<K>> + Send + 'static {
    async_stream::stream! {
        let notifications = Notifications::new(K::plural(&()).into_owned());
        let mut watch = Watch::<K>::new(folder, scope, notifications);
        loop {
            let looked = blocking(move || {
                let events = watch.look();
                Ok((watch, events))
            });
            let Ok((back, events)) = looked.await else {
                // The program ends.
                return;
            };
            watch = back;
            for event in events {
                yield event;
            }
            tokio::select! {
                () = watch.notifications.arrived() => {}
                () = sleep_until(watch.next_look().into()) => {}
            }
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => Err(StoreError::unavailable("the program is ending".to_owned())),
        },
    }
}

#[cfg(test)]
mod tests;
