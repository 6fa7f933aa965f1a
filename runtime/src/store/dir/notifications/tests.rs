use std::fs;

use super::*;

impl Notifications {
    /// Notifications without inotify.
    pub(in super::super) fn none() -> Self {
        Self {
            inotify: None,
            folders: HashMap::new(),
            due: BTreeMap::new(),
            next_list: Instant::now(),
        }
    }
}

const LONG: Duration = Duration::from_secs(10);

/// A watched folder.
fn subject(dir: &Path) -> Notifications {
    let mut notifications = Notifications::new();
    notifications.watch(dir);
    notifications.next_list += LONG;
    notifications
}

/// The files that changed, and whether each may be read now; whether everything is to be listed.
fn changes(notifications: &mut Notifications) -> (Vec<(String, bool)>, bool) {
    notifications.read_events();
    let now = Instant::now();
    let is_list_due = notifications.next_list <= now;
    notifications.next_list = now + LONG;
    let due = std::mem::take(&mut notifications.due).into_iter();
    let due = due.map(|(path, due)| {
        assert!(due <= now + WRITE_PAUSE);
        let name = path.file_name().unwrap().to_str().unwrap();
        (name.to_owned(), due <= now)
    });
    (due.collect(), is_list_due)
}

fn file(name: &str, is_complete: bool) -> (Vec<(String, bool)>, bool) {
    (vec![(name.to_owned(), is_complete)], false)
}

#[tokio::test]
async fn file_that_is_being_written_is_due_after_a_pause() {
    let dir = tempfile::tempdir().unwrap();
    let subject = &mut subject(dir.path());
    let mut writer = fs::File::create(dir.path().join("a.yaml")).unwrap();
    assert_eq!(changes(subject), file("a.yaml", false));
    std::io::Write::write_all(&mut writer, b"half").unwrap();
    assert_eq!(changes(subject), file("a.yaml", false));
    drop(writer);
    assert_eq!(changes(subject), file("a.yaml", true));
}

#[tokio::test]
async fn overflow_of_the_kernels_queue_leads_to_a_list() {
    let dir = tempfile::tempdir().unwrap();
    let subject = &mut subject(dir.path());
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let (one, other) = (dir.path().join("a.yaml"), dir.path().join("b.yaml"));
    fs::write(&one, "").unwrap();
    for _ in 0..limit.trim().parse::<usize>().unwrap() / 4 + 1 {
        fs::rename(&one, &other).unwrap();
        fs::rename(&other, &one).unwrap();
    }
    assert!(changes(subject).1);
    assert_eq!(changes(subject), (vec![], false));
}

#[tokio::test]
async fn file_is_due_at_once_when_it_was_closed_renamed_or_removed() {
    let dir = tempfile::tempdir().unwrap();
    let subject = &mut subject(dir.path());
    let path = dir.path().join("a.yaml");
    fs::write(&path, "text").unwrap();
    subject.wait().await;
    assert_eq!(changes(subject), file("a.yaml", true));
    fs::write(dir.path().join(".new"), "text").unwrap();
    assert_eq!(changes(subject), (vec![], false));
    fs::rename(dir.path().join(".new"), &path).unwrap();
    assert_eq!(changes(subject), file("a.yaml", true));
    fs::remove_file(&path).unwrap();
    assert_eq!(changes(subject), file("a.yaml", true));
}
