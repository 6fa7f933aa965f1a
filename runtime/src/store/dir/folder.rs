//! The folder of a store. Everything here blocks.

use std::{
    collections::HashSet,
    fmt::Display,
    fs::File,
    io,
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    super::{BadObjects, Kind, ObjectKey, StoreError},
    file,
    layout::{self, file_name},
    lock::Lock,
};

/// The folder of a store.
pub(super) struct Folder {
    /// Absolute.
    pub(super) root: PathBuf,
    /// How long a write waits for other processes.
    pub(super) lock_timeout: Duration,
    /// Folders that had objects: if one vanishes, that is a fault.
    populated: Mutex<HashSet<PathBuf>>,
    /// The files that a watch could not read.
    pub(super) bad_objects: BadObjects,
}

impl Folder {
    pub(super) fn new(root: PathBuf, lock_timeout: Duration) -> Self {
        Self {
            root,
            lock_timeout,
            populated: Mutex::default(),
            bad_objects: BadObjects::default(),
        }
    }

    /// The path of the folder of a kind in a namespace.
    pub(super) fn path_of<K: Kind>(&self, namespace: &str) -> PathBuf {
        self.root.join(namespace).join(&*K::plural(&()))
    }

    pub(super) fn file_of<K: Kind>(&self, key: &ObjectKey) -> PathBuf {
        self.path_of::<K>(&key.namespace).join(file_name(&key.name))
    }

    /// The folders that had objects.
    pub(super) fn populated(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        // Each change is a single call, so a panic elsewhere leaves no half-done change.
        self.populated
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the root.
    ///
    /// # Errors
    /// A text: the folder is gone, or cannot be read.
    pub(super) fn open_root(&self) -> Result<File, String> {
        match file::open_folder(&self.root) {
            Ok(Some(root)) => Ok(root),
            Ok(None) => Err(format!("the folder {} is gone", self.root.display())),
            Err(error) => Err(at(&self.root, error)),
        }
    }

    /// Opens the folder of a kind in a namespace; `None` if there is none.
    pub(super) fn open<K: Kind>(root: impl AsFd, namespace: &str) -> io::Result<Option<File>> {
        match file::open_in(root, namespace)? {
            Some(folder) => file::open_kind(folder, &K::plural(&())),
            None => Ok(None),
        }
    }

    /// Opens the root and takes the lock.
    pub(super) fn lock(&self) -> Result<(File, Lock), StoreError> {
        let root = self.open_root().map_err(StoreError::unavailable)?;
        match Lock::acquire(&root, self.lock_timeout) {
            Ok(lock) => Ok((root, lock)),
            Err(error) => {
                let path = self.root.join(layout::LOCK);
                Err(StoreError::unavailable(match error.kind() {
                    io::ErrorKind::TimedOut => format!(
                        "{} is held by another process for more than {:?}",
                        path.display(),
                        self.lock_timeout
                    ),
                    _ => at(&path, error),
                }))
            }
        }
    }
}

pub(super) fn at(path: &Path, error: impl Display) -> String {
    format!("{}: {error}", path.display())
}
