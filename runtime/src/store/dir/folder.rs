//! The files of the folder. Everything here blocks.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, ensure};
use tokio::sync::Semaphore;

use super::{
    super::{BadObjects, Kind, ObjectKey, names},
    file::{self, Content},
    manifest::Manifest,
};

/// The folder of a store.
pub(super) struct Folder {
    /// Absolute.
    pub(super) root: PathBuf,
    /// The files that a watch could not read.
    pub(super) bad_objects: BadObjects,
    /// Of the writes that are under way at once. They mostly wait for the disk, which handles many requests in parallel.
    pub(super) permits: Semaphore,
}

/// The names of files without their content, and the folders that cannot be read, with the reason.
pub(super) type Listing = (BTreeSet<Arc<Path>>, BTreeMap<Arc<Path>, String>);

impl Folder {
    pub(super) fn new(root: PathBuf) -> Self {
        Self {
            root,
            bad_objects: BadObjects::default(),
            permits: Semaphore::new(16),
        }
    }

    /// The folder of a kind in a namespace.
    pub(super) fn folder_of<K: Kind>(&self, namespace: &str) -> PathBuf {
        self.root.join(namespace).join(&*K::plural(&()))
    }

    /// The object's own place.
    pub(super) fn file_of<K: Kind>(&self, key: &ObjectKey) -> PathBuf {
        let name = format!("{}.yaml", key.name);
        self.folder_of::<K>(&key.namespace).join(name)
    }

    /// The object whose own place a path is.
    pub(super) fn key_of<K: Kind>(&self, path: &Path) -> Option<ObjectKey> {
        let name = path.file_name()?.to_str()?.strip_suffix(".yaml")?;
        let namespace = path.parent()?.parent()?.file_name()?.to_str()?;
        let key = ObjectKey {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let is_own = names::check(&key).is_ok() && self.file_of::<K>(&key) == path;
        is_own.then_some(key)
    }

    /// Lists the files that may be manifests. `visit` is called with each folder before it is read.
    ///
    /// # Errors
    /// The root cannot be read, or another folder, if all are needed.
    pub(super) fn list(
        &self,
        needs_all: bool,
        mut visit: impl FnMut(&Path),
    ) -> anyhow::Result<Listing> {
        fs::read_dir(&self.root).with_context(|| self.root.display().to_string())?;
        let (mut files, mut unreadable) = Listing::default();
        let mut folders = vec![(self.root.clone(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            visit(&folder);
            let entries = fs::read_dir(&folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
            let entries = match entries {
                Ok(entries) => entries,
                Err(error) => {
                    // A link to nothing may be that of a mount which comes back.
                    let is_file = error.kind() == io::ErrorKind::NotADirectory;
                    if !is_file && fs::symlink_metadata(&folder).is_ok() {
                        ensure!(!needs_all, "{}: {error}", folder.display());
                        unreadable.insert(folder.into(), error.to_string());
                    }
                    continue;
                }
            };
            let paths = entries.into_iter().map(|entry| entry.path());
            for path in paths.filter(|path| !is_hidden(path)) {
                if is_manifest(&path) {
                    files.insert(path.into());
                } else if depth < 2 {
                    folders.push((path, depth + 1));
                }
            }
        }
        Ok((files, unreadable))
    }

    /// Reads the objects of a kind in a file; `None` if there is no such file.
    pub(super) fn read<K: Kind>(
        &self,
        path: &Path,
    ) -> anyhow::Result<Option<(Content, Manifest<K>)>> {
        let Some(content) = file::read(path)? else {
            return Ok(None);
        };
        let manifest = Manifest::parse(&content, self.key_of::<K>(path).as_ref());
        Ok(Some((content, manifest)))
    }
}

/// Whether a file may be a manifest, by its name.
pub(super) fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(|it| it.to_str());
    matches!(extension, Some("yaml" | "yml" | "json")) && !is_hidden(path)
}

/// Whether a file or folder is left out. File systems have a folder `lost+found`, which only root may read.
pub(super) fn is_hidden(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.starts_with(b".") || name == b"lost+found"
}
