//! The files that a Corefile imports.

use std::{
    collections::BTreeMap,
    fs,
    path::{Component, Path, PathBuf},
};

use glob::{MatchOptions, Pattern, glob};

/// Where a ConfigMap with a Corefile is mounted, by the manifests and charts of all platforms.
const FOLDER: &str = "/etc/coredns";

/// Where imported files are.
#[derive(Clone, Debug)]
pub(crate) enum Imports {
    /// The location is unknown.
    Unknown,
    /// Relative to this folder.
    Folder(PathBuf),
    /// By their paths below `/etc/coredns`. A path that ends with `/` is a folder, which may be empty.
    Files(BTreeMap<String, String>),
}

/// The keys of the ConfigMap `coredns-custom` as files. Platforms mount it below the Corefile.
pub(crate) fn custom_files(data: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let files = data.into_iter();
    let mut files: BTreeMap<_, _> = files
        .map(|(key, it)| (format!("custom/{key}"), it))
        .collect();
    files.insert("custom/".to_owned(), String::new());
    files
}

impl Imports {
    /// The folder of the Corefile.
    pub(super) fn folder(&self) -> PathBuf {
        match self {
            Self::Folder(folder) => folder.clone(),
            _ => PathBuf::from(FOLDER),
        }
    }

    /// The paths and texts of the files that a pattern in a file of this folder matches; `None` if they are unknown.
    pub(super) fn find(&self, folder: &Path, pattern: &str) -> Option<Vec<(PathBuf, String)>> {
        let path = folder.join(pattern);
        let found: Vec<_> = match self {
            Self::Unknown => return None,
            Self::Folder(_) => {
                let found = glob(path.to_str()?).ok()?.map(|path| {
                    let path = path.ok()?;
                    let text = fs::read_to_string(&path).ok()?;
                    Some((path, text))
                });
                found.collect::<Option<_>>()?
            }
            Self::Files(files) => {
                let plain = path.components().filter(|it| *it != Component::CurDir);
                let plain: PathBuf = plain.collect();
                let below = plain.strip_prefix(FOLDER).ok()?;
                let parent = below.parent()?;
                let is_own = parent == Path::new("");
                if !is_own && !files.keys().any(|it| Path::new(it).starts_with(parent)) {
                    return None;
                }
                let pattern = Pattern::new(below.to_str()?).ok()?;
                let options = MatchOptions {
                    require_literal_separator: true,
                    ..MatchOptions::default()
                };
                let found = files.iter().filter(|(file, _)| {
                    !file.ends_with('/') && pattern.matches_with(file, options)
                });
                let found = found.map(|(file, text)| (Path::new(FOLDER).join(file), text.clone()));
                found.collect()
            }
        };
        (!found.is_empty() || pattern.contains(['*', '?'])).then_some(found)
    }
}
