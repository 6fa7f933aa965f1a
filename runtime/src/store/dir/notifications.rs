//! inotify events of a store. They only say where to look again.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    future::{self, Future},
    io,
    mem::{self, MaybeUninit},
    os::fd::OwnedFd,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::{
    fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags},
    io::Errno,
};
use tokio::io::{Interest, unix::AsyncFd};
use tracing::warn;

use super::{
    super::ObjectKey,
    layout::{self, Entry},
};

/// Above this number of changed files, everything is read.
const MAX_FILES: usize = 4096;

/// A file that is being written is read when it is closed, or after this time without a write.
pub(super) const WRITE_PAUSE: Duration = Duration::from_secs(1);

/// The watched events in a folder of folders: creations, moves and deletions.
const FOLDERS: WatchFlags = WatchFlags::ATTRIB
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// The watched events in a folder of objects. Opens and reads are left out: many are our own.
const OBJECTS: WatchFlags = FOLDERS
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::MODIFY);

/// Reads notifications when the watch has time for them. Until then they wait in the kernel, which reports an overflow.
#[derive(Default)]
pub(super) struct Notifications {
    /// The name of the folder of objects in that of a namespace.
    plural: String,
    inotify: Option<Arc<AsyncFd<OwnedFd>>>,
    /// By watch descriptor.
    folders: HashMap<i32, Place>,
    /// inotify is unavailable, or a folder could not be watched.
    pub(super) is_incomplete: bool,
    work: Work,
    /// Files that are being written, and the time of the last write.
    writing: BTreeMap<ObjectKey, Instant>,
}

/// A watched folder.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Place {
    Root,
    Namespace,
    /// The folder of the kind, in this namespace.
    Objects(String),
}

/// The places to look at.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Work {
    /// Notifications were lost: read everything.
    pub(super) lost: bool,
    /// Folders changed: check everything, but read only changed files.
    pub(super) everything: bool,
    /// These files changed.
    pub(super) files: BTreeSet<ObjectKey>,
}

impl Notifications {
    /// Must be called within a tokio runtime.
    pub(super) fn new(plural: String) -> Self {
        // The alternative is unsafe, for descriptors that may be closed meanwhile. This one is owned.
        #[allow(deprecated)]
        let register = |fd| AsyncFd::with_interest(fd, Interest::READABLE);
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .map_err(io::Error::from)
            .and_then(register)
            .inspect_err(|error| warn!("no notifications of changed files: {error}"));
        Self {
            plural,
            is_incomplete: inotify.is_err(),
            inotify: inotify.ok().map(Arc::new),
            ..Self::default()
        }
    }

    /// Watches a folder. Call it also for a watched path: another folder of the same name may be there.
    pub(super) fn watch(&mut self, path: &Path, place: Place) {
        let Some(inotify) = &self.inotify else {
            return;
        };
        let flags = match place {
            Place::Objects(_) => OBJECTS,
            Place::Root | Place::Namespace => FOLDERS,
        };
        match inotify::add_watch(&**inotify, path, flags) {
            // The previous folder at this path may still be watched: its events lead to a look at this one.
            Ok(id) => {
                self.folders.insert(id, place);
            }
            // The periodic look notices a folder that vanished meanwhile.
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => {
                if !mem::replace(&mut self.is_incomplete, true) {
                    warn!("no notifications of changes in {}: {errno}", path.display());
                }
            }
        }
    }

    /// Waits until there may be a notification.
    pub(super) fn arrived(&self) -> impl Future<Output = ()> + Send + use<> {
        let inotify = self.inotify.clone();
        async move {
            match &inotify {
                Some(inotify) => {
                    if let Ok(mut ready) = inotify.readable().await {
                        ready.clear_ready();
                    }
                }
                None => future::pending().await,
            }
        }
    }

    /// The notified places, and the files whose writer has paused.
    pub(super) fn take(&mut self) -> Work {
        if let Some(inotify) = self.inotify.clone()
            && let Err(errno) = self.read(inotify.get_ref())
        {
            warn!("reading notifications of changed files: {errno}");
            self.work.lost = true;
        }
        let mut work = mem::take(&mut self.work);
        let paused = self
            .writing
            .extract_if(.., |_, last| last.elapsed() >= WRITE_PAUSE);
        work.files.extend(paused.map(|(key, _)| key));
        work
    }

    fn read(&mut self, inotify: &OwnedFd) -> rustix::io::Result<()> {
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = inotify::Reader::new(inotify, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => {
                    let (id, flags) = (event.wd(), event.events());
                    let name = event.file_name().map(|name| name.to_string_lossy());
                    if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                        self.work.lost = true;
                    } else if flags.contains(ReadFlags::IGNORED) {
                        self.folders.remove(&id);
                    } else if let Some(place) = self.folders.get(&id).cloned() {
                        self.take_in(&place, flags, name.as_deref());
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Records an event of a folder, or of the file of this name in it.
    pub(super) fn take_in(&mut self, place: &Place, flags: ReadFlags, name: Option<&str>) {
        let work = &mut self.work;
        match (place, name) {
            (_, None) => work.everything = true,
            (Place::Root, Some(name)) => work.everything |= !name.starts_with('.'),
            (Place::Namespace, Some(name)) => work.everything |= name == self.plural,
            (Place::Objects(namespace), Some(name)) => match layout::entry(name) {
                Entry::Object(name) => {
                    let key = ObjectKey {
                        namespace: namespace.clone(),
                        name: name.to_owned(),
                    };
                    self.file_changed(key, flags);
                }
                // Only the name of the file matters.
                _ => {
                    let is_content = flags.intersects(ReadFlags::MODIFY | ReadFlags::CLOSE_WRITE);
                    work.everything |= !is_content && !layout::is_temporary(name);
                }
            },
        }
    }

    fn file_changed(&mut self, key: ObjectKey, flags: ReadFlags) {
        if flags.intersects(ReadFlags::CREATE | ReadFlags::MODIFY) {
            if self.writing.len() < MAX_FILES {
                self.writing.insert(key, Instant::now());
                return;
            }
        } else if !flags.contains(ReadFlags::ATTRIB) {
            self.writing.remove(&key);
        }
        if self.work.files.len() < MAX_FILES {
            self.work.files.insert(key);
        } else {
            self.work.everything = true;
        }
    }

    /// When the next writer will have paused for long enough.
    pub(super) fn next_pause(&self) -> Option<Instant> {
        let first = self.writing.values().min()?;
        Some(*first + WRITE_PAUSE)
    }

    /// Whether the file is being written.
    pub(super) fn is_being_written(&self, key: &ObjectKey) -> bool {
        self.writing.contains_key(key)
    }

    /// Records that a file changed while it was read.
    pub(super) fn note_writing(&mut self, key: ObjectKey) {
        self.writing.insert(key, Instant::now());
    }
}

#[cfg(test)]
mod tests;
