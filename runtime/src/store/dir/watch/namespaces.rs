//! A look at the folders of namespaces.
//!
//! If all namespaces are in scope, their folders may belong to tenants. A fault of one tenant's folder says nothing
//! about the others. If only one namespace is in scope, its folder is the store.

use std::{collections::BTreeSet, io};

use tracing::warn;

use super::{
    super::{
        super::{Kind, ObjectKey, Scope, names::is_namespace},
        fault::Fault,
        file,
        folder::at,
        layout::{self, Entry},
        notifications::Place,
    },
    Watch,
};

impl<K: Kind> Watch<K> {
    /// Looks at every folder.
    ///
    /// # Errors
    /// A text: why absences currently mean nothing.
    pub(super) fn look_at_root(&mut self) -> Result<(), String> {
        self.misnamed.clear();
        let mut found = BTreeSet::new();
        let looked = self.look_at_namespaces(&mut found);
        if looked.is_err() {
            // In a missing folder no file was deleted, so none needs another look soon.
            self.gone.retain(|key, _| found.contains(&key.namespace));
        }
        looked
    }

    fn look_at_namespaces(&mut self, found: &mut BTreeSet<String>) -> Result<(), String> {
        self.notifications.watch(&self.folder.root, Place::Root);
        let names = self.folder.names_in_scope(&self.scope)?;
        self.faults.retain(|key, _| !key.is_all());
        for name in names {
            if !is_namespace(&name) {
                self.look_at_misnamed(&name);
                continue;
            }
            match self.look_at_namespace(&name) {
                Ok(false) => continue,
                Ok(true) => {}
                Err(error) if self.scope == Scope::All => {
                    // The last known objects stay valid.
                    self.gone.retain(|key, _| key.namespace != name);
                    let fault = Fault::new(error.to_string());
                    self.faults.insert(ObjectKey::all_in(&name), fault);
                }
                Err(error) => return Err(at(&self.folder.path_of::<K>(&name), error)),
            }
            found.insert(name);
        }
        self.look_for_vanished(found)
    }

    /// Looks at a namespace; `false` if it has no folder of the kind.
    fn look_at_namespace(&mut self, namespace: &str) -> io::Result<bool> {
        let path = self.folder.path_of::<K>(namespace);
        let parent = self.folder.root.join(namespace);
        self.notifications.watch(&parent, Place::Namespace);
        let place = Place::Objects(namespace.to_owned());
        self.notifications.watch(&path, place);
        let (Some(names), Some(now)) = (file::names(&path)?, file::fingerprint(&path)?) else {
            return Ok(false);
        };
        let before = self.folders.insert(namespace.to_owned(), now);
        self.is_anew |= before.is_some_and(|before| !before.is_same_file(&now));
        // A listing may miss a file that is renamed meanwhile, so known files are checked by name.
        let mut keys: BTreeSet<ObjectKey> = self.files.keys_in(namespace).collect();
        for name in names {
            match layout::entry(&name) {
                Entry::Object(name) => {
                    keys.insert(ObjectKey {
                        namespace: namespace.to_owned(),
                        name: name.to_owned(),
                    });
                }
                Entry::Misnamed(reason) => {
                    self.misnamed.insert(path.join(&name), Fault::new(reason));
                }
                Entry::Other => {}
            }
        }
        if keys.is_empty() {
            self.folder.populated().remove(&path);
        } else {
            self.folder.populated().insert(path);
        }
        if let Some(list) = &mut self.list {
            list.reserve(keys.len());
        }
        for key in keys {
            self.look_at_file(key);
        }
        Ok(true)
    }

    /// A folder without a valid namespace name matters only if it has objects. An unreadable one is foreign, such as a
    /// lost+found.
    fn look_at_misnamed(&mut self, name: &str) {
        let path = self.folder.path_of::<K>(name);
        if !name.starts_with('.') && path.is_dir() {
            let reason = "its folder is not the name of a namespace";
            self.misnamed.insert(path, Fault::new(reason));
        }
    }

    /// Deletes the objects of vanished namespaces, unless too many vanished.
    fn look_for_vanished(&mut self, found: &BTreeSet<String>) -> Result<(), String> {
        for namespace in self.folder.missing::<K>(&self.scope, found)? {
            let keys: Vec<ObjectKey> = self.files.keys_in(&namespace).collect();
            for key in keys {
                let since = self.gone.remove(&key);
                self.absent(key, since);
            }
            if !self.files.are_in(&namespace) {
                let path = self.folder.path_of::<K>(&namespace);
                warn!(kind = %K::kind(&()), "the folder {} is gone, and its objects with it", path.display());
                self.folder.populated().remove(&path);
                self.folders.remove(&namespace);
            }
        }
        Ok(())
    }
}
