//! Reads and writes of one object. Everything here blocks.

use std::{
    fs,
    io::{self, Write},
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::{
    super::{Kind, ObjectKey, Precondition, StoreError},
    edit::{self, Edit, fill_metadata},
    file::{self, Content, MAX_SIZE},
    folder::Folder,
    manifest::Manifest,
};
use crate::lock::Lock;

/// How long a write waits for other processes.
const LOCK_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 10 });

/// The lock file of compare and rename, in the root.
pub(super) const LOCK: &str = ".lock";

impl Folder {
    /// The object, wherever it is.
    pub(super) fn get<K: Kind>(&self, key: &ObjectKey) -> anyhow::Result<K> {
        if let Some((_, manifest)) = self.read_own::<K>(key)? {
            return manifest.take(key);
        }
        let (path, manifest) = self.find_elsewhere::<K>(key)?;
        let object = manifest.take(key);
        object.with_context(|| path.display().to_string())
    }

    pub(super) fn create<K: Kind>(&self, object: &K) -> anyhow::Result<K> {
        let key = ObjectKey::of(object);
        if let Some((_, manifest)) = self.read_own::<K>(&key)? {
            manifest.take(&key)?;
            bail!(StoreError::AlreadyExists(key));
        }
        let document = edit::create(object, &key)?;
        let folder = self.folder_of::<K>(&key.namespace);
        if !folder.is_dir() {
            fs::create_dir_all(&folder)?;
            file::sync(&self.root.join(&key.namespace))?;
            file::sync(&self.root)?;
        }
        self.write(&key, &document, None)
    }

    /// Writes a new document, which `edit` makes of the stored one and the object.
    pub(super) fn rewrite<K: Kind>(&self, object: &K, edit: Edit<K>) -> anyhow::Result<K> {
        let key = ObjectKey::of(object);
        let meta = object.meta();
        let version = meta.resource_version.as_deref();
        let version = version.context("it has no resourceVersion to compare")?;
        let (content, stored, before) =
            self.read_for_write::<K>(&key, meta.uid.as_deref(), Some(version))?;
        let document = edit(before.clone(), object)?;
        if document == before {
            return Ok(stored);
        }
        self.write(&key, &document, Some(&content))
    }

    pub(super) fn delete<K: Kind>(
        &self,
        key: &ObjectKey,
        precondition: &Precondition,
    ) -> anyhow::Result<()> {
        let (uid, version) = (&precondition.uid, &precondition.resource_version);
        let (content, ..) = self.read_for_write::<K>(key, uid.as_deref(), version.as_deref())?;
        self.compare_and_change::<K>(key, Some(&content), |path| fs::remove_file(path))
    }

    /// The file in the object's own place; `None` if there is none.
    fn read_own<K: Kind>(&self, key: &ObjectKey) -> anyhow::Result<Option<(Content, Manifest<K>)>> {
        self.read(&self.file_of::<K>(key))
    }

    /// The first file, in order of paths, that has the object elsewhere than in its own place.
    fn find_elsewhere<K: Kind>(&self, key: &ObjectKey) -> anyhow::Result<(Arc<Path>, Manifest<K>)> {
        for path in self.list::<K>(|_| {})?.files {
            // The fault of a file that does not name the object is that of another object.
            if let Ok(Some((_, manifest))) = self.read::<K>(&path)
                && manifest.objects.contains_key(key)
            {
                return Ok((path, manifest));
            }
        }
        bail!(StoreError::NotFound(key.clone()))
    }

    /// The file, the object and the document, if it has this uid and version, and the file may be written.
    fn read_for_write<K: Kind>(
        &self,
        key: &ObjectKey,
        uid: Option<&str>,
        version: Option<&str>,
    ) -> anyhow::Result<(Content, K, Value)> {
        let Some((content, mut manifest)) = self.read_own::<K>(key)? else {
            let (path, _) = self.find_elsewhere::<K>(key)?;
            let path = path.display();
            bail!("the object is in {path}, which no program writes: move it to its own file");
        };
        let document = manifest.document.take();
        let object = manifest.take(key)?;
        let meta = object.meta();
        for (expected, found) in [(uid, &meta.uid), (version, &meta.resource_version)] {
            let is_right = expected.is_none() || expected == found.as_deref();
            ensure!(is_right, StoreError::Conflict(key.clone()));
        }
        let is_link = self.file_of::<K>(key).is_symlink();
        ensure!(!is_link, "a symbolic link is read but never written");
        let document = document.context("a file with several objects is read but never written")?;
        Ok((content, object, document))
    }

    /// Writes a document to the object's file, in place of the one that was read.
    fn write<K: Kind>(
        &self,
        key: &ObjectKey,
        document: &Value,
        before: Option<&Content>,
    ) -> anyhow::Result<K> {
        let text = serde_saphyr::to_string(document)?;
        if text.len() > MAX_SIZE {
            let (key, reason) = (key.clone(), format!("larger than {MAX_SIZE} bytes"));
            bail!(StoreError::TooLarge { key, reason });
        }
        let mut object = K::deserialize(document)?;
        let folder = self.folder_of::<K>(&key.namespace);
        let temporary = folder.join(format!(".{}.tmp", key.name));
        // The lock keeps other writers of the object out.
        let mut lock = Lock::acquire(&temporary, LOCK_TIMEOUT).context("its temporary file")?;
        let written = (|| {
            // A killed process may have left a part.
            lock.0.set_len(0)?;
            lock.0.write_all(text.as_bytes())?;
            if let Some(before) = before {
                lock.0.set_permissions(before.permissions.clone())?;
            }
            lock.0.sync_all()?;
            self.compare_and_change::<K>(key, before, |path| fs::rename(&temporary, path))
        })();
        if let Err(error) = written {
            // On a full disk the file must not stay. If this fails too, the next write removes it.
            let _left = fs::remove_file(&temporary);
            return Err(error);
        }
        let fingerprint = file::fingerprint_of(&lock.0.metadata()?);
        fill_metadata(&mut object, key, text.as_bytes(), fingerprint);
        Ok(object)
    }

    /// Changes a file under the lock, durably, unless it was edited since it was read.
    fn compare_and_change<K: Kind>(
        &self,
        key: &ObjectKey,
        before: Option<&Content>,
        change: impl FnOnce(&Path) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let path = self.file_of::<K>(key);
        let lock = Lock::acquire(&self.root.join(LOCK), LOCK_TIMEOUT).context(LOCK)?;
        let key = key.clone();
        match before {
            _ if file::fingerprint(&path)? == before.map(|it| it.fingerprint) => change(&path)?,
            Some(_) => bail!(StoreError::Conflict(key)),
            None => bail!(StoreError::AlreadyExists(key)),
        }
        drop(lock);
        Ok(path.parent().map_or(Ok(()), file::sync)?)
    }
}
