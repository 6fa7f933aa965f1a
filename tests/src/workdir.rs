//! The folder of a test's servers.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
};

use tempfile::TempDir;

/// How many lines of each log are shown after a failure.
const TAIL: usize = 40;

/// A temporary folder with a short path, which unix sockets require. It is deleted on drop. After a failure it stays,
/// and the ends of its logs are shown.
#[derive(Debug)]
pub struct Workdir {
    dir: Option<TempDir>,
    path: PathBuf,
    kept: bool,
}

impl Workdir {
    pub fn new() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("egress-")
            .tempdir()
            .expect("a temporary folder");
        let path = dir.path().to_owned();
        Self {
            dir: Some(dir),
            path,
            kept: true,
        }
    }

    /// A folder that is also deleted after a failure.
    pub fn transient() -> Self {
        let mut workdir = Self::new();
        workdir.kept = false;
        workdir
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// The last lines of every `*.log` in it.
    pub fn tails(&self) -> String {
        let mut logs: Vec<PathBuf> = fs::read_dir(&self.path)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
            .collect();
        logs.sort();
        logs.iter()
            .map(|path| format!("--- {}\n{}\n", path.display(), tail(path)))
            .collect()
    }
}

impl Default for Workdir {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Workdir {
    fn drop(&mut self) {
        if thread::panicking() {
            eprint!("{}", self.tails());
            if let Some(dir) = self.dir.take_if(|_| self.kept) {
                eprintln!("everything is kept in {}", dir.keep().display());
            }
        }
    }
}

fn tail(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}
