//! Which objects there are, by their files' names alone.

use std::{
    collections::{BTreeSet, HashSet},
    path::PathBuf,
};

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
        let failed = |path: PathBuf| move |error| StoreError::unavailable(at(&path, error));
        let namespaces = match scope {
            Scope::Namespace(only) => vec![only.clone()],
            Scope::All => file::names(&root).map_err(failed(self.root.clone()))?,
        };
        let (mut keys, mut found) = (BTreeSet::new(), HashSet::new());
        for namespace in namespaces.into_iter().filter(|name| is_namespace(name)) {
            let path = self.path_of::<K>(&namespace);
            let failed = failed(path.clone());
            let folder = file::open_in(&root, &namespace).and_then(|folder| match folder {
                Some(folder) => file::open_in(folder, &K::plural(&())),
                None => Ok(None),
            });
            let Some(folder) = folder.map_err(&failed)? else {
                continue;
            };
            for file_name in file::names(&folder).map_err(&failed)? {
                if let Entry::Object(name) = layout::entry(&file_name) {
                    keys.insert(ObjectKey {
                        namespace: namespace.clone(),
                        name: name.to_owned(),
                    });
                }
            }
            found.insert(path);
        }
        match self.missing::<K>(scope, &found) {
            None => Ok(keys),
            Some(reason) => Err(StoreError::unavailable(reason)),
        }
    }

    /// Why a folder that had objects is missing among those that were found, if one is.
    pub(super) fn missing<K: Kind>(
        &self,
        scope: &Scope,
        found: &HashSet<PathBuf>,
    ) -> Option<String> {
        let plural = K::plural(&());
        let populated = self.populated();
        let missing = populated
            .iter()
            .filter(|path| path.ends_with(&*plural) && !found.contains(*path))
            .filter(|path| match scope {
                Scope::All => true,
                Scope::Namespace(only) => **path == self.path_of::<K>(only),
            });
        missing.min().map(|path| vanished(path))
    }
}
