//! Folders of namespaces that vanish or become unreadable, among others.

use std::os::unix::fs::symlink;

use super::*;

/// A store with the objects `a` and `b` in one namespace, and `c` in another, whose folder is returned.
fn two_namespaces() -> (Subject, PathBuf) {
    let mut subject = subject();
    let other = subject.other("other", "c");
    subject.hint(other.clone());
    assert_eq!(subject.look(), ["applied c one.example.com."]);
    (subject, other)
}

/// A description, and the function that makes it.
type Spoil = (&'static str, fn(&Path));

/// Things that a tenant may put in the place of its folder, or of the folder of its namespace.
const SPOILS: [Spoil; 4] = [
    ("a link to itself", |path| {
        symlink(path.file_name().unwrap(), path).unwrap();
    }),
    ("a link to nothing", |path| {
        symlink("nowhere", path).unwrap();
    }),
    ("a file", |path| fs::write(path, "x").unwrap()),
    ("a pipe", |path| {
        rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RUSR).unwrap();
    }),
];

#[test]
fn a_namespace_that_goes_takes_its_own_objects_with_it() {
    for whole in [false, true] {
        let (mut subject, other) = two_namespaces();
        let gone = if whole {
            other.parent().unwrap()
        } else {
            &other
        };
        fs::remove_dir_all(gone).unwrap();
        subject.hint(other.clone());
        // A move away may be temporary.
        assert!(subject.look().is_empty());
        subject.let_gone_files_age();
        assert_eq!(subject.look(), ["deleted c"]);
        assert!(subject.watch.next_look() > Instant::now() + GONE_AFTER);
        assert!(!subject.watch.folder.populated().contains(&other));

        subject.other("other", "c");
        subject.hint(other);
        assert_eq!(subject.look(), ["applied c one.example.com."]);
    }
}

#[test]
fn a_namespace_that_comes_back_at_once_was_never_gone() {
    let (mut subject, other) = two_namespaces();
    let aside = subject.dir.path().join("aside");
    fs::rename(&other, &aside).unwrap();
    subject.hint(other.clone());
    assert!(subject.look().is_empty());
    fs::rename(&aside, &other).unwrap();
    subject.let_gone_files_age();
    assert!(subject.look().is_empty());
    assert!(subject.watch.gone.is_empty());
}

#[test]
fn the_last_namespace_that_had_objects_does_not_go() {
    let (mut subject, other) = two_namespaces();
    for (folder, expected) in [(other, "deleted c"), (subject.path(""), "out of sync")] {
        fs::remove_dir_all(&folder).unwrap();
        subject.hint(folder);
        let mut events = subject.look();
        subject.let_gone_files_age();
        events.extend(subject.look());
        assert_eq!(events, [expected]);
    }
}

#[test]
fn a_namespace_that_cannot_be_read_holds_up_no_other() {
    for (what, spoil) in SPOILS {
        let (mut subject, other) = two_namespaces();
        fs::remove_dir_all(&other).unwrap();
        spoil(&other);
        subject.hint(other.clone());
        assert_eq!(subject.look(), ["undecodable c"], "{what}");
        // Its last known objects stay valid, and those of others change as usual.
        fs::remove_file(subject.path("a.yaml")).unwrap();
        subject.hint(subject.path("a.yaml"));
        assert!(subject.look().is_empty(), "{what}");
        subject.let_gone_files_age();
        assert_eq!(subject.look(), ["deleted a"], "{what}");
        let bad = subject.watch.folder.bad_objects.list();
        assert_eq!(bad.len(), 1, "{what}: {bad:?}");
        assert_eq!(bad[0].place, other.display().to_string());

        // A new watch only learns that the namespace has objects.
        let folder = Arc::new(Folder::new(subject.dir.path().to_owned(), Duration::ZERO));
        let before = std::mem::replace(&mut subject.watch, watch(folder, Scope::All));
        assert_eq!(subject.look(), ["undecodable *", "synced b"], "{what}");
        fs::remove_file(&other).unwrap();
        subject.other("other", "c");
        subject.hint(other.clone());
        let applied = ["applied c one.example.com.", "undecodable "];
        assert_eq!(subject.look(), applied, "{what}");

        // Another folder than before: everything is delivered.
        subject.watch = before;
        subject.hint(other);
        let all = ["synced b c", "undecodable "];
        assert_eq!(subject.look(), all, "{what}");
        assert!(subject.look().is_empty(), "{what}");
    }
}

#[test]
fn an_object_of_an_unreadable_namespace_is_reported_once_it_is_readable() {
    let (mut subject, other) = two_namespaces();
    let aside = subject.dir.path().join("aside");
    fs::rename(&other, &aside).unwrap();
    symlink("dnsnameresolvers", &other).unwrap();
    subject.hint(other.clone());
    assert_eq!(subject.look(), ["undecodable c"]);
    subject.watch.notifications.overflow();
    assert_eq!(subject.look(), ["synced a b"]);
    fs::remove_file(&other).unwrap();
    fs::rename(&aside, &other).unwrap();
    subject.hint(other);
    let again = ["applied c one.example.com.", "undecodable "];
    assert_eq!(subject.look(), again);
}

#[test]
fn the_only_watched_namespace_is_out_of_sync_while_unreadable() {
    for (what, spoil) in SPOILS {
        let (mut subject, _) = two_namespaces();
        let folder = Arc::new(Folder::new(subject.dir.path().to_owned(), Duration::ZERO));
        subject.watch = watch(folder, Scope::Namespace("ns".to_owned()));
        assert_eq!(subject.look(), ["synced a b"]);
        fs::remove_dir_all(subject.path("")).unwrap();
        spoil(&subject.dir.path().join("ns/dnsnameresolvers"));
        subject.hint(subject.path(""));
        assert_eq!(subject.look(), ["out of sync"], "{what}");
    }
}

#[test]
fn the_root_that_goes_deletes_nothing_however_long_ago_a_file_went() {
    let (mut subject, _) = two_namespaces();
    fs::remove_file(subject.path("a.yaml")).unwrap();
    subject.hint(subject.path("a.yaml"));
    assert!(subject.look().is_empty());
    let aside = subject.dir.path().with_extension("aside");
    fs::rename(subject.dir.path(), &aside).unwrap();
    subject.let_gone_files_age();
    assert_eq!(subject.look(), ["out of sync"]);
    assert!(subject.watch.next_look() > Instant::now() + GONE_AFTER);
    fs::rename(&aside, subject.dir.path()).unwrap();
    assert_eq!(subject.look(), ["synced b c"]);
}

#[test]
fn keys_are_listed_of_the_namespaces_that_can_be_read() {
    let (mut subject, other) = two_namespaces();
    let list = |subject: &Subject, scope: &Scope| {
        let keys = subject.watch.folder.list_keys::<DnsNameResolver>(scope);
        keys.map(|keys| keys.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    fs::remove_dir_all(&other).unwrap();
    assert_eq!(list(&subject, &Scope::All).unwrap(), ["ns/a", "ns/b"]);
    let only = Scope::Namespace("other".to_owned());
    assert!(list(&subject, &only).is_err());
    for (what, spoil) in SPOILS {
        spoil(&other);
        let keys = list(&subject, &Scope::All).unwrap();
        assert_eq!(keys, ["ns/a", "ns/b", "other/*"], "{what}");
        assert!(list(&subject, &only).is_err(), "{what}");
        fs::remove_file(&other).unwrap();
    }
    subject.look();
    fs::remove_dir_all(subject.path("")).unwrap();
    // Both are missing now.
    assert!(list(&subject, &Scope::All).is_err());
}
