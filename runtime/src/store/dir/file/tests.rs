use std::os::unix::fs::symlink;

use super::*;

#[test]
fn file_is_read_by_its_name_and_through_a_link() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "text").unwrap();
    symlink("a", dir.path().join("link")).unwrap();
    for name in ["a", "link"] {
        let content = read(&dir.path().join(name)).unwrap().unwrap();
        assert_eq!(content.text, "text");
        let file = fingerprint(&dir.path().join("a"));
        assert_eq!(file, Some(content.fingerprint));
    }
    assert!(read(&dir.path().join("none")).unwrap().is_none());
}
