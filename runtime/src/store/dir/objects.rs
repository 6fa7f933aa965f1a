//! Reads and writes of one object. Everything here blocks.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde_json::Value;
use uuid::Uuid;

use super::{
    super::{Kind, ObjectKey, Precondition, StoreError},
    fault::{Fault, MAX_SIZE, too_large},
    file::{self, Content, FileError, Fingerprint},
    folder::{Folder, vanished},
    layout,
    lock::Lock,
    manifest::{self, Manifest},
};

/// An object's file as it was read.
type Stored<K> = (Manifest<K>, Content);

impl Folder {
    pub(super) fn get<K: Kind>(&self, key: &ObjectKey) -> Result<K, FileError> {
        let (manifest, _) = self.existing(key)?;
        Ok(manifest.object)
    }

    pub(super) fn create<K: Kind>(&self, object: &K) -> Result<K, FileError> {
        let key = ObjectKey::of(object);
        if self.read::<K>(&key)?.is_some() {
            return Err(StoreError::AlreadyExists(key).into());
        }
        let document = manifest::create(object, &key, Uuid::new_v4().to_string())?;
        let folder = self.path_of::<K>(&key.namespace);
        if !folder.is_dir() {
            make(&self.root.join(&key.namespace))?;
            make(&folder)?;
        }
        self.put(&key, &document, None)
    }

    pub(super) fn replace<K: Kind>(&self, object: &K) -> Result<K, FileError> {
        self.rewrite(object, manifest::with_content)
    }

    pub(super) fn replace_status<K: Kind>(&self, object: &K) -> Result<K, FileError> {
        self.rewrite(object, manifest::with_status)
    }

    /// Writes a new document, which `change` makes of the stored one and the object.
    fn rewrite<K: Kind>(
        &self,
        object: &K,
        change: impl FnOnce(Value, &K) -> Result<Value, Fault>,
    ) -> Result<K, FileError> {
        let key = ObjectKey::of(object);
        let expected = Precondition {
            uid: object.meta().uid.clone(),
            resource_version: object.meta().resource_version.clone(),
        };
        if expected.resource_version.is_none() {
            return Err(Fault::new("it has no resourceVersion to compare").into());
        }
        let (stored, content) = self.writable::<K>(&key, &expected)?;
        let document = change(stored.document.clone(), object)?;
        if document == stored.document {
            return Ok(stored.object);
        }
        self.put(&key, &document, Some(&content))
    }

    pub(super) fn delete<K: Kind>(
        &self,
        key: &ObjectKey,
        precondition: &Precondition,
    ) -> Result<(), FileError> {
        let (_, content) = self.writable::<K>(key, precondition)?;
        let path = self.file_of::<K>(key);
        self.change(key, &path, Some(&content), |path| fs::remove_file(path))?;
        Ok(file::sync(&self.path_of::<K>(&key.namespace))?)
    }

    /// The object and its file; `None` if it does not exist.
    fn read<K: Kind>(&self, key: &ObjectKey) -> Result<Option<Stored<K>>, FileError> {
        layout::check(key).map_err(Fault::new)?;
        self.check_root().map_err(StoreError::unavailable)?;
        let folder = self.path_of::<K>(&key.namespace);
        let Some(content) = file::read(&self.file_of::<K>(key))? else {
            if self.populated().contains(&folder) && !folder.is_dir() {
                return Err(StoreError::unavailable(vanished(&folder)).into());
            }
            return Ok(None);
        };
        let manifest = manifest::parse(&content.bytes, key, &content.fingerprint)?;
        self.populated().insert(folder);
        Ok(Some((manifest, content)))
    }

    fn existing<K: Kind>(&self, key: &ObjectKey) -> Result<Stored<K>, FileError> {
        let missing = || StoreError::NotFound(key.clone()).into();
        self.read(key)?.ok_or_else(missing)
    }

    /// The object, if it is still the expected one and its file is not a link.
    fn writable<K: Kind>(
        &self,
        key: &ObjectKey,
        expected: &Precondition,
    ) -> Result<Stored<K>, FileError> {
        let stored = self.existing::<K>(key)?;
        let meta = stored.0.object.meta();
        let differs = |expected: &Option<String>, found: &Option<String>| {
            expected.is_some() && expected != found
        };
        if differs(&expected.uid, &meta.uid)
            || differs(&expected.resource_version, &meta.resource_version)
        {
            return Err(StoreError::Conflict(key.clone()).into());
        }
        if file::is_link(&self.file_of::<K>(key)) {
            return Err(Fault::new("a symbolic link is read but never written").into());
        }
        Ok(stored)
    }

    /// Writes a document to the object's file, in place of the one that was read.
    fn put<K: Kind>(
        &self,
        key: &ObjectKey,
        document: &Value,
        before: Option<&Content>,
    ) -> Result<K, FileError> {
        let text = manifest::emit(document)?;
        if text.len() > MAX_SIZE {
            let (key, reason) = (key.clone(), too_large().reason);
            return Err(StoreError::TooLarge { key, reason }.into());
        }
        let mut object = K::deserialize(document).map_err(|error| Fault::new(error.to_string()))?;
        let folder = self.path_of::<K>(&key.namespace);
        let (temporary, mut lock) = temporary(&folder)?;
        let written = (|| {
            lock.0.write_all(text.as_bytes())?;
            if let Some(before) = before {
                lock.0.set_permissions(before.permissions.clone())?;
            }
            lock.0.sync_all()?;
            let path = self.file_of::<K>(key);
            self.change(key, &path, before, |path| fs::rename(&temporary, path))
        })();
        if let Err(error) = written {
            // On a full disk the temporary file must not stay. If this fails too, a later write removes it.
            let _left = fs::remove_file(&temporary);
            return Err(error);
        }
        file::sync(&folder)?;
        let fingerprint = Fingerprint::from(&lock.0.metadata()?);
        let version = manifest::version(text.as_bytes(), &fingerprint);
        manifest::complete(&mut object, key, version);
        self.populated().insert(folder);
        Ok(object)
    }

    /// Changes a file under the lock, unless it was edited since it was read.
    fn change(
        &self,
        key: &ObjectKey,
        path: &Path,
        before: Option<&Content>,
        change: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<(), FileError> {
        let _lock = self.lock()?;
        match (before, file::fingerprint(path)?) {
            (None, None) => {}
            (None, Some(_)) => return Err(StoreError::AlreadyExists(key.clone()).into()),
            (Some(before), now) if now == Some(before.fingerprint) => {}
            (Some(_), _) => return Err(StoreError::Conflict(key.clone()).into()),
        }
        Ok(change(path)?)
    }
}

/// A new temporary file in the folder, under a name that no other write uses. The lock tells that it is in use.
fn temporary(folder: &Path) -> io::Result<(PathBuf, Lock)> {
    let mut slot = 0;
    loop {
        let path = folder.join(layout::temporary(slot));
        if let Some(lock) = Lock::try_acquire(&path)? {
            if lock.0.metadata()?.len() == 0 {
                return Ok((path, lock));
            }
            // Left by a killed process, perhaps with the mode of another object's file.
            fs::remove_file(&path)?;
        }
        slot += 1;
    }
}

/// Creates a folder, durably.
fn make(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    folder.parent().map_or(Ok(()), file::sync)
}
