//! Writes at the same time.

use std::collections::BTreeSet;

use super::*;

/// The names in the folder of objects.
fn listed(dir: &Dir) -> BTreeSet<String> {
    let entries = fs::read_dir(dir.folder()).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// The result of a write, with `meanwhile` run between its read of the file and its rename.
async fn disturbed<T>(
    dir: &Dir,
    write: impl Future<Output = Result<T, StoreError>>,
    meanwhile: impl FnOnce(),
) -> Result<T, StoreError> {
    let lock = Lock::acquire(&dir.dir.path().join(LOCK), DEADLINE).unwrap();
    let prepared = dir.folder().join(".a.tmp");
    let meanwhile = async {
        while !prepared.exists() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        meanwhile();
        drop(lock);
    };
    tokio::join!(write, meanwhile).0
}

#[tokio::test]
async fn edit_during_a_write_is_not_overwritten() {
    let dir = Dir::new();
    let new = resolver("ns", "a");
    let by_hand = manifest("by.hand.example.com.");
    let edit = || fs::write(dir.file("a"), &by_hand).unwrap();
    let made = disturbed(&dir, dir.store.create(&new), edit).await;
    assert!(
        matches!(made, Err(StoreError::AlreadyExists(_))),
        "{made:?}"
    );

    fs::write(dir.file("a"), manifest("www.example.com.")).unwrap();
    let mut object = dir.get("a").await.unwrap();
    object.status = Some(status(&["www.example.com."]));
    let written = disturbed(&dir, dir.store.replace_status(&object), edit).await;
    assert!(
        matches!(written, Err(StoreError::Conflict(_))),
        "{written:?}"
    );
    assert_eq!(fs::read_to_string(dir.file("a")).unwrap(), by_hand);
    assert_eq!(listed(&dir), ["a.yaml".to_owned()].into());
}
