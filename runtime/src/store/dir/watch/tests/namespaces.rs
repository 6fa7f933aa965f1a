//! Folders of namespaces that vanish or become unreadable, among others.

use super::*;

/// A store with the objects `a` and `b` in one namespace, and `c` in another, whose folder is returned.
fn two_namespaces() -> (Subject, PathBuf) {
    let mut subject = subject();
    let other = subject.other("other", "c");
    assert_eq!(subject.scan(), ["applied c one.example.com."]);
    (subject, other)
}

/// A description, and the function that makes it.
type Spoil = (&'static str, fn(&Path));

/// Things that a tenant may put in the place of its folder.
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
fn namespace_that_goes_takes_its_objects_with_it() {
    for whole in [false, true] {
        let (mut subject, other) = two_namespaces();
        let gone = if whole {
            other.parent().unwrap()
        } else {
            &other
        };
        fs::remove_dir_all(gone).unwrap();
        // A move away may be temporary.
        assert!(subject.scan().is_empty());
        subject.let_gone_files_age();
        assert_eq!(subject.reconcile(), ["deleted c"]);
        subject.other("other", "c");
        assert_eq!(subject.scan(), ["applied c one.example.com."]);
    }
}

#[test]
fn namespace_that_comes_back_at_once_was_never_gone() {
    let (mut subject, other) = two_namespaces();
    let aside = subject.dir.path().join("aside");
    fs::rename(&other, &aside).unwrap();
    assert!(subject.scan().is_empty());
    fs::rename(&aside, &other).unwrap();
    subject.let_gone_files_age();
    assert!(subject.reconcile().is_empty());
    assert!(subject.scan().is_empty());
}

#[test]
fn namespace_that_cannot_be_read_holds_up_no_other() {
    for (what, spoil) in SPOILS {
        let (mut subject, other) = two_namespaces();
        fs::remove_dir_all(&other).unwrap();
        spoil(&other);
        assert_eq!(subject.scan(), ["undecodable * c"], "{what}");
        // Its last known objects stay valid, and those of others change as usual.
        subject.remove("a");
        assert!(subject.reconcile_file("a").is_empty(), "{what}");
        subject.let_gone_files_age();
        assert_eq!(subject.reconcile(), ["deleted a"], "{what}");
        let bad = subject.watch.folder.bad_objects.list();
        assert_eq!(bad[0].place, other.display().to_string(), "{what}");

        // A new watch only learns that the namespace has objects.
        let new = watch(subject.dir.path(), Scope::All);
        let before = mem::replace(&mut subject.watch, new);
        assert_eq!(subject.reconcile(), ["undecodable *", "synced b"], "{what}");
        fs::remove_file(&other).unwrap();
        subject.other("other", "c");
        let applied = ["applied c one.example.com.", "undecodable "];
        assert_eq!(subject.scan(), applied, "{what}");

        subject.watch = before;
        assert_eq!(subject.scan(), applied, "{what}");
        assert!(subject.scan().is_empty(), "{what}");
        assert!(subject.watch.folder.bad_objects.list().is_empty(), "{what}");
    }
}

#[test]
fn object_of_an_unreadable_namespace_is_delivered_once_readable() {
    let (mut subject, other) = two_namespaces();
    let (root, aside) = (subject.dir.path(), subject.dir.path().join("aside"));
    fs::rename(&other, &aside).unwrap();
    symlink("dnsnameresolvers", &other).unwrap();
    let elsewhere = root.with_extension("elsewhere");
    fs::rename(root, &elsewhere).unwrap();
    assert_eq!(subject.scan(), ["out of sync"]);
    fs::rename(&elsewhere, subject.dir.path()).unwrap();
    assert_eq!(subject.scan(), ["undecodable * c", "synced a b"]);
    fs::remove_file(&other).unwrap();
    fs::rename(&aside, &other).unwrap();
    let again = ["applied c one.example.com.", "undecodable "];
    assert_eq!(subject.scan(), again);
}

#[test]
fn sole_namespace_that_is_gone_or_unreadable_is_out_of_sync() {
    let gone: Spoil = ("nothing", |_| {});
    for (what, spoil) in SPOILS.into_iter().chain([gone]) {
        let (mut subject, _) = two_namespaces();
        let sole = Scope::Namespace("ns".to_owned());
        subject.watch = watch(subject.dir.path(), sole);
        assert_eq!(subject.reconcile(), ["synced a b"]);
        let (folder, aside) = (subject.path(""), subject.dir.path().join("aside"));
        fs::rename(&folder, &aside).unwrap();
        spoil(&subject.dir.path().join("ns/dnsnameresolvers"));
        assert_eq!(subject.scan(), ["out of sync"], "{what}");
        let reason = subject.watch.out_of_sync.as_ref().unwrap();
        assert!(reason.contains("ns/dnsnameresolvers: "), "{reason}");
        let _none = fs::remove_file(subject.dir.path().join("ns/dnsnameresolvers"));
        // A folder that is made anew says that the objects are gone.
        fs::create_dir(&folder).unwrap();
        subject.write("b", &text_of("two.example.com."));
        assert_eq!(subject.scan(), ["synced b"], "{what}");
    }
}
