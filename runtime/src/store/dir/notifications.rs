//! What inotify says of a store: where to look again, and no more than that.

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

/// More files than this at a time, and everything is looked at.
const MAX_FILES: usize = 4096;

/// A file that somebody has begun to write is read when it is closed, or when nobody has written it for this long.
pub(super) const WRITE_PAUSE: Duration = Duration::from_secs(1);

/// What is watched in a folder of folders: what is made, moved, and deleted there.
const FOLDERS: WatchFlags = WatchFlags::ATTRIB
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// And in a folder of objects: not opening and reading, much of which is our own.
const OBJECTS: WatchFlags = FOLDERS
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::MODIFY);

/// Reads notifications when the watch has time for them. Until then they wait in the kernel, which says if there are too many.
#[derive(Default)]
pub(super) struct Notifications {
    /// The folder of objects in that of a namespace.
    plural: String,
    inotify: Option<Arc<AsyncFd<OwnedFd>>>,
    /// By watch descriptor.
    folders: HashMap<i32, Place>,
    /// Notifications cannot be had, or a folder could not be watched.
    pub(super) is_incomplete: bool,
    work: Work,
    /// Files that are being written, and since when nothing more came.
    writing: BTreeMap<ObjectKey, Instant>,
}

/// A folder that is watched.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Place {
    Root,
    Namespace(String),
    /// That of the kind, in this namespace.
    Objects(String),
}

/// Where to look again.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Work {
    /// Changes were lost: nothing that is known counts.
    pub(super) lost: bool,
    /// Folders changed: look at everything, but read only what shows a change.
    pub(super) everything: bool,
    /// These files changed.
    pub(super) files: BTreeSet<ObjectKey>,
}

impl Notifications {
    /// Must be called within a tokio runtime.
    pub(super) fn new(plural: String) -> Self {
        // What takes its place is unsafe, for descriptors that may be closed meanwhile. This one is owned.
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

    /// Watches a folder. Also if it is watched already: it may be another folder of the same name.
    pub(super) fn watch(&mut self, path: &Path, place: Place) {
        let Some(inotify) = &self.inotify else {
            return;
        };
        let flags = match place {
            Place::Objects(_) => OBJECTS,
            Place::Root | Place::Namespace(_) => FOLDERS,
        };
        match inotify::add_watch(&**inotify, path, flags) {
            Ok(id) if self.folders.get(&id) == Some(&place) => {}
            Ok(id) => {
                // The watch of a folder that was in this place before ends.
                for (before, _) in self.folders.extract_if(|_, other| *other == place) {
                    let _gone = inotify::remove_watch(&**inotify, before);
                }
                self.folders.insert(id, place);
            }
            // One that went meanwhile is missed by other means.
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => {
                if !mem::replace(&mut self.is_incomplete, true) {
                    warn!("no notifications of changes in {}: {errno}", path.display());
                }
            }
        }
    }

    /// Waits until there may be something to take.
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

    /// What has come in, and the files whose writer has paused.
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
                    if flags.contains(ReadFlags::MOVE_SELF) {
                        // What happens in it is of no interest where it is now.
                        let _gone = inotify::remove_watch(inotify, id);
                    }
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

    /// Takes in a notification of a folder, or of what is of this name in it.
    pub(super) fn take_in(&mut self, place: &Place, flags: ReadFlags, name: Option<&str>) {
        let work = &mut self.work;
        match (place, name) {
            (_, None) => work.everything = true,
            (Place::Root, Some(name)) => work.everything |= !name.starts_with('.'),
            (Place::Namespace(_), Some(name)) => work.everything |= name == self.plural,
            (Place::Objects(namespace), Some(name)) => match layout::entry(name) {
                Entry::Object(name) => {
                    let key = ObjectKey {
                        namespace: namespace.clone(),
                        name: name.to_owned(),
                    };
                    self.file_changed(key, flags);
                }
                // It matters by its name only.
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

    /// Whether somebody is writing this file.
    pub(super) fn is_being_written(&self, key: &ObjectKey) -> bool {
        self.writing.contains_key(key)
    }

    /// Notes that a file was seen to change while it was read.
    pub(super) fn note_writing(&mut self, key: ObjectKey) {
        self.writing.insert(key, Instant::now());
    }
}

#[cfg(test)]
mod tests;
