//! Several processes.

use super::*;

#[tokio::test]
async fn file_of_a_killed_writer_is_neither_read_nor_in_the_way() {
    let dir = Dir::new();
    dir.write("a", &manifest("a.example.com."));
    let left = dir.folder().join(".b.tmp");
    fs::write(&left, "half").unwrap();
    let mut watch = dir.watch();
    assert_eq!(names(&synced(&mut watch).await), ["a"]);
    dir.store.create(&resolver("ns", "b")).await.unwrap();
    assert!(!left.exists());
    assert_eq!(applied(&mut watch).await.name_any(), "b");
}

#[tokio::test]
async fn process_that_keeps_the_lock_stops_no_read_and_no_program() {
    let Dir { dir, store } = Dir::new();
    store.create(&resolver("ns", "a")).await.unwrap();
    let _lock = Lock::acquire(&dir.path().join(LOCK), DEADLINE).unwrap();
    let other = resolver("ns", "b");
    let write = store.create(&other);
    tokio::pin!(write);
    let there = key("a");
    // The read continues on this thread while the write waits.
    let read = tokio::select! {
        biased;
        result = &mut write => panic!("{result:?}"),
        read = store.get::<DnsNameResolver>(&there) => read,
    };
    read.unwrap();
    let error = timeout(DEADLINE, write).await.unwrap().unwrap_err();
    assert!(
        matches!(&error, StoreError::Unavailable { reason, .. } if reason.contains(".lock is held")),
        "{error}"
    );
}
