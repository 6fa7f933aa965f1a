use std::os::unix::fs::symlink;

use super::*;

#[test]
fn fingerprint_of_a_modified_or_replaced_file_is_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("a"), dir.path().join("b"));
    let now = || fingerprint(&path).unwrap().unwrap();
    fs::write(&path, "one").unwrap();
    let first = now();
    assert_eq!(now(), first);
    fs::write(&path, "longer").unwrap();
    assert_ne!(now(), first);
    fs::write(&other, "one").unwrap();
    fs::rename(&other, &path).unwrap();
    assert_ne!(now(), first);
}

#[test]
fn file_is_read_by_its_name_and_through_a_link() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "text").unwrap();
    symlink("a", dir.path().join("link")).unwrap();
    for name in ["a", "link"] {
        let content = read(&dir.path().join(name)).unwrap().unwrap();
        assert_eq!(content.bytes, b"text");
        let file = fingerprint(&dir.path().join("a")).unwrap();
        assert_eq!(file, Some(content.fingerprint));
    }
    assert!(read(&dir.path().join("none")).unwrap().is_none());
}
