//! The files of the folder. Everything here blocks.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;
use memchr::memmem;

use super::{
    super::{
        BadObjects, Kind, ObjectKey,
        names::{self, is_namespace},
    },
    file::{self, Content},
    manifest::Manifest,
};

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
    pub(super) files: BTreeSet<Arc<Path>>,
    /// The folders that cannot be read, and why.
    pub(super) unreadable: BTreeMap<Arc<Path>, String>,
}

impl Folder {
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

    /// The namespace whose objects of this kind may be in a folder.
    pub(super) fn namespace_of<K: Kind>(&self, folder: &Path) -> Option<String> {
        let is_of_kind = self.is_of_kind::<K>(folder);
        let namespace = if is_of_kind { folder.parent()? } else { folder };
        let name = namespace.file_name()?.to_str()?;
        let is_in_root = namespace.parent() == Some(&self.root);
        (is_in_root && is_namespace(name)).then(|| name.to_owned())
    }

    /// Whether it is the folder of this kind in a namespace.
    fn is_of_kind<K: Kind>(&self, folder: &Path) -> bool {
        folder.ends_with(&*K::plural(&())) && folder.ancestors().nth(2) == Some(&self.root)
    }

    /// Lists the files that may be manifests. `visit` is called with each folder before it is read.
    ///
    /// # Errors
    /// The root is missing or cannot be read.
    pub(super) fn list<K: Kind>(&self, mut visit: impl FnMut(&Path)) -> anyhow::Result<Listing> {
        fs::read_dir(&self.root).with_context(|| self.root.display().to_string())?;
        let mut listing = Listing::default();
        let mut folders = vec![(self.root.clone(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            visit(&folder);
            let paths = match paths_in(&folder) {
                Ok(paths) => paths,
                Err(error) => {
                    let is_file = error.kind() == io::ErrorKind::NotADirectory;
                    if !is_absent(&folder) && (!is_file || self.is_of_kind::<K>(&folder)) {
                        listing.unreadable.insert(folder.into(), error.to_string());
                    }
                    continue;
                }
            };
            for path in paths.into_iter().filter(|path| !is_hidden(path)) {
                if is_manifest(&path) {
                    listing.files.insert(path.into());
                } else if depth < 2 {
                    folders.push((path, depth + 1));
                }
            }
        }
        Ok(listing)
    }

    /// Reads the objects of a kind in a file; `None` if there is no such file.
    pub(super) fn read<K: Kind>(
        &self,
        path: &Path,
    ) -> anyhow::Result<Option<(Content, Manifest<K>)>> {
        let Some(content) = file::read(path)? else {
            self.check_folders_of(path)?;
            return Ok(None);
        };
        let is_of_kind = path.parent().is_some_and(|it| self.is_of_kind::<K>(it));
        let manifest =
            if is_of_kind || memmem::find(&content.bytes, K::kind(&()).as_bytes()).is_some() {
                Manifest::parse(&content, self.key_of::<K>(path).as_ref())
            } else {
                Manifest::default()
            };
        Ok(Some((content, manifest)))
    }

    /// Fails if a file may be missing only because a folder above it cannot be read.
    fn check_folders_of(&self, path: &Path) -> io::Result<()> {
        for folder in path.ancestors().skip(1) {
            match fs::read_dir(folder) {
                Err(_) if folder != self.root && is_absent(folder) => {}
                read => return read.map(drop),
            }
        }
        Ok(())
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

fn paths_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?;
    entries.map(|entry| entry.map(|it| it.path())).collect()
}

/// Whether there is nothing at a path. A symbolic link is something: its target may come back, such as a mount.
pub(super) fn is_absent(path: &Path) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    fs::symlink_metadata(path).is_err_and(|error| matches!(error.kind(), NotFound | NotADirectory))
}

#[cfg(test)]
mod tests;
