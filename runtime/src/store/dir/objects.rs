//! Reads and writes of one object. Everything here blocks.

use std::{
    fs::File,
    io::{self, Write},
    os::fd::AsFd,
    path::Path,
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, fchmod, fsync, mkdirat, openat, unlinkat},
    io::Errno,
};
use serde_json::Value;
use uuid::Uuid;

use super::{
    super::{Kind, ObjectKey, Precondition, StoreError},
    fault::{Fault, MAX_SIZE, too_large},
    file::{self, Content, FileError, Fingerprint},
    folder::Folder,
    layout::{self, file_name},
    manifest::{self, Manifest},
    writer::{Batch, Edit, Staged},
};

/// An object's file as it was read.
struct Stored<K> {
    folder: File,
    manifest: Manifest<K>,
    content: Content,
}

impl Folder {
    pub(super) fn get<K: Kind>(&self, key: &ObjectKey) -> Result<K, StoreError> {
        let root = self.open_root().map_err(StoreError::unavailable)?;
        match self.stored(root, key) {
            Ok(stored) => Ok(stored.manifest.object),
            Err(error) => Err(error.in_store(&self.file_of::<K>(key), key)),
        }
    }

    pub(super) fn create<K: Kind>(
        &self,
        batch: &Batch,
        object: &K,
    ) -> Result<Staged<K>, FileError> {
        let key = ObjectKey::of(object);
        layout::check(&key).map_err(Fault::new)?;
        let document = manifest::create(object, &key, Uuid::new_v4().to_string())?;
        let folder = match self.open_for::<K>(&batch.root, &key)? {
            Some(folder) => folder,
            None => make_in(make_in(&batch.root, &key.namespace)?, &K::plural(&()))?,
        };
        match read::<K>(&folder, &key)? {
            Some(_) => Err(StoreError::AlreadyExists(key).into()),
            None => self.put(batch, folder, key, &document, None),
        }
    }

    pub(super) fn replace_status<K: Kind>(
        &self,
        batch: &Batch,
        object: &K,
    ) -> Result<Staged<K>, FileError> {
        let key = ObjectKey::of(object);
        let expected = Precondition {
            uid: object.meta().uid.clone(),
            resource_version: object.meta().resource_version.clone(),
        };
        if expected.resource_version.is_none() {
            return Err(Fault::new("it has no resourceVersion to compare").into());
        }
        let stored = self.writable::<K>(&batch.root, &key, &expected)?;
        let document = manifest::with_status(stored.manifest.document.clone(), object)?;
        if document == stored.manifest.document {
            return Ok((stored.manifest.object, None));
        }
        self.put(batch, stored.folder, key, &document, Some(&stored.content))
    }

    pub(super) fn delete<K: Kind>(
        &self,
        batch: &Batch,
        key: &ObjectKey,
        precondition: &Precondition,
    ) -> Result<Staged<()>, FileError> {
        let stored = self.writable::<K>(&batch.root, key, precondition)?;
        let edit = Edit {
            folder: stored.folder,
            path: self.file_of::<K>(key),
            key: key.clone(),
            before: Some(stored.content.fingerprint),
            replacement: None,
        };
        Ok(((), Some(edit)))
    }

    /// Opens the folder of the object; `None` if there never was one.
    fn open_for<K: Kind>(
        &self,
        root: impl AsFd,
        key: &ObjectKey,
    ) -> Result<Option<File>, FileError> {
        let folder = Self::open::<K>(root, &key.namespace)?;
        let path = self.path_of::<K>(&key.namespace);
        if folder.is_none() && self.populated().contains(&path) {
            return Err(StoreError::unavailable(vanished(&path)).into());
        }
        Ok(folder)
    }

    fn stored<K: Kind>(&self, root: impl AsFd, key: &ObjectKey) -> Result<Stored<K>, FileError> {
        layout::check(key).map_err(Fault::new)?;
        let missing = || StoreError::NotFound(key.clone());
        let folder = self.open_for::<K>(root, key)?.ok_or_else(missing)?;
        let (manifest, content) = read(&folder, key)?.ok_or_else(missing)?;
        self.populated().insert(self.path_of::<K>(&key.namespace));
        Ok(Stored {
            folder,
            manifest,
            content,
        })
    }

    /// The object, if it is still the expected one and its file is not a link.
    fn writable<K: Kind>(
        &self,
        root: impl AsFd,
        key: &ObjectKey,
        expected: &Precondition,
    ) -> Result<Stored<K>, FileError> {
        let stored = self.stored::<K>(root, key)?;
        let meta = stored.manifest.object.meta();
        let differs = |expected: &Option<String>, found: &Option<String>| {
            expected.is_some() && expected != found
        };
        if differs(&expected.uid, &meta.uid)
            || differs(&expected.resource_version, &meta.resource_version)
        {
            return Err(StoreError::Conflict(key.clone()).into());
        }
        if file::is_link(&stored.folder, &file_name(&key.name))? {
            return Err(Fault::new("a symbolic link is read but never written").into());
        }
        Ok(stored)
    }

    /// Writes a document to a temporary file that will replace the object's file.
    fn put<K: Kind>(
        &self,
        batch: &Batch,
        folder: File,
        key: ObjectKey,
        document: &Value,
        before: Option<&Content>,
    ) -> Result<Staged<K>, FileError> {
        let text = manifest::emit(document)?;
        if text.len() > MAX_SIZE {
            let reason = too_large().reason;
            return Err(StoreError::TooLarge { key, reason }.into());
        }
        let mut object = K::deserialize(document).map_err(|error| Fault::new(error.to_string()))?;
        let temporary = batch.temporary();
        let mode = before.map(|content| content.mode);
        let (file, fingerprint) = write(&folder, &temporary, text.as_bytes(), mode)?;
        let version = manifest::version(text.as_bytes(), &fingerprint);
        manifest::complete(&mut object, &key, version);
        let edit = Edit {
            folder,
            path: self.file_of::<K>(&key),
            key,
            before: before.map(|content| content.fingerprint),
            replacement: Some((temporary, file)),
        };
        Ok((object, Some(edit)))
    }
}

fn read<K: Kind>(
    folder: &File,
    key: &ObjectKey,
) -> Result<Option<(Manifest<K>, Content)>, FileError> {
    let Some(content) = file::read(folder, &file_name(&key.name))? else {
        return Ok(None);
    };
    let manifest = manifest::parse(&content.bytes, key, &content.fingerprint)?;
    Ok(Some((manifest, content)))
}

/// Writes a temporary file; returns it with its fingerprint. A file left by a killed process is replaced.
fn write(
    folder: &File,
    name: &str,
    bytes: &[u8],
    mode: Option<Mode>,
) -> io::Result<(File, Fingerprint)> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let open = || openat(folder, name, flags, Mode::from_raw_mode(0o666));
    let temporary = match open() {
        Err(Errno::EXIST) => {
            unlinkat(folder, name, AtFlags::empty())?;
            open()?
        }
        opened => opened?,
    };
    let mut file = File::from(temporary);
    let written = (|| {
        file.write_all(bytes)?;
        if let Some(mode) = mode {
            fchmod(&file, mode)?;
        }
        Fingerprint::of(&file)
    })();
    match written {
        Ok(fingerprint) => Ok((file, fingerprint)),
        Err(error) => {
            // On a full disk the temporary file must not stay. If this fails too, the next write replaces it.
            let _left = unlinkat(folder, name, AtFlags::empty());
            Err(error)
        }
    }
}

/// Creates a folder, durably.
fn make_in(parent: impl AsFd, name: &str) -> io::Result<File> {
    match mkdirat(parent.as_fd(), name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    fsync(parent.as_fd())?;
    file::open_in(parent, name)?.ok_or_else(|| io::ErrorKind::NotADirectory.into())
}

/// The error text for a folder that had objects and is gone.
pub(super) fn vanished(path: &Path) -> String {
    format!(
        "the folder {} had objects and is gone: put it back, or make it empty if they are to go",
        path.display()
    )
}
