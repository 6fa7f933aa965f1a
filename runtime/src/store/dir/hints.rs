//! What the file system's notifications say of a store: where to look again, and no more than that.

use std::{
    collections::{HashMap, HashSet},
    path::{Component, Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use notify::{
    Event, EventKind,
    event::{AccessKind, AccessMode, CreateKind, ModifyKind},
};
use tokio::sync::Notify;

use super::{
    super::ObjectKey,
    layout::{self, Entry},
};

/// More than this at a time, and everything is looked at.
const MAX_HINTS: usize = 4096;

/// A file that somebody has begun to write is read when it is closed, or when nobody has written it for this long.
pub(super) const WRITE_PAUSE: Duration = Duration::from_secs(1);

/// Collects notifications until the watch has time for them.
pub(super) struct Hints {
    root: PathBuf,
    plural: String,
    pending: Mutex<Pending>,
    arrived: Notify,
}

#[derive(Default)]
struct Pending {
    work: Work,
    /// Files that are being written, and since when nothing more came.
    writing: HashMap<ObjectKey, Instant>,
}

/// Where to look again.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Work {
    /// Changes were lost: nothing that is known counts.
    pub(super) lost: bool,
    /// Folders changed: look at everything, but read only what shows a change.
    pub(super) everything: bool,
    /// These files changed.
    pub(super) files: HashSet<ObjectKey>,
}

enum Place {
    Elsewhere,
    Folder,
    File(ObjectKey),
    /// In the folder of objects, but not an object: matters by its name only.
    Beside,
}

impl Hints {
    pub(super) fn new(root: PathBuf, plural: String) -> Self {
        Self {
            root,
            plural,
            pending: Mutex::default(),
            arrived: Notify::new(),
        }
    }

    /// Takes a notification in.
    pub(super) fn handle(&self, event: notify::Result<Event>) {
        let mut pending = self.pending();
        match event {
            Ok(event) if event.need_rescan() => pending.work.lost = true,
            Ok(event) => {
                for path in &event.paths {
                    self.take_in(&mut pending, &event.kind, path);
                }
            }
            Err(error) => {
                tracing::warn!("watching {}: {error}", self.root.display());
                pending.work.lost = true;
            }
        }
        if pending.work != Work::default() {
            self.arrived.notify_one();
        }
    }

    fn take_in(&self, pending: &mut Pending, kind: &EventKind, path: &Path) {
        let closed = matches!(
            kind,
            EventKind::Access(AccessKind::Close(AccessMode::Write))
        );
        let written = matches!(kind, EventKind::Modify(ModifyKind::Data(_)));
        match self.place(path) {
            Place::Elsewhere => {}
            // Opening and reading are noise, much of it our own.
            _ if matches!(kind, EventKind::Access(_)) && !closed => {}
            Place::Folder => pending.work.everything = true,
            Place::Beside => pending.work.everything |= !(written || closed),
            Place::File(key) => {
                if written || matches!(kind, EventKind::Create(CreateKind::File)) {
                    if pending.writing.len() < MAX_HINTS {
                        pending.writing.insert(key, Instant::now());
                        return;
                    }
                } else if !matches!(kind, EventKind::Modify(ModifyKind::Metadata(_))) {
                    pending.writing.remove(&key);
                }
                pending.look_at(key);
            }
        }
    }

    fn place(&self, path: &Path) -> Place {
        let Ok(path) = path.strip_prefix(&self.root) else {
            return Place::Folder;
        };
        let names: Vec<_> = path
            .components()
            .map(|component| match component {
                Component::Normal(name) => name.to_str().unwrap_or("\u{fffd}"),
                _ => "",
            })
            .collect();
        match names.as_slice() {
            [] => Place::Folder,
            [first, ..] if first.starts_with('.') => Place::Elsewhere,
            [_] => Place::Folder,
            [_, kind, ..] if *kind != self.plural => Place::Elsewhere,
            [_, _] => Place::Folder,
            [_, _, name] if layout::is_temporary(name) => Place::Elsewhere,
            [namespace, _, name] => match layout::entry(name) {
                Entry::Object(name) => Place::File(ObjectKey {
                    namespace: (*namespace).to_owned(),
                    name: name.to_owned(),
                }),
                _ => Place::Beside,
            },
            _ => Place::Elsewhere,
        }
    }

    /// Waits for a hint.
    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// What has come in, and the files whose writer has paused.
    pub(super) fn take(&self) -> Work {
        let mut pending = self.pending();
        let mut work = std::mem::take(&mut pending.work);
        pending.writing.retain(|key, last| {
            let still = last.elapsed() < WRITE_PAUSE;
            if !still {
                work.files.insert(key.clone());
            }
            still
        });
        work
    }

    /// When the next writer will have paused for long enough.
    pub(super) fn next_pause(&self) -> Option<Instant> {
        let first = self.pending().writing.values().min().copied()?;
        Some(first + WRITE_PAUSE)
    }

    /// Whether somebody is writing this file.
    pub(super) fn is_being_written(&self, key: &ObjectKey) -> bool {
        self.pending().writing.contains_key(key)
    }

    /// Notes that a file was seen to change. If a notification has said so meanwhile, the file was replaced while it was read, or its
    /// writer has closed it: it is looked at again at once.
    pub(super) fn note_writing(&self, key: &ObjectKey) {
        let mut pending = self.pending();
        let is_due = pending.work.everything || pending.work.files.contains(key);
        if !is_due && pending.writing.len() < MAX_HINTS {
            pending.writing.insert(key.clone(), Instant::now());
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        // The worst that a panic leaves is a hint too many.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    fn look_at(&mut self, key: ObjectKey) {
        if self.work.files.len() < MAX_HINTS {
            self.work.files.insert(key);
        } else {
            self.work.everything = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{DataChange, Flag, MetadataKind, RemoveKind, RenameMode};

    use super::*;

    const CLOSE: EventKind = EventKind::Access(AccessKind::Close(AccessMode::Write));
    const WRITE: EventKind = EventKind::Modify(ModifyKind::Data(DataChange::Any));
    const RENAME: EventKind = EventKind::Modify(ModifyKind::Name(RenameMode::To));
    const CHMOD: EventKind = EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any));
    const REMOVE: EventKind = EventKind::Remove(RemoveKind::File);

    fn hints() -> Hints {
        Hints::new("/store".into(), "things".to_owned())
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey {
            namespace: "ns".to_owned(),
            name: name.to_owned(),
        }
    }

    fn after(events: &[(EventKind, &str)]) -> Work {
        let hints = hints();
        for (kind, path) in events {
            hints.handle(Ok(
                Event::new(*kind).add_path(Path::new("/store").join(path))
            ));
        }
        hints.take()
    }

    fn files(names: &[&str]) -> Work {
        Work {
            files: names.iter().map(|name| key(name)).collect(),
            ..Work::default()
        }
    }

    fn everything() -> Work {
        Work {
            everything: true,
            ..Work::default()
        }
    }

    #[test]
    fn a_file_is_looked_at_when_it_was_renamed_closed_or_removed() {
        for kind in [RENAME, CLOSE, REMOVE, CHMOD] {
            assert_eq!(after(&[(kind, "ns/things/a.yaml")]), files(&["a"]));
        }
    }

    #[test]
    fn a_file_that_is_being_written_is_left_until_it_is_closed() {
        let path = "ns/things/a.yaml";
        let create = EventKind::Create(CreateKind::File);
        assert_eq!(after(&[(create, path), (WRITE, path)]), Work::default());
        let done = after(&[(create, path), (WRITE, path), (CLOSE, path)]);
        assert_eq!(done, files(&["a"]));

        let hints = hints();
        let path = Path::new("/store").join(path);
        hints.handle(Ok(Event::new(WRITE).add_path(path)));
        assert!(hints.is_being_written(&key("a")));
        assert!(hints.next_pause().unwrap() <= Instant::now() + WRITE_PAUSE);
    }

    #[test]
    fn a_file_whose_writer_paused_is_looked_at() {
        let hints = hints();
        let begun = Instant::now().checked_sub(WRITE_PAUSE).unwrap();
        hints.pending().writing.insert(key("a"), begun);
        assert_eq!(hints.take(), files(&["a"]));
        assert_eq!(hints.next_pause(), None);
    }

    #[test]
    fn a_file_that_is_replaced_while_it_is_read_is_looked_at_again_at_once() {
        let hints = hints();
        let path = Path::new("/store/ns/things/a.yaml").to_owned();
        hints.handle(Ok(Event::new(RENAME).add_path(path)));
        hints.note_writing(&key("a"));
        assert!(!hints.is_being_written(&key("a")));
        assert_eq!(hints.take(), files(&["a"]));
        // Without a notification it is being written.
        hints.note_writing(&key("a"));
        assert!(hints.is_being_written(&key("a")));
        assert_eq!(hints.take(), Work::default());
    }

    #[test]
    fn a_change_of_a_folder_means_to_look_at_everything() {
        for path in ["", "ns", "ns/things", "ns/things/a.yml", "ns/things/..data"] {
            assert_eq!(after(&[(RENAME, path)]), everything(), "{path}");
        }
    }

    #[test]
    fn what_is_not_of_the_kind_is_ignored() {
        for path in [
            ".lock",
            "ns/others",
            "ns/others/a.yaml",
            "ns/things/.tmp0",
            ".git/things/a.yaml",
            "ns/things/a.yaml/b",
        ] {
            assert_eq!(after(&[(RENAME, path)]), Work::default(), "{path}");
        }
        let log = "ns/things/some.log";
        assert_eq!(after(&[(WRITE, log), (CLOSE, log)]), Work::default());
        let open = EventKind::Access(AccessKind::Open(AccessMode::Any));
        assert_eq!(after(&[(open, "ns/things/a.yaml")]), Work::default());
    }

    #[test]
    fn an_overflow_or_an_error_means_that_changes_were_lost() {
        let overflow = Event::new(EventKind::Other).set_flag(Flag::Rescan);
        for event in [Ok(overflow), Err(notify::Error::generic("x"))] {
            let hints = hints();
            hints.handle(event);
            assert!(hints.take().lost);
        }
    }

    #[test]
    fn a_flood_of_hints_is_bounded() {
        let hints = hints();
        for i in 0..MAX_HINTS + 10 {
            for (kind, name) in [(RENAME, "a"), (WRITE, "b")] {
                let path = format!("/store/ns/things/{name}{i}.yaml");
                hints.handle(Ok(Event::new(kind).add_path(path.into())));
            }
        }
        assert_eq!(hints.pending().writing.len(), MAX_HINTS);
        let work = hints.take();
        assert_eq!(work.files.len(), MAX_HINTS);
        assert!(work.everything);
    }
}
