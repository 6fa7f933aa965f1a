//! The existing objects, by their files' names alone, and the missing namespaces.

use std::{collections::BTreeSet, fs::File, io};

use super::{
    super::{Kind, ObjectKey, Scope, names::is_namespace},
    file,
    folder::{Folder, at},
    layout::{self, Entry},
    objects::vanished,
};

impl Folder {
    /// The keys of all objects of a kind in the scope.
    ///
    /// # Errors
    /// A text: a part of the list is unavailable.
    pub(super) fn list_keys<K: Kind>(&self, scope: &Scope) -> Result<BTreeSet<ObjectKey>, String> {
        let root = self.open_root()?;
        let (mut keys, mut found) = (BTreeSet::new(), BTreeSet::new());
        for namespace in self.names_in_scope(&root, scope)? {
            if !is_namespace(&namespace) {
                continue;
            }
            match keys_in::<K>(&root, &namespace) {
                Ok(None) => continue,
                Ok(Some(more)) => keys.extend(more),
                Err(_) if *scope == Scope::All => {
                    keys.insert(ObjectKey::all_in(&namespace));
                }
                Err(error) => return Err(at(&self.path_of::<K>(&namespace), error)),
            }
            found.insert(namespace);
        }
        self.missing::<K>(scope, BTreeSet::new(), &found)?;
        Ok(keys)
    }

    /// The names of namespaces, and of other files in the root if all are in scope.
    pub(super) fn names_in_scope(&self, root: &File, scope: &Scope) -> Result<Vec<String>, String> {
        match scope {
            Scope::Namespace(only) => Ok(vec![only.clone()]),
            Scope::All => file::names(root).map_err(|error| at(&self.root, error)),
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
        mut had: BTreeSet<String>,
        found: &BTreeSet<String>,
    ) -> Result<Vec<String>, String> {
        let plural = K::plural(&());
        for path in self.populated().iter() {
            let namespace = path.parent().and_then(|path| path.file_name()?.to_str());
            let is_in_scope = |namespace: &&str| match scope {
                Scope::All => true,
                Scope::Namespace(only) => only == namespace,
            };
            if path.ends_with(&*plural) {
                had.extend(namespace.filter(is_in_scope).map(str::to_owned));
            }
        }
        let missing: Vec<String> = had.difference(found).cloned().collect();
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

/// The keys in a namespace; `None` if it has no folder of the kind.
fn keys_in<K: Kind>(root: &File, namespace: &str) -> io::Result<Option<Vec<ObjectKey>>> {
    let Some(folder) = Folder::open::<K>(root, namespace)? else {
        return Ok(None);
    };
    let key = |file_name: &String| match layout::entry(file_name) {
        Entry::Object(name) => Some(ObjectKey {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }),
        _ => None,
    };
    Ok(Some(file::names(&folder)?.iter().filter_map(key).collect()))
}
