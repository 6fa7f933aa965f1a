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
async fn five_hundred_writes_at_the_same_time_are_all_done() {
    let dir = Dir::new();
    let objects: Vec<_> = (0..500).map(|i| resolver("ns", &format!("n{i}"))).collect();
    let made = join_all(objects.iter().map(|object| dir.store.create(object))).await;
    let files: BTreeSet<_> = (0..500).map(|i| format!("n{i}.yaml")).collect();
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

#[tokio::test]
async fn second_of_two_writes_of_an_object_sees_the_first() {
    let dir = Dir::new();
    let object = resolver("ns", "a");
    let made = join_all([dir.store.create(&object), dir.store.create(&object)]).await;
    let (done, refused): (Vec<_>, Vec<_>) = made.into_iter().partition(Result::is_ok);
    assert_eq!(done.len(), 1);
    assert!(matches!(refused[..], [Err(StoreError::AlreadyExists(_))]));
    let mut object = dir.get("a").await.unwrap();
    object.status = Some(status(&["www.example.com."]));
    let writes = (0..20).map(|_| dir.store.replace_status(&object));
    let (done, refused): (Vec<_>, Vec<_>) =
        join_all(writes).await.into_iter().partition(Result::is_ok);
    assert_eq!(done.len(), 1);
    for refused in refused {
        assert!(matches!(refused, Err(StoreError::Conflict(_))));
    }
}

#[tokio::test]
async fn write_that_fails_costs_only_itself() {
    let dir = Dir::new();
    dir.write("link", &manifest("www.example.com."));
    fs::rename(dir.file("link"), dir.folder().join("target")).unwrap();
    symlink(dir.folder().join("target"), dir.file("link")).unwrap();
    let mut linked = dir.get("link").await.unwrap();
    linked.status = Some(status(&["www.example.com."]));
    let (good, bad) = (resolver("ns", "good"), resolver("..", "bad"));
    let (good, bad, linked) = tokio::join!(
        dir.store.create(&good),
        dir.store.create(&bad),
        dir.store.replace_status(&linked),
    );
    assert!(good.is_ok(), "{good:?}");
    assert!(matches!(bad, Err(StoreError::Invalid { .. })), "{bad:?}");
    assert!(
        matches!(linked, Err(StoreError::Invalid { .. })),
        "{linked:?}"
    );
    assert_eq!(listed(&dir).len(), 3);
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
