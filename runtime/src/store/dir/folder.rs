//! The folder of a store. Everything here blocks.

use std::{
    collections::{BTreeSet, HashSet},
    fmt::Display,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    super::{BadObjects, Kind, ObjectKey, Scope, StoreError, names::is_namespace},
    file,
    layout::{self, Entry, file_name},
    lock::Lock,
};

/// The folder of a store.
pub(super) struct Folder {
    /// Absolute.
    pub(super) root: PathBuf,
    /// How long a write waits for other processes.
    lock_timeout: Duration,
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

    /// Checks that the root is there.
    ///
    /// # Errors
    /// A text: the root is gone, or cannot be read.
    pub(super) fn check_root(&self) -> Result<(), String> {
        let found = fs::metadata(&self.root);
        found.map(drop).map_err(|error| at(&self.root, error))
    }

    /// Takes the lock of writes.
    pub(super) fn lock(&self) -> Result<Lock, StoreError> {
        let path = self.root.join(layout::LOCK);
        let (lock, timeout) = (Lock::acquire(&path, self.lock_timeout), self.lock_timeout);
        lock.map_err(|error| {
            StoreError::unavailable(match error.kind() {
                io::ErrorKind::TimedOut => {
                    let path = path.display();
                    format!("{path} is held by another process for more than {timeout:?}")
                }
                _ => at(&path, error),
            })
        })
    }

    /// The keys of all objects of a kind in the scope, by their files' names alone.
    ///
    /// # Errors
    /// A text: a part of the list is unavailable.
    pub(super) fn list_keys<K: Kind>(&self, scope: &Scope) -> Result<BTreeSet<ObjectKey>, String> {
        let (mut keys, mut found) = (BTreeSet::new(), BTreeSet::new());
        let mut namespaces = self.names_in_scope(scope)?;
        namespaces.retain(|name| is_namespace(name));
        for namespace in namespaces {
            let path = self.path_of::<K>(&namespace);
            match file::names(&path) {
                Ok(None) => continue,
                Ok(Some(names)) => {
                    keys.extend(names.iter().filter_map(|name| match layout::entry(name) {
                        Entry::Object(name) => Some(ObjectKey {
                            namespace: namespace.clone(),
                            name: name.to_owned(),
                        }),
                        _ => None,
                    }));
                }
                Err(_) if *scope == Scope::All => {
                    keys.insert(ObjectKey::all_in(&namespace));
                }
                Err(error) => return Err(at(&path, error)),
            }
            found.insert(namespace);
        }
        self.missing::<K>(scope, &found)?;
        Ok(keys)
    }

    /// The names of namespaces, and of other files in the root if all are in scope.
    ///
    /// # Errors
    /// A text: the root is gone, or cannot be read.
    pub(super) fn names_in_scope(&self, scope: &Scope) -> Result<Vec<String>, String> {
        self.check_root()?;
        match scope {
            Scope::Namespace(only) => Ok(vec![only.clone()]),
            Scope::All => match file::names(&self.root) {
                Ok(names) => Ok(names.unwrap_or_default()),
                Err(error) => Err(at(&self.root, error)),
            },
        }
    }

    /// The namespaces that had objects and are not found.
    ///
    /// # Errors
    /// A text: so many vanished at once that nothing was deleted. A mount went away, or the folders are being restored.
    /// A single namespace in scope cannot be compared with others.
    pub(super) fn missing<K: Kind>(
        &self,
        scope: &Scope,
        found: &BTreeSet<String>,
    ) -> Result<Vec<String>, String> {
        let plural = K::plural(&());
        let populated = self.populated();
        let of_kind = populated.iter().filter(|path| path.ends_with(&*plural));
        let namespaces = of_kind.filter_map(|path| path.parent()?.file_name()?.to_str());
        let had: BTreeSet<&str> = namespaces
            .filter(|namespace| match scope {
                Scope::All => true,
                Scope::Namespace(only) => only == namespace,
            })
            .collect();
        let missing = had.iter().filter(|namespace| !found.contains(**namespace));
        let missing: Vec<String> = missing.map(|namespace| (*namespace).to_owned()).collect();
        let at_most = match scope {
            Scope::All => had.len() / 2,
            Scope::Namespace(_) => 0,
        };
        match missing.first() {
            Some(first) if missing.len() > at_most => Err(vanished(&self.path_of::<K>(first))),
            _ => Ok(missing),
        }
    }
}

pub(super) fn at(path: &Path, error: impl Display) -> String {
    format!("{}: {error}", path.display())
}

/// The error text for a folder that had objects and is gone.
pub(super) fn vanished(path: &Path) -> String {
    format!(
        "the folder {} had objects and is gone: put it back, or make it empty if they are to go",
        path.display()
    )
}
