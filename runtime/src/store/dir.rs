//! A store in a folder of manifests, which people may edit, too.
//!
//! - A manifest is a file `.yaml`, `.yml` or `.json` in the folder or at most two folders below it, as `kubectl apply -f`
//!   takes it: with several documents, a `List`, or what `kubectl get` printed. Names that begin with a dot are left out.
//! - `metadata` names an object. The object's own place is `PATH/<namespace>/<plural kind>/<name>.yaml`: there namespace and
//!   name may be left out, and must not contradict the path.
//! - Programs create and write objects in their own places only. Objects elsewhere are read.
//! - Of several manifests of an object the one in its own place counts, or else the first in order of paths. The others
//!   are reported.
//! - A watch of a kind parses the objects' own places, and other files that have the kind's name in their text.
//! - A document that does not decode is reported with its line. The last known object stays valid ([`Event::Undecodable`]),
//!   and no program overwrites or deletes it.
//! - An unknown field outside of the status is reported, and so is what the kind's [`Lint`] finds. The object is used
//!   nevertheless.
//! - A file that is renamed to its place is read at once. A file that is written in place is read when its writer closes
//!   it, or after a second without a write. The objects of a file that vanishes are deleted 100 ms later if it is still gone.
//! - inotify only says where to look. All files are listed when folders change, when notifications are lost, and every
//!   10 s, or every second without inotify. A list reads the files with another inode, size or time.
//! - While the root is gone or cannot be read, the watch sends [`Event::OutOfSync`]. So it does at its start while another folder
//!   cannot be read. Later the known objects of such a folder are [`Event::Undecodable`].
//! - Symbolic links are followed when reading; such an object is never written.
//! - A write syncs `.<name>.tmp`, renames it, and syncs the folder. It holds `flock` on `PATH/.lock` over compare and
//!   rename, and waits at most 10 s for it. A status write keeps the rest of the document, but not its comments.
//!
//! [`Lint`]: proto::api::Lint

mod document;
mod edit;
mod file;
mod folder;
mod manifest;
mod notifications;
mod object;
mod watch;

use std::{fs, io, path::Path, sync::Arc};

use anyhow::Context;
use futures_util::Stream;
use tokio::task::spawn_blocking;

use self::{folder::Folder, notifications::Notifications, watch::Watch};
use super::{
    BadObjects, Event, Kind, ObjectKey, Precondition, Scope, Store, StoreError, metrics, names,
};

/// A store in a folder. Clones share it.
#[derive(Clone)]
pub struct DirStore(Arc<Folder>);

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
        Ok(Self(Arc::new(Folder::new(root))))
    }

    /// The files that a watch could not read.
    pub fn bad_objects(&self) -> BadObjects {
        self.0.bad_objects.clone()
    }

    /// The folder, as an absolute path.
    pub fn path(&self) -> &Path {
        &self.0.root
    }
}

impl Store for DirStore {
    fn watch<K: Kind>(&self, scope: Scope) -> impl Stream<Item = Event<K>> + Send + 'static {
        let folder = Arc::clone(&self.0);
        async_stream::stream! {
            let mut watch = Watch::<K>::new(folder, scope, Notifications::new());
            loop {
                let reconcile = move || {
                    let events = watch.reconcile();
                    (watch, events)
                };
                let Ok((reconciled, events)) = spawn_blocking(reconcile).await else {
                    // The program ends.
                    return;
                };
                watch = reconciled;
                for event in events {
                    yield event;
                }
                watch.notifications.wait().await;
            }
        }
    }

    async fn get<K: Kind>(&self, key: &ObjectKey) -> Result<K, StoreError> {
        self.run::<K, _>(key.clone(), Folder::get).await
    }

    async fn create<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        let (key, object) = (ObjectKey::of(object), object.clone());
        let write = move |it: &Folder, _: &_| it.create(&object);
        self.write::<K, _>("create", key, write).await
    }

    async fn delete<K: Kind>(
        &self,
        key: &ObjectKey,
        precondition: &Precondition,
    ) -> Result<(), StoreError> {
        let precondition = precondition.clone();
        let write = move |it: &Folder, key: &_| it.delete::<K>(key, &precondition);
        self.write::<K, _>("delete", key.clone(), write).await
    }

    async fn replace_status<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        let (key, object) = (ObjectKey::of(object), object.clone());
        let write = move |it: &Folder, _: &_| it.rewrite(&object, edit::with_status);
        self.write::<K, _>("replace_status", key, write).await
    }

    async fn replace<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        let (key, object) = (ObjectKey::of(object), object.clone());
        let write = move |it: &Folder, _: &_| it.rewrite(&object, edit::with_content);
        self.write::<K, _>("replace", key, write).await
    }
}

impl DirStore {
    /// Carries a write out when it gets a permit.
    async fn write<K: Kind, T: Send + 'static>(
        &self,
        operation: &'static str,
        key: ObjectKey,
        write: impl FnOnce(&Folder, &ObjectKey) -> anyhow::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let _permit = self.0.permits.acquire().await;
        metrics::timed::<K, T>(operation, self.run::<K, T>(key, write)).await
    }

    async fn run<K: Kind, T: Send + 'static>(
        &self,
        key: ObjectKey,
        work: impl FnOnce(&Folder, &ObjectKey) -> anyhow::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let folder = Arc::clone(&self.0);
        let work = move || {
            let checked = names::check(&key).map_err(anyhow::Error::msg);
            let done = checked.and_then(|()| work(&folder, &key));
            done.map_err(|error| {
                let path = folder.file_of::<K>(&key);
                let reason = format!("{}: {error:#}", path.display());
                match error.downcast::<StoreError>() {
                    Ok(refused) => refused,
                    Err(error) if error.is::<io::Error>() => StoreError::unavailable(reason),
                    Err(_) => StoreError::Invalid { key, reason },
                }
            })
        };
        let done = spawn_blocking(work).await;
        done.map_err(|error| StoreError::unavailable(error.to_string()))?
    }
}

#[cfg(test)]
mod tests;
