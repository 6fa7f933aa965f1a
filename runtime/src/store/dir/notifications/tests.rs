use std::fs;

use super::*;

impl Notifications {
    /// Notifications without inotify.
    pub(in super::super) fn none(plural: String) -> Self {
        Self {
            plural,
            ..Self::default()
        }
    }

    /// Simulates an overflow.
    pub(in super::super) fn overflow(&mut self) {
        self.work.lost = true;
    }
}

const RENAME: ReadFlags = ReadFlags::MOVED_TO;
const WRITE: ReadFlags = ReadFlags::MODIFY;
const CLOSE: ReadFlags = ReadFlags::CLOSE_WRITE;

fn notifications() -> Notifications {
    Notifications::none("things".to_owned())
}

fn objects() -> Place {
    Place::Objects("ns".to_owned())
}

fn key(name: &str) -> ObjectKey {
    ObjectKey {
        namespace: "ns".to_owned(),
        name: name.to_owned(),
    }
}

/// The places to look at after these events in the folder of objects.
fn after(events: &[(ReadFlags, &str)]) -> Work {
    let mut notifications = notifications();
    for (flags, name) in events {
        notifications.take_in(&objects(), *flags, Some(name));
    }
    notifications.take()
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
    for flags in [RENAME, CLOSE, ReadFlags::DELETE, ReadFlags::ATTRIB] {
        assert_eq!(after(&[(flags, "a.yaml")]), files(&["a"]));
    }
}

#[test]
fn a_file_that_is_being_written_is_left_until_it_is_closed() {
    let create = (ReadFlags::CREATE, "a.yaml");
    let write = (WRITE, "a.yaml");
    assert_eq!(after(&[create, write]), Work::default());
    assert_eq!(after(&[create, write, (CLOSE, "a.yaml")]), files(&["a"]));

    let mut notifications = notifications();
    notifications.take_in(&objects(), WRITE, Some("a.yaml"));
    assert!(notifications.is_being_written(&key("a")));
    assert!(notifications.next_pause().unwrap() <= Instant::now() + WRITE_PAUSE);
}

#[test]
fn a_file_whose_writer_paused_is_looked_at() {
    let mut notifications = notifications();
    let begun = Instant::now().checked_sub(WRITE_PAUSE).unwrap();
    notifications.writing.insert(key("a"), begun);
    assert_eq!(notifications.take(), files(&["a"]));
    assert_eq!(notifications.next_pause(), None);
}

#[test]
fn a_change_of_a_folder_means_to_look_at_everything() {
    for (place, name) in [
        (Place::Root, None),
        (Place::Root, Some("ns")),
        (Place::Namespace, None),
        (Place::Namespace, Some("things")),
        (objects(), None),
        (objects(), Some("a.yml")),
        (objects(), Some("..data")),
    ] {
        let mut notifications = notifications();
        notifications.take_in(&place, RENAME, name);
        assert_eq!(notifications.take(), everything(), "{place:?} {name:?}");
    }
}

#[test]
fn what_is_not_of_the_kind_is_ignored() {
    for (place, name) in [
        (Place::Root, ".lock"),
        (Place::Root, ".git"),
        (Place::Namespace, "others"),
        (objects(), ".tmp0"),
    ] {
        let mut notifications = notifications();
        notifications.take_in(&place, RENAME, Some(name));
        assert_eq!(notifications.take(), Work::default(), "{place:?} {name}");
    }
    let log = "some.log";
    assert_eq!(after(&[(WRITE, log), (CLOSE, log)]), Work::default());
}

#[test]
fn a_flood_of_notifications_is_bounded() {
    let mut notifications = notifications();
    for i in 0..MAX_FILES + 10 {
        for (flags, name) in [(RENAME, "a"), (WRITE, "b")] {
            let name = format!("{name}{i}.yaml");
            notifications.take_in(&objects(), flags, Some(&name));
        }
    }
    assert_eq!(notifications.writing.len(), MAX_FILES);
    let work = notifications.take();
    assert_eq!(work.files.len(), MAX_FILES);
    assert!(work.everything);
}

#[tokio::test]
async fn only_changes_are_notified() {
    let dir = tempfile::tempdir().unwrap();
    let mut notifications = Notifications::new("things".to_owned());
    notifications.watch(dir.path(), objects());
    let file = dir.path().join("a.yaml");
    fs::write(&file, "text").unwrap();
    notifications.arrived().await;
    assert_eq!(notifications.take(), files(&["a"]));
    fs::read(&file).unwrap();
    fs::read_dir(dir.path()).unwrap();
    assert_eq!(notifications.take(), Work::default());
    assert!(!notifications.is_incomplete);
}

#[tokio::test]
async fn more_notifications_than_the_kernel_keeps_means_that_changes_were_lost() {
    let dir = tempfile::tempdir().unwrap();
    let mut notifications = Notifications::new("things".to_owned());
    notifications.watch(dir.path(), objects());
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let (one, other) = (dir.path().join("a.yaml"), dir.path().join("b.yaml"));
    fs::write(&one, "").unwrap();
    for _ in 0..limit.trim().parse::<usize>().unwrap() / 4 + 1 {
        fs::rename(&one, &other).unwrap();
        fs::rename(&other, &one).unwrap();
    }
    assert!(notifications.take().lost);
    assert!(!notifications.take().lost);
}

#[tokio::test]
async fn a_folder_that_replaces_another_one_is_watched() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, aside) = (dir.path().join("things"), dir.path().join("aside"));
    let mut notifications = Notifications::new("things".to_owned());
    // The periodic look notices a missing folder.
    notifications.watch(&folder, objects());
    assert!(!notifications.is_incomplete);
    fs::create_dir(&folder).unwrap();
    notifications.watch(&folder, objects());
    fs::rename(&folder, &aside).unwrap();
    assert_eq!(notifications.take(), everything());
    fs::create_dir(&folder).unwrap();
    notifications.watch(&folder, objects());
    fs::write(folder.join("a.yaml"), "").unwrap();
    assert_eq!(notifications.take(), files(&["a"]));
    fs::remove_dir_all(&aside).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    notifications.take();
    assert!(notifications.folders.is_empty());
}
