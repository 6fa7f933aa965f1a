//! A store in a folder: `PATH/<namespace>/<plural kind>/<name>.yaml`, one object a file.
//!
//! People and programs may read and edit the files at any time.
//!
//! - An object is made by a file of its name, and deleted by deleting that file. `metadata.namespace` and
//!   `metadata.name` may be left out; if they are there, they must be what the path says. Only names that end in `.yaml`
//!   and do not begin with a dot are objects; those that end in `.yml` or `.json` are reported.
//! - The root, and the folder of the one namespace that is in scope, delete nothing when they vanish or cannot be read: the
//!   watch says [`Event::OutOfSync`] until they are back, empty or not, and until then nothing is made in them. `rm -r` of
//!   such a folder is no more than that, since its files and the folder go at the same time: delete the files. Nor is it a
//!   deletion that another folder takes its place: all that is there then is delivered as a whole, so that whoever follows
//!   can doubt it.
//! - Where every namespace is in scope, their folders may belong to tenants, and none holds up the others. A namespace that
//!   vanishes takes its objects with it, after the 100 ms of a file. If more than half of the namespaces that had objects
//!   are missing at one look, that is a mount that went away: the watch says [`Event::OutOfSync`]. The objects of a
//!   namespace that cannot be read (its mode, a link that leads nowhere, a file in the folder's place) are
//!   [`Event::Undecodable`]. If none of them is known, [`ObjectKey::all_in`] stands for them.
//! - A file that does not decode (half written, malformed, larger than 4 MiB, several documents, contradicting its
//!   place) is reported with its path and line, counted, and neither taken for a deletion nor ever overwritten. A file
//!   that is written in place is read when its writer closes it; one that vanishes counts as deleted after 100 ms, so
//!   that editors that write a new file may move the old one away first.
//! - The version is a hash of the content with the file's inode and time of birth; it is not stored, and a `resourceVersion` in a file means
//!   nothing. The uid is written when an object is made; a file that was made by hand has none unless it says one.
//! - Symbolic links are followed when reading (a mounted `ConfigMap` has them), but such an object is never written or
//!   deleted.
//! - A write holds `flock` on `PATH/.lock` over read, compare and rename, and waits at most 10 s for it. Writes that wait at
//!   the same time are carried out together, up to 64 with one lock. The files are synced before they are renamed, and
//!   their folders before anything is acknowledged: what was acknowledged survives a crash, of the machine too. What a
//!   killed process leaves behind is `.tmp0` to `.tmp63` in the folder of a kind, which nobody reads and later writes
//!   there replace. A status write keeps all else that the document says, but not its comments and layout.
//! - Notifications of the file system only say where to look; everything is looked at every 10 s besides, and again
//!   when notifications were lost.

mod fault;
mod file;
mod folder;
mod layout;
mod list;
mod lock;
mod manifest;
mod notifications;
mod objects;
mod watch;
mod writer;

use std::{
    collections::BTreeSet,
    fs, io,
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::Stream;
use tokio::{task::spawn_blocking, time::sleep_until};

pub(crate) use self::lock::Lock;
use self::{
    folder::Folder,
    notifications::Notifications,
    watch::Watch,
    writer::{Batch, Writer},
};
use super::{BadObjects, Event, Kind, ObjectKey, Precondition, Scope, Store, StoreError};

/// How long a write waits for other processes.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// A store in a folder. Clones share it.
#[derive(Clone)]
pub struct DirStore {
    folder: Arc<Folder>,
    writer: Writer,
}

/// Why a folder cannot be a store.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the folder {path} of the store")]
pub struct OpenError {
    /// As it was given.
    pub path: PathBuf,
    /// Why: it cannot be read, or is something else.
    pub source: io::Error,
}

impl DirStore {
    /// Opens the store in a folder, which must exist.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let failed = |source| OpenError {
            path: path.to_owned(),
            source,
        };
        fs::read_dir(path).map_err(failed)?;
        let root = std::path::absolute(path).map_err(failed)?;
        Self::start(Folder::new(root, LOCK_TIMEOUT)).map_err(failed)
    }

    fn start(folder: Folder) -> io::Result<Self> {
        let folder = Arc::new(folder);
        Ok(Self {
            writer: Writer::start(Arc::clone(&folder))?,
            folder,
        })
    }

    /// Files that a watch cannot read.
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
        let (folder, key) = (Arc::clone(&self.folder), key.clone());
        blocking(move || folder.get(&key)).await
    }

    async fn create<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        let (key, object) = (ObjectKey::of(object), object.clone());
        let create = move |batch: &Batch| batch.folder.create(batch, &object);
        self.writer.write::<K, _>("create", key, create).await
    }

    async fn delete<K: Kind>(
        &self,
        key: &ObjectKey,
        precondition: &Precondition,
    ) -> Result<(), StoreError> {
        let (of, precondition) = (key.clone(), precondition.clone());
        let delete = move |batch: &Batch| batch.folder.delete::<K>(batch, &of, &precondition);
        self.writer
            .write::<K, _>("delete", key.clone(), delete)
            .await
    }

    async fn replace_status<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        let (key, object) = (ObjectKey::of(object), object.clone());
        let replace = move |batch: &Batch| batch.folder.replace_status(batch, &object);
        self.writer
            .write::<K, _>("replace_status", key, replace)
            .await
    }
}

/// What a watch sees, without end.
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
                // The program is ending.
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
