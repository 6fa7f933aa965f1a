//! The objects in a folder. Everything here blocks.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::{
    super::{
        BadObjects, Kind, ObjectKey, PLURALS, Precondition, Scope, StoreError,
        names::{is_namespace, is_object_name},
    },
    file::{self, Content, MAX_SIZE},
    lock::Lock,
    manifest::{self, Manifest},
};

/// How long a write waits for other processes.
const LOCK_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 10 });

/// The lock file of compare and rename, in the root.
pub(super) const LOCK: &str = ".lock";

/// The folder of a store.
pub(super) struct Folder {
    /// Absolute.
    pub(super) root: PathBuf,
    /// The files that a watch could not read.
    pub(super) bad_objects: BadObjects,
}

/// The names of files, without their content.
#[derive(Default)]
pub(super) struct Listing {
    pub(super) keys: BTreeSet<ObjectKey>,
    /// The faults of unreadable folders, and of files that are probably meant as objects and are not read.
    pub(super) faults: BTreeMap<String, String>,
}

impl Folder {
    /// The path of the folder of a kind in a namespace.
    pub(super) fn path_of<K: Kind>(&self, namespace: &str) -> PathBuf {
        self.root.join(namespace).join(&*K::plural(&()))
    }

    pub(super) fn file_of<K: Kind>(&self, key: &ObjectKey) -> PathBuf {
        let name = format!("{}.yaml", key.name);
        self.path_of::<K>(&key.namespace).join(name)
    }

    pub(super) fn get<K: Kind>(&self, key: &ObjectKey) -> anyhow::Result<K> {
        let missing = || StoreError::NotFound(key.clone());
        Ok(self.read(key)?.ok_or_else(missing)?.object)
    }

    pub(super) fn create<K: Kind>(&self, object: &K) -> anyhow::Result<K> {
        let key = ObjectKey::of(object);
        let is_new = self.read::<K>(&key)?.is_none();
        ensure!(is_new, StoreError::AlreadyExists(key));
        let document = manifest::create(object, &key)?;
        let folder = self.path_of::<K>(&key.namespace);
        if !folder.is_dir() {
            fs::create_dir_all(&folder)?;
            file::sync(&self.root.join(&key.namespace))?;
            file::sync(&self.root)?;
        }
        self.write(&key, &document, None)
    }

    /// Writes a new document, which `change` makes of the stored one and the object.
    pub(super) fn rewrite<K: Kind>(
        &self,
        object: &K,
        change: manifest::Change<K>,
    ) -> anyhow::Result<K> {
        let key = ObjectKey::of(object);
        let meta = object.meta();
        let version = meta.resource_version.as_deref();
        let version = version.context("it has no resourceVersion to compare")?;
        let stored = self.read_for_write::<K>(&key, meta.uid.as_deref(), Some(version))?;
        let document = change(stored.document.clone(), object)?;
        if document == stored.document {
            return Ok(stored.object);
        }
        self.write(&key, &document, Some(&stored.content))
    }

    pub(super) fn delete<K: Kind>(
        &self,
        key: &ObjectKey,
        precondition: &Precondition,
    ) -> anyhow::Result<()> {
        let (uid, version) = (&precondition.uid, &precondition.resource_version);
        let stored = self.read_for_write::<K>(key, uid.as_deref(), version.as_deref())?;
        self.compare_and_change::<K>(key, Some(&stored.content), |path| fs::remove_file(path))
    }

    /// The object and its file; `None` if it does not exist.
    pub(super) fn read<K: Kind>(&self, key: &ObjectKey) -> anyhow::Result<Option<Manifest<K>>> {
        fs::metadata(&self.root).context("the folder of the store")?;
        let Some(content) = file::read(&self.file_of::<K>(key))? else {
            let folder = self.path_of::<K>(&key.namespace);
            // A link to nothing may be a mount that went away.
            if !is_absent(&folder) {
                fs::read_dir(folder)?;
            }
            return Ok(None);
        };
        manifest::parse(content, key).map(Some)
    }

    /// The object, if it has this uid and version, and its file is not a link.
    fn read_for_write<K: Kind>(
        &self,
        key: &ObjectKey,
        uid: Option<&str>,
        version: Option<&str>,
    ) -> anyhow::Result<Manifest<K>> {
        let missing = || StoreError::NotFound(key.clone());
        let stored = self.read::<K>(key)?.ok_or_else(missing)?;
        let meta = stored.object.meta();
        for (expected, found) in [(uid, &meta.uid), (version, &meta.resource_version)] {
            let is_right = expected.is_none() || expected == found.as_deref();
            ensure!(is_right, StoreError::Conflict(key.clone()));
        }
        let is_link = self.file_of::<K>(key).is_symlink();
        ensure!(!is_link, "a symbolic link is read but never written");
        Ok(stored)
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
        let folder = self.path_of::<K>(&key.namespace);
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
        manifest::fill_metadata(&mut object, key, text.as_bytes(), fingerprint);
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

    /// Lists the objects of a kind. `visit` is called with each folder before it is read. It also gets the namespace of
    /// a folder of objects.
    ///
    /// # Errors
    /// The root is missing, or it or the only folder in scope cannot be read. `must_exist`: the latter is missing.
    pub(super) fn list<K: Kind>(
        &self,
        scope: &Scope,
        must_exist: bool,
        mut visit: impl FnMut(&Path, Option<&str>),
    ) -> anyhow::Result<Listing> {
        let mut listing = Listing::default();
        visit(&self.root, None);
        let namespaces = match scope {
            Scope::All => names_in(&self.root),
            Scope::Namespace(only) => fs::metadata(&self.root).map(|_| vec![only.clone()]),
        };
        for namespace in namespaces.with_context(|| self.root.display().to_string())? {
            let (parent, path) = (self.root.join(&namespace), self.path_of::<K>(&namespace));
            if !is_namespace(&namespace) {
                listing.add_misplaced(&self.root, &namespace);
                for name in names_in(&path).unwrap_or_default() {
                    listing.add_misplaced(&path, &name);
                }
                continue;
            }
            visit(&parent, None);
            visit(&path, Some(&namespace));
            for name in names_in(&parent).unwrap_or_default() {
                listing.add_misplaced(&parent, &name);
                if !PLURALS.contains(&&*name) {
                    let folder = parent.join(name);
                    for name in names_in(&folder).unwrap_or_default() {
                        listing.add_misplaced(&folder, &name);
                    }
                }
            }
            let names = match names_in(&path) {
                Err(_) if !must_exist && is_absent(&path) => Vec::new(),
                Err(error) if *scope == Scope::All => {
                    let path = path.display().to_string();
                    listing.faults.insert(path, error.to_string());
                    listing.keys.insert(ObjectKey::all_in(&namespace));
                    Vec::new()
                }
                names => names.with_context(|| format!("put back {}", path.display()))?,
            };
            for name in names {
                if let Some(name) = object_name(&name) {
                    let (namespace, name) = (namespace.clone(), name.to_owned());
                    listing.keys.insert(ObjectKey { namespace, name });
                } else {
                    listing.add_misplaced(&path, &name);
                }
            }
        }
        Ok(listing)
    }
}

impl Listing {
    /// Adds the fault of a file that is probably meant as an object.
    fn add_misplaced(&mut self, folder: &Path, name: &str) {
        let ends = [".yaml", ".yml", ".json"];
        if ends.iter().any(|end| name.ends_with(end)) && !name.starts_with('.') {
            let reason = "not read: the file of an object is `<namespace>/<plural kind>/<name>.yaml`, in lower-case letters, digits, `-` and `.`";
            let path = folder.join(name).display().to_string();
            self.faults.insert(path, reason.to_owned());
        }
    }
}

/// The name of the object in a file of this name.
pub(super) fn object_name(file_name: &str) -> Option<&str> {
    let name = file_name.strip_suffix(".yaml");
    name.filter(|name| is_object_name(name))
}

/// The names in a folder. A name that is not UTF-8 gets replacement characters.
fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(folder)?;
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    entries.map(|entry| entry.map(name)).collect()
}

/// Whether there is nothing at a path. A symbolic link is something: its target may come back, such as a mount.
fn is_absent(path: &Path) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    fs::symlink_metadata(path).is_err_and(|error| matches!(error.kind(), NotFound | NotADirectory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yaml_files_with_an_objects_name_are_objects() {
        assert_eq!(object_name("a.b.yaml"), Some("a.b"));
        for name in [
            "A.yaml", "a.yml", "a_b.yaml", ".a.yaml", ".a.tmp", "..data", "a.yaml~",
        ] {
            assert_eq!(object_name(name), None, "{name}");
        }
    }
}
