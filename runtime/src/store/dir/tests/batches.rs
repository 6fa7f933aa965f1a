//! Batches of writes.

use std::{collections::BTreeSet, future::Future};

use futures_util::future::join_all;

use super::{
    super::{
        file::FileError,
        writer::{Batch, Staged},
    },
    *,
};

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
async fn of_two_writes_of_an_object_at_the_same_time_the_second_sees_the_first() {
    let dir = Dir::new();
    let object = resolver("ns", "a");
    let made = join_all([dir.store.create(&object), dir.store.create(&object)]).await;
    assert!(matches!(
        made.as_slice(),
        [Ok(_), Err(StoreError::AlreadyExists(_))]
    ));
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
async fn a_write_that_fails_costs_only_itself() {
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

/// A write of `a`, with `meanwhile` run during it.
async fn disturbed<T: Send + 'static>(
    dir: &Dir,
    stage: impl FnOnce(&Batch) -> Result<Staged<T>, FileError> + Send + 'static,
    meanwhile: impl FnOnce() + Send + 'static,
) -> Result<T, StoreError> {
    let stage = move |batch: &Batch| {
        let staged = stage(batch)?;
        meanwhile();
        Ok(staged)
    };
    dir.store
        .writer
        .write::<DnsNameResolver, _>("test", key("a"), stage)
        .await
}

#[tokio::test]
async fn an_edit_during_a_write_is_not_overwritten() {
    let dir = Dir::new();
    let new = resolver("ns", "a");
    let by_hand = manifest("by.hand.example.com.");
    let edit = |dir: &Dir| {
        let (file, text) = (dir.file("a"), by_hand.clone());
        move || fs::write(file, text).unwrap()
    };
    let create = move |batch: &Batch| batch.folder.create(batch, &new);
    let made = disturbed(&dir, create, edit(&dir)).await;
    assert!(
        matches!(made, Err(StoreError::AlreadyExists(_))),
        "{made:?}"
    );

    fs::write(dir.file("a"), manifest("www.example.com.")).unwrap();
    let mut object = dir.get("a").await.unwrap();
    object.status = Some(status(&["www.example.com."]));
    let replace = move |batch: &Batch| batch.folder.replace_status(batch, &object);
    let written = disturbed(&dir, replace, edit(&dir)).await;
    assert!(
        matches!(written, Err(StoreError::Conflict(_))),
        "{written:?}"
    );

    fs::write(dir.file("a"), manifest("www.example.com.")).unwrap();
    let delete = |batch: &Batch| {
        let any = Precondition::default();
        batch
            .folder
            .delete::<DnsNameResolver>(batch, &key("a"), &any)
    };
    let deleted = disturbed(&dir, delete, edit(&dir)).await;
    assert!(
        matches!(deleted, Err(StoreError::Conflict(_))),
        "{deleted:?}"
    );
    assert_eq!(fs::read_to_string(dir.file("a")).unwrap(), by_hand);
    assert_eq!(listed(&dir), ["a.yaml".to_owned()].into());
}

#[tokio::test]
async fn a_write_that_nobody_waits_for_any_more_is_not_begun() {
    let dir = Dir::new();
    let root = file::open_folder(dir.dir.path()).unwrap().unwrap();
    let lock = Lock::acquire(root, DEADLINE).unwrap();
    let object = resolver("ns", "a");
    let mut abandoned = Box::pin(dir.store.create(&object));
    std::future::poll_fn(|cx| {
        assert!(abandoned.as_mut().poll(cx).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    drop(abandoned);
    drop(lock);
    dir.store.create(&resolver("ns", "b")).await.unwrap();
    assert_eq!(listed(&dir), ["b.yaml".to_owned()].into());
}
