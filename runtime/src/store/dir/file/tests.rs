use std::{fs, os::unix::fs::symlink};

use super::*;

impl Fingerprint {
    /// A fingerprint without a file.
    pub(in super::super) fn made_up(inode: u64, created: Duration) -> Self {
        Self {
            device: 0,
            inode,
            created: UNIX_EPOCH + created,
            size: 0,
            modified: UNIX_EPOCH,
            changed: UNIX_EPOCH,
        }
    }
}

#[test]
fn a_replaced_or_modified_file_is_distinguished_from_the_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("a"), dir.path().join("b"));
    let now = || fingerprint(&path).unwrap().unwrap();
    fs::write(&path, "one").unwrap();
    let first = now();
    assert_eq!(now(), first);
    fs::write(&path, "longer").unwrap();
    assert_ne!(now(), first);
    assert!(now().is_same_file(&first));
    assert!(!now().is_settled());
    fs::write(&other, "one").unwrap();
    fs::rename(&other, &path).unwrap();
    assert!(!now().is_same_file(&first));
    assert_ne!(now().identity(), first.identity());
}

#[test]
fn a_file_is_read_by_its_name_and_through_a_link() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "text").unwrap();
    symlink("a", dir.path().join("link")).unwrap();
    for name in ["a", "link"] {
        let path = dir.path().join(name);
        let content = read(&path).unwrap().unwrap();
        assert_eq!(content.bytes, b"text");
        let file = fingerprint(&dir.path().join("a")).unwrap();
        assert_eq!(file, Some(content.fingerprint));
        assert_eq!(is_link(&path), name == "link");
    }
    assert!(read(&dir.path().join("none")).unwrap().is_none());
}
