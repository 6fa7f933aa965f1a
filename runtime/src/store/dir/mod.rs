//! A store in a folder: `PATH/<namespace>/<plural kind>/<name>.yaml`, one object a file.
//!
//! People and programs may read and edit the files at any time.
//!
//! - An object is made by a file of its name, and deleted by deleting that file. `metadata.namespace` and
//!   `metadata.name` may be left out; if they are there, they must be what the path says. Only names that end in `.yaml`
//!   and do not begin with a dot are objects; those that end in `.yml` or `.json` are reported.
//! - A folder that had objects and vanishes (with its namespace, or with the store) deletes nothing: the watch says
//!   [`Event::OutOfSync`] until it is back, empty or not, and until then nothing is made in it. `rm -r` of a folder is
//!   no more than that, since its files and the folder go at the same time: delete the files.
//! - A file that does not decode (half written, malformed, larger than 4 MiB, several documents, contradicting its
//!   place) is reported with its path and line, counted, and neither taken for a deletion nor ever overwritten. A file
//!   that is written in place is read when its writer closes it; one that vanishes counts as deleted after 100 ms, so
//!   that editors that write a new file may move the old one away first.
//! - The version is a hash of the content with the inode; it is not stored, and a `resourceVersion` in a file means
//!   nothing. The uid is written when an object is made; a file that was made by hand has none unless it says one.
//! - Symbolic links are followed when reading (a mounted `ConfigMap` has them), but such an object is never written or
//!   deleted.
//! - A write holds `flock` on `PATH/.lock` over read, compare and rename, and waits at most 10 s for it. It syncs the
//!   file and its folders: what was acknowledged survives a crash. What a killed process leaves behind is `.tmp` in the
//!   folder of a kind, which nobody reads and the next write there replaces. A status write keeps all else that the
//!   document says, but not its comments and layout.
//! - Notifications of the file system only say where to look; everything is looked at every 10 s besides, and again
//!   when notifications were lost.

mod file;
mod hints;
mod layout;
mod lock;
mod manifest;
mod objects;
mod watch;

use std::{
    fs, io,
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::Stream;
use tokio::{sync::Mutex, task::spawn_blocking, time::sleep_until};

pub(crate) use self::lock::Lock;
use self::{objects::Folder, watch::Watch};
use super::{BadObjects, Event, Kind, ObjectKey, Precondition, Scope, Store, StoreError, metrics};

/// How long a write waits for other processes.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// A store in a folder. Clones share it.
#[derive(Clone)]
pub struct DirStore {
    folder: Arc<Folder>,
    /// Writes of this process take turns here, so that at most one thread waits for other processes.
    writer: Arc<Mutex<()>>,
}

/// Why a folder cannot be a store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It cannot be read.
    #[error("cannot open the folder {path} of the store")]
    Io {
        /// As it was given.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is something else.
    #[error("the store {0} is not a folder")]
    NotAFolder(PathBuf),
}

impl DirStore {
    /// Opens the store in a folder, which must exist.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let failed = |source| OpenError::Io {
            path: path.to_owned(),
            source,
        };
        if !fs::metadata(path).map_err(failed)?.is_dir() {
            return Err(OpenError::NotAFolder(path.to_owned()));
        }
        fs::read_dir(path).map_err(failed)?;
        let root = std::path::absolute(path).map_err(failed)?;
        Ok(Self {
            folder: Arc::new(Folder::new(root, LOCK_TIMEOUT)),
            writer: Arc::default(),
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

    async fn write<K: Kind, T: Send + 'static>(
        &self,
        operation: &'static str,
        write: impl FnOnce(&Folder) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let started = Instant::now();
        let folder = Arc::clone(&self.folder);
        // It goes along, so that a caller who gives up does not let the next one in too early.
        let turn = Arc::clone(&self.writer).lock_owned().await;
        let result = blocking(move || {
            let _turn = turn;
            write(&folder)
        })
        .await;
        metrics::write::<K, T>(operation, started.elapsed(), &result);
        result
    }
}

impl Store for DirStore {
    fn watch<K: Kind>(&self, scope: Scope) -> impl Stream<Item = Event<K>> + Send + 'static {
        events(Watch::new(Arc::clone(&self.folder), scope))
    }

    async fn get<K: Kind>(&self, key: &ObjectKey) -> Result<K, StoreError> {
        let (folder, key) = (Arc::clone(&self.folder), key.clone());
        blocking(move || folder.get(&key)).await
    }

    async fn create<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        let object = object.clone();
        self.write::<K, _>("create", move |folder| folder.create(&object))
            .await
    }

    async fn delete<K: Kind>(
        &self,
        key: &ObjectKey,
        precondition: &Precondition,
    ) -> Result<(), StoreError> {
        let (key, precondition) = (key.clone(), precondition.clone());
        self.write::<K, _>("delete", move |folder| {
            folder.delete::<K>(&key, &precondition)
        })
        .await
    }

    async fn replace_status<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        let object = object.clone();
        self.write::<K, _>("replace_status", move |folder| {
            folder.replace_status(&object)
        })
        .await
    }
}

/// What a watch sees, without end.
fn events<K: Kind>(mut watch: Watch<K>) -> impl Stream<Item = Event<K>> + Send + 'static {
    async_stream::stream! {
        let hints = Arc::clone(watch.hints());
        loop {
            let looked = spawn_blocking(move || {
                let events = watch.look();
                (watch, events)
            });
            let events = match looked.await {
                Ok((back, events)) => {
                    watch = back;
                    events
                }
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => resume_unwind(panic),
                    // The runtime is ending.
                    Err(_) => return,
                },
            };
            for event in events {
                yield event;
            }
            tokio::select! {
                () = hints.arrived() => {}
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
