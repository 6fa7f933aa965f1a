//! Which objects there are, by their files' names alone.

use std::{collections::BTreeSet, io, os::fd::OwnedFd};

use super::{
    super::{Kind, ObjectKey, Scope, StoreError, names::is_namespace},
    file,
    layout::{self, Entry},
    objects::{Folder, at, vanished},
};

impl Folder {
    /// The keys of all objects of a kind in the scope.
    pub(super) fn list_keys<K: Kind>(
        &self,
        scope: &Scope,
    ) -> Result<BTreeSet<ObjectKey>, StoreError> {
        let root = self.open_root().map_err(StoreError::unavailable)?;
        let namespaces = match scope {
            Scope::Namespace(only) => vec![only.clone()],
            Scope::All => file::names(&root)
                .map_err(|error| StoreError::unavailable(at(&self.root, error)))?,
        };
        let (mut keys, mut found) = (BTreeSet::new(), BTreeSet::new());
        for namespace in namespaces.into_iter().filter(|name| is_namespace(name)) {
            match keys_in::<K>(&root, &namespace) {
                Ok(None) => continue,
                Ok(Some(more)) => keys.extend(more),
                Err(_) if *scope == Scope::All => {
                    keys.insert(ObjectKey::all_in(&namespace));
                }
                Err(error) => {
                    let path = self.path_of::<K>(&namespace);
                    return Err(StoreError::unavailable(at(&path, error)));
                }
            }
            found.insert(namespace);
        }
        let had = self.populated_namespaces::<K>(scope);
        let mut missing = had.difference(&found);
        if let Some(first) = missing.next()
            && too_many_vanished(scope, 1 + missing.count(), had.len())
        {
            let path = self.path_of::<K>(first);
            return Err(StoreError::unavailable(vanished(&path)));
        }
        Ok(keys)
    }

    /// The namespaces in scope in whose folders objects of the kind were seen.
    pub(super) fn populated_namespaces<K: Kind>(&self, scope: &Scope) -> BTreeSet<String> {
        let plural = K::plural(&());
        let populated = self.populated();
        let of_kind = populated.iter().filter(|path| path.ends_with(&*plural));
        let namespaces = of_kind.filter_map(|path| path.parent()?.file_name()?.to_str());
        namespaces
            .filter(|namespace| match scope {
                Scope::All => true,
                Scope::Namespace(only) => namespace == only,
            })
            .map(str::to_owned)
            .collect()
    }
}

/// Whether so many of the namespaces that had objects vanished at once that nothing was deleted: a mount went away, or the folders are
/// being put back. The folder of a single namespace that is all there is has no others to tell that.
pub(super) fn too_many_vanished(scope: &Scope, vanished: usize, had: usize) -> bool {
    match scope {
        Scope::All => vanished > had / 2,
        Scope::Namespace(_) => vanished > 0,
    }
}

/// The keys in a namespace; `None` if it has no folder of the kind.
fn keys_in<K: Kind>(root: &OwnedFd, namespace: &str) -> io::Result<Option<BTreeSet<ObjectKey>>> {
    let Some(folder) = file::open_in(root, namespace)? else {
        return Ok(None);
    };
    let Some(folder) = file::open_kind(folder, &K::plural(&()))? else {
        return Ok(None);
    };
    let mut keys = BTreeSet::new();
    for file_name in file::names(&folder)? {
        if let Entry::Object(name) = layout::entry(&file_name) {
            keys.insert(ObjectKey {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            });
        }
    }
    Ok(Some(keys))
}
