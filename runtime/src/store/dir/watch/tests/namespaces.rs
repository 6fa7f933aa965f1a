//! Folders that vanish or become unreadable, among others.

use super::*;

/// A store with the objects `a` and `b` in one namespace, and `c` in another, whose folder is returned.
fn two_namespaces() -> (Subject, PathBuf) {
    let mut subject = subject();
    let other = subject.other("other", "c");
    assert_eq!(subject.scan(), ["applied c one.example.com."]);
    (subject, other)
}

#[test]
fn namespace_that_goes_takes_its_objects_with_it_unless_it_comes_back_at_once() {
    let (mut subject, other) = two_namespaces();
    let aside = subject.dir.path().join(".aside");
    fs::rename(&other, &aside).unwrap();
    assert!(subject.scan().is_empty());
    fs::rename(&aside, &other).unwrap();
    subject.let_gone_files_age();
    assert!(subject.reconcile().is_empty());
    fs::remove_dir_all(other.parent().unwrap()).unwrap();
    assert!(subject.scan().is_empty());
    subject.let_gone_files_age();
    assert_eq!(subject.reconcile(), ["deleted c"]);
}

#[test]
fn folder_that_cannot_be_read_keeps_its_objects_and_holds_up_no_other() {
    for target in ["dnsnameresolvers", "nowhere"] {
        let (mut subject, other) = two_namespaces();
        let aside = subject.dir.path().join(".aside");
        fs::rename(&other, &aside).unwrap();
        symlink(target, &other).unwrap();
        assert_eq!(subject.scan(), ["undecodable c"], "{target}");
        let bad = subject.watch.folder.bad_objects.list();
        assert_eq!(bad[0].place, other.display().to_string(), "{target}");
        subject.remove("a");
        assert!(subject.reconcile_file("a").is_empty(), "{target}");
        subject.let_gone_files_age();
        assert_eq!(subject.reconcile(), ["deleted a"], "{target}");

        fs::remove_file(&other).unwrap();
        fs::rename(&aside, &other).unwrap();
        let applied = ["applied c one.example.com.", "undecodable "];
        assert_eq!(subject.scan(), applied, "{target}");
        assert!(subject.watch.folder.bad_objects.list().is_empty());
    }
}
