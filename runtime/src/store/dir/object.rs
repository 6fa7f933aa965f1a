//! Reads and writes of one object. Everything here blocks.

use std::{
    fs,
    io::{self, Write},
    path::Path,
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
    /// The object in its own place.
    pub(super) fn get<K: Kind>(&self, key: &ObjectKey) -> anyhow::Result<K> {
        let found = self.read_own::<K>(key)?;
        let (_, manifest) = found.ok_or_else(|| StoreError::NotFound(key.clone()))?;
        manifest.take(key)
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
        let (key, meta) = (ObjectKey::of(object), object.meta());
        let condition = Precondition {
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
        };
        let is_versioned = condition.resource_version.is_some();
        ensure!(is_versioned, "it has no resourceVersion to compare");
        let (content, stored, before) = self.read_for_write::<K>(&key, &condition)?;
        let document = edit(before.clone(), object)?;
        if document == before {
            return Ok(stored);
        }
        self.write(&key, &document, Some(&content))
    }

    pub(super) fn delete<K: Kind>(
        &self,
        key: &ObjectKey,
        condition: &Precondition,
    ) -> anyhow::Result<()> {
        let (content, ..) = self.read_for_write::<K>(key, condition)?;
        self.compare_and_change::<K>(key, Some(&content), |path| fs::remove_file(path))
    }

    /// The file in the object's own place; `None` if there is none.
    fn read_own<K: Kind>(&self, key: &ObjectKey) -> anyhow::Result<Option<(Content, Manifest<K>)>> {
        fs::read_dir(&self.root)?;
        self.read(&self.file_of::<K>(key))
    }

    /// The file, the object and the document, if the condition holds and the file may be written.
    fn read_for_write<K: Kind>(
        &self,
        key: &ObjectKey,
        condition: &Precondition,
    ) -> anyhow::Result<(Content, K, Value)> {
        let found = self.read_own::<K>(key)?;
        let (content, mut manifest) = found.ok_or_else(|| StoreError::NotFound(key.clone()))?;
        let document = manifest.document.take();
        let object = manifest.take(key)?;
        let (uid, version) = (&object.meta().uid, &object.meta().resource_version);
        let is_same = |wanted: &Option<String>, found| wanted.is_none() || wanted == found;
        let holds = is_same(&condition.uid, uid) && is_same(&condition.resource_version, version);
        ensure!(holds, StoreError::Conflict(key.clone()));
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
        fill_metadata(&mut object, key, &text, fingerprint);
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
            _ if file::fingerprint(&path) == before.map(|it| it.fingerprint) => change(&path)?,
            Some(_) => bail!(StoreError::Conflict(key)),
            None => bail!(StoreError::AlreadyExists(key)),
        }
        drop(lock);
        Ok(path.parent().map_or(Ok(()), file::sync)?)
    }
}
