//! Finds changed files of a store by polling.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// A new, changed or deleted file of a store.
pub(super) struct Changed {
    /// Below the store's folder: namespace, kind and file name.
    pub(super) path: PathBuf,
    pub(super) text: Option<String>,
}

impl Changed {
    pub(super) fn namespace(&self) -> &str {
        let first = self.path.iter().next();
        first.and_then(|name| name.to_str()).unwrap_or_default()
    }

    pub(super) fn is_of(&self, plural: &str) -> bool {
        self.path.iter().nth(1).is_some_and(|kind| kind == plural)
    }
}

/// The files of a store at the last look.
#[derive(Default)]
pub(super) struct Files {
    known: BTreeMap<PathBuf, Stamp>,
}

/// A value that changes when a file is written or replaced: inode, time in nanoseconds, length.
type Stamp = (u64, i64, i64, u64);

impl Files {
    /// The changes since the last call.
    pub(super) fn look(&mut self, root: &Path) -> Vec<Changed> {
        let mut changed = Vec::new();
        let mut there = BTreeSet::new();
        for path in entries(root)
            .iter()
            .flat_map(|namespace| entries(namespace))
        {
            let files = entries(&path).into_iter();
            for file in files.filter(|file| is_object(file)) {
                let Ok(relative) = file.strip_prefix(root) else {
                    continue;
                };
                there.insert(relative.to_owned());
                let Ok(stat) = fs::metadata(&file) else {
                    continue;
                };
                let stamp = (stat.ino(), stat.mtime(), stat.mtime_nsec(), stat.len());
                if self.known.get(relative) == Some(&stamp) {
                    continue;
                }
                let Ok(text) = fs::read_to_string(&file) else {
                    continue;
                };
                self.known.insert(relative.to_owned(), stamp);
                changed.push(Changed {
                    path: relative.to_owned(),
                    text: Some(text),
                });
            }
        }
        let gone: Vec<_> = self
            .known
            .extract_if(.., |path, _| !there.contains(path))
            .collect();
        changed.extend(
            gone.into_iter()
                .map(|(path, _)| Changed { path, text: None }),
        );
        changed
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect()
}

fn is_object(file: &Path) -> bool {
    let name = file
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    name.ends_with(".yaml") && !name.starts_with('.')
}
