//! Writes at the same time.

use std::collections::BTreeSet;

use futures_util::future::join_all;

use super::*;

/// The names in the folder of objects.
fn listed(dir: &Dir) -> BTreeSet<String> {
    let entries = fs::read_dir(dir.folder()).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[tokio::test]
async fn hundred_writes_at_the_same_time_are_all_done() {
    let dir = Dir::new();
    let objects: Vec<_> = (0..100).map(|i| resolver("ns", &format!("n{i}"))).collect();
    let made = join_all(objects.iter().map(|object| dir.store.create(object))).await;
    let files: BTreeSet<_> = (0..100).map(|i| format!("n{i}.yaml")).collect();
    assert_eq!(listed(&dir), files, "nothing is left, and nothing missing");
    let changes = made.into_iter().map(|object| {
        let mut object = object.unwrap();
        object.status = Some(status(&["www.example.com."]));
        object
    });
    let changes: Vec<_> = changes.collect();
    let stored = join_all(
        changes
            .iter()
            .map(|object| dir.store.replace_status(object)),
    )
    .await;
    for stored in stored {
        let stored = stored.unwrap();
        let found = dir.get(&stored.name_any()).await.unwrap();
        assert_eq!(found, stored, "what is returned is what is there");
    }
    assert_eq!(listed(&dir), files);
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
