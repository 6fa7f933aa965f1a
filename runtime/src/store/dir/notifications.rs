//! When to look at which file, by inotify events.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsStr,
    future, io,
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::{
    fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags},
    io::Errno,
};
use tokio::io::{Interest, unix::AsyncFd};
use tracing::warn;

use super::folder::{is_hidden, is_manifest};

/// A file that is being written is read when it is closed, or after this time without a write.
pub(super) const WRITE_PAUSE: Duration = Duration::from_secs(1);

/// The watched events in a folder. Opens and reads are left out: many are our own.
const WATCHED: WatchFlags = WatchFlags::CLOSE_WRITE
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// Notifications wait in the kernel until the watch has time for them. The kernel reports an overflow.
pub(super) struct Notifications {
    inotify: Option<AsyncFd<OwnedFd>>,
    /// The watched folders by watch descriptor.
    folders: HashMap<i32, PathBuf>,
    /// When to look at a file.
    pub(super) due: BTreeMap<Arc<Path>, Instant>,
    /// When to list everything.
    pub(super) next_list: Instant,
}

impl Notifications {
    /// Must be called within a tokio runtime.
    pub(super) fn new() -> Self {
        // The alternative is unsafe, for descriptors that may be closed meanwhile. This one is owned.
        #[allow(deprecated)]
        let register = |fd| AsyncFd::with_interest(fd, Interest::READABLE);
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .map_err(io::Error::from)
            .and_then(register)
            .inspect_err(|error| warn!("no notifications of changed files: {error}"));
        Self {
            inotify: inotify.ok(),
            folders: HashMap::new(),
            due: BTreeMap::new(),
            next_list: Instant::now(),
        }
    }

    /// Watches a folder. Call it also for a watched path: another folder of the same name may be there.
    pub(super) fn watch(&mut self, path: &Path) {
        let Some(inotify) = &self.inotify else {
            return;
        };
        match inotify::add_watch(inotify, path, WATCHED) {
            Ok(id) => drop(self.folders.insert(id, path.to_owned())),
            Err(errno @ (Errno::NOSPC | Errno::NOMEM)) => {
                warn!("no notifications of changes in {}: {errno}", path.display());
            }
            // The next list tries again.
            Err(_) => {}
        }
    }

    /// Waits until there may be something to look at.
    pub(super) async fn wait(&self) {
        let due = self.due.values().min();
        let next = due.map_or(self.next_list, |due| self.next_list.min(*due));
        let notified = async {
            match &self.inotify {
                Some(inotify) => drop(inotify.readable().await.map(|mut it| it.clear_ready())),
                None => future::pending().await,
            }
        };
        let _late = tokio::time::timeout_at(next.into(), notified).await;
    }

    /// Takes the events since the last call.
    pub(super) fn read_events(&mut self) {
        let Some(inotify) = &self.inotify else {
            return;
        };
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = inotify::Reader::new(inotify, &mut buffer);
        while let Ok(event) = reader.next() {
            let (flags, now) = (event.events(), Instant::now());
            let name = event.file_name().unwrap_or_default();
            let name = Path::new(OsStr::from_bytes(name.to_bytes()));
            let folder = self.folders.get(&event.wd());
            let is_content = flags.intersects(ReadFlags::MODIFY | ReadFlags::CLOSE_WRITE);
            // `..data` is a link of a mounted ConfigMap.
            let is_hidden = is_hidden(name) && !name.as_os_str().as_bytes().starts_with(b"..");
            if let Some(folder) = folder.filter(|_| is_manifest(name)) {
                let is_writing = flags.intersects(ReadFlags::CREATE | ReadFlags::MODIFY);
                let due = if is_writing { now + WRITE_PAUSE } else { now };
                self.due.insert(folder.join(name).into(), due);
            } else if flags.contains(ReadFlags::IGNORED) {
                self.folders.remove(&event.wd());
            } else if !is_content && !is_hidden {
                // Also an overflow.
                self.next_list = now;
            }
        }
    }
}

#[cfg(test)]
mod tests;
