//! A look at the folders of namespaces.
//!
//! Where every namespace is in scope, their folders may belong to tenants. What one tenant does to its own folder says nothing of
//! the others. Where one namespace is all there is, its folder is the store.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    io,
    os::fd::OwnedFd,
    path::Path,
};

use notify::{RecursiveMode, Watcher};
use tracing::{info, warn};

use super::{
    super::{
        super::{Kind, ObjectKey, Scope, names::is_namespace},
        file::{self, Identity},
        layout::{self, Entry},
        list::too_many_vanished,
        objects::{at, vanished},
    },
    BLIND_LOOK_INTERVAL, Watch,
};

impl<K: Kind> Watch<K> {
    /// Looks at every folder; returns why nothing follows from what is missing, if that is so.
    pub(super) fn look_at_root(&mut self) -> Option<String> {
        self.found.clear();
        let looked = self.folder.open_root().and_then(|root| {
            self.watch_folder(&self.folder.root.clone());
            self.look_at_namespaces(&root)
        });
        let missing = looked.err();
        if missing.is_some() {
            // Where a folder is missing no file was deleted, and none is to be looked at again at once.
            let found = &self.found;
            self.gone.retain(|key, _| found.contains(&key.namespace));
        }
        missing
    }

    fn look_at_namespaces(&mut self, root: &OwnedFd) -> Result<(), String> {
        let namespaces = match &self.scope {
            Scope::Namespace(only) => vec![only.clone()],
            Scope::All => file::names(root).map_err(|error| at(&self.folder.root, error))?,
        };
        let mut unreadable = BTreeMap::new();
        for namespace in namespaces.iter().filter(|name| !name.starts_with('.')) {
            if !is_namespace(namespace) {
                self.look_at_misnamed(root, namespace);
                continue;
            }
            match self.look_at_namespace(root, namespace) {
                Ok(true) => drop(self.found.insert(namespace.clone())),
                Ok(false) => {}
                Err(error) => {
                    let path = self.folder.path_of::<K>(namespace);
                    if self.scope != Scope::All {
                        return Err(at(&path, error));
                    }
                    unreadable.insert(namespace.clone(), error.to_string());
                }
            }
        }
        self.cannot_read(unreadable);
        self.look_for_vanished()
    }

    /// Looks at a namespace; `false` if it has no folder of the kind.
    fn look_at_namespace(&mut self, root: &OwnedFd, namespace: &str) -> io::Result<bool> {
        let Some(folder) = file::open_in(root, namespace)? else {
            return Ok(false);
        };
        self.watch_folder(&self.folder.root.join(namespace));
        let Some(folder) = file::open_kind(folder, &K::plural(&()))? else {
            return Ok(false);
        };
        let path = self.folder.path_of::<K>(namespace);
        self.watch_folder(&path);
        self.look_at_folder(&folder, namespace, &path)?;
        Ok(true)
    }

    fn look_at_misnamed(&mut self, root: &OwnedFd, name: &str) {
        let folder = file::open_in(root, name).and_then(|folder| match folder {
            Some(folder) => file::open_in(folder, &K::plural(&())),
            None => Ok(None),
        });
        // One that cannot be read is not ours to read, such as a lost+found.
        if matches!(folder, Ok(Some(_))) {
            let path = self.folder.path_of::<K>(name);
            self.misnamed
                .insert(path, "its folder is not the name of a namespace");
        }
    }

    /// These namespaces cannot be read, for these reasons. What is known of their objects holds.
    fn cannot_read(&mut self, unreadable: BTreeMap<String, String>) {
        for (namespace, reason) in &unreadable {
            if self.unreadable.get(namespace) != Some(reason) {
                let path = self.folder.path_of::<K>(namespace);
                self.complain(&at(&path, reason));
            }
        }
        for namespace in self.unreadable.keys() {
            if self.found.contains(namespace) {
                info!(kind = %K::kind(&()), %namespace, "can be read again");
            }
        }
        self.gone
            .retain(|key, _| !unreadable.contains_key(&key.namespace));
        self.unreadable = unreadable;
    }

    /// The objects of namespaces that cannot be read: those that are known, or one key that stands for all.
    pub(super) fn unreadable_keys(&self) -> impl Iterator<Item = ObjectKey> {
        self.unreadable.keys().flat_map(|namespace| {
            let all = self.files.is_empty_in(namespace);
            let all = all.then(|| ObjectKey::all_in(namespace));
            self.files.keys_in(namespace).chain(all)
        })
    }

    /// Deletes the objects of namespaces whose folders went, unless too many went.
    fn look_for_vanished(&mut self) -> Result<(), String> {
        let mut had: BTreeSet<String> = self.folder.populated_namespaces::<K>(&self.scope);
        had.extend(self.files.namespaces().map(str::to_owned));
        let is_there = |namespace: &&String| {
            self.found.contains(*namespace) || self.unreadable.contains_key(*namespace)
        };
        let missing: Vec<String> = had.iter().filter(|it| !is_there(it)).cloned().collect();
        if let Some(first) = missing.first()
            && too_many_vanished(&self.scope, missing.len(), had.len())
        {
            return Err(vanished(&self.folder.path_of::<K>(first)));
        }
        for namespace in missing {
            let keys: Vec<ObjectKey> = self.files.keys_in(&namespace).collect();
            for key in keys {
                let since = self.gone.remove(&key);
                self.absent(key, since);
            }
            if self.files.is_empty_in(&namespace) {
                let path = self.folder.path_of::<K>(&namespace);
                warn!(kind = %K::kind(&()), "the folder {} is gone, and its objects with it", path.display());
                self.folder.populated().remove(&path);
                self.identities.remove(&path);
            }
        }
        Ok(())
    }

    fn look_at_folder(
        &mut self,
        folder: &OwnedFd,
        namespace: &str,
        path: &Path,
    ) -> std::io::Result<()> {
        let identity = Identity::of(folder)?;
        let before = self.identities.insert(path.to_owned(), identity);
        self.is_anew |= before.is_some_and(|before| before != identity);
        let mut keys: HashSet<ObjectKey> = HashSet::new();
        for name in file::names(folder)? {
            match layout::entry(&name) {
                Entry::Object(name) => {
                    keys.insert(ObjectKey {
                        namespace: namespace.to_owned(),
                        name: name.to_owned(),
                    });
                }
                Entry::Misnamed(reason) => {
                    self.misnamed.insert(path.join(&name), reason);
                }
                Entry::Other => {}
            }
        }
        // A listing may miss a file that is renamed meanwhile: what was known is looked at by its name.
        keys.extend(self.files.keys_in(namespace));
        let is_empty = keys.is_empty();
        for key in keys {
            self.look_at_file(folder, key, self.list.is_some());
        }
        if is_empty {
            self.folder.populated().remove(path);
        } else {
            self.folder.populated().insert(path.to_owned());
        }
        Ok(())
    }

    fn watch_folder(&mut self, path: &Path) {
        // Also if it is watched already: it may be another folder of the same name.
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        if let Err(error) = watcher.watch(path, RecursiveMode::NonRecursive) {
            // One that went meanwhile is missed by other means.
            let is_new = self.look_interval != BLIND_LOOK_INTERVAL;
            if is_new && !matches!(error.kind, notify::ErrorKind::PathNotFound) {
                self.look_interval = BLIND_LOOK_INTERVAL;
                warn!("no notifications of changes in {}: {error}", path.display());
            }
        }
    }
}
