//! The events of a watch.

use super::{super::notifications::WRITE_PAUSE, *};

#[tokio::test]
async fn malformed_file_is_skipped_until_it_is_mended() {
    let dir = Dir::new();
    dir.write("a", "half");
    dir.write("b", &manifest("b.example.com."));
    let mut watch = dir.watch();
    let undecodable = |keys: &[ObjectKey]| Event::Undecodable(keys.iter().cloned().collect());
    assert_eq!(next(&mut watch).await, undecodable(&[key("a")]));
    assert_eq!(names(&synced(&mut watch).await), ["b"]);
    dir.write("a", &manifest("a.example.com."));
    assert_eq!(applied(&mut watch).await.spec.name, "a.example.com.");
    assert_eq!(next(&mut watch).await, undecodable(&[]));
    // The watch already runs: the next event is about a later change.
    dir.write("a", "half");
    assert_eq!(next(&mut watch).await, undecodable(&[key("a")]));
    dir.write("b", &manifest("c.example.com."));
    assert_eq!(applied(&mut watch).await.spec.name, "c.example.com.");
    dir.write("a", &manifest("d.example.com."));
    assert_eq!(applied(&mut watch).await.spec.name, "d.example.com.");
    assert_eq!(next(&mut watch).await, undecodable(&[]));
}

#[tokio::test]
async fn file_that_is_no_object_disturbs_nothing() {
    let dir = Dir::new();
    dir.write("a", &manifest("a.example.com."));
    for name in [
        ".hidden.yaml",
        ".tmp0",
        "B.yaml",
        "c.yml",
        "notes.txt",
        "..data",
    ] {
        fs::write(dir.folder().join(name), manifest("x.example.com.")).unwrap();
    }
    fs::create_dir(dir.file("folder")).unwrap();
    let pipe = dir.file("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    symlink("nowhere", dir.file("dangling")).unwrap();
    for folder in [".git", "lost+found", "Upper"] {
        let folder = dir.dir.path().join(folder).join("dnsnameresolvers");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("x.yaml"), manifest("x.example.com.")).unwrap();
    }
    fs::write(dir.dir.path().join("README"), "").unwrap();
    let mut watch = dir.watch();
    let undecodable = ["folder", "pipe", "dangling"].map(key).into();
    assert_eq!(next(&mut watch).await, Event::Undecodable(undecodable));
    assert_eq!(names(&synced(&mut watch).await), ["a"]);
    for name in ["folder", "pipe", "dangling"] {
        let error = dir.get(name).await.unwrap_err();
        assert!(matches!(error, StoreError::Invalid { .. }), "{error}");
    }
}

#[tokio::test]
async fn namespace_that_appears_later_is_watched() {
    let dir = Dir::new();
    let mut watch = dir.watch();
    assert!(synced(&mut watch).await.is_empty());
    for namespace in ["one", "two"] {
        let folder = dir.dir.path().join(namespace).join("dnsnameresolvers");
        fs::create_dir_all(&folder).unwrap();
        for name in ["x", "y"] {
            fs::write(
                folder.join(format!("{name}.yaml")),
                manifest("a.example.com."),
            )
            .unwrap();
            let object = applied(&mut watch).await;
            assert_eq!(
                (
                    object.namespace().unwrap().as_str(),
                    object.name_any().as_str()
                ),
                (namespace, name)
            );
        }
    }
}

#[tokio::test]
async fn file_that_is_removed_is_a_deletion() {
    let dir = Dir::new();
    dir.write("a", &manifest("a.example.com."));
    let mut watch = dir.watch();
    assert_eq!(synced(&mut watch).await.len(), 1);
    fs::remove_file(dir.file("a")).unwrap();
    assert_eq!(next(&mut watch).await, Event::Deleted(key("a")));
}

#[tokio::test]
async fn root_that_vanishes_deletes_nothing_and_nothing_is_made_in_it() {
    let dir = Dir::new();
    dir.write("a", &manifest("a.example.com."));
    let mut watch = dir.watch();
    assert_eq!(names(&synced(&mut watch).await), ["a"]);
    let aside = dir.dir.path().with_extension("aside");
    fs::rename(dir.dir.path(), &aside).unwrap();
    let reason = out_of_sync(&mut watch).await;
    let root = dir.dir.path().to_str().unwrap();
    assert!(reason.contains(root), "{reason}");
    let (a, any) = (key("a"), Precondition::default());
    let deleted = dir.store.delete::<DnsNameResolver>(&a, &any).await;
    for error in [
        dir.get("a").await.unwrap_err(),
        dir.store.create(&resolver("ns", "b")).await.unwrap_err(),
        deleted.unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    }
    assert!(!dir.dir.path().exists());
    fs::rename(&aside, dir.dir.path()).unwrap();
    assert_eq!(names(&synced(&mut watch).await), ["a"]);
}

#[tokio::test]
async fn sole_folder_that_vanishes_deletes_nothing() {
    let dir = Dir::new();
    dir.write("a", &manifest("a.example.com."));
    let mut watch: Events = contract::watch(&dir.store, Scope::Namespace("ns".to_owned()));
    assert_eq!(names(&synced(&mut watch).await), ["a"]);
    let aside = dir.dir.path().join("aside");
    fs::rename(dir.folder(), &aside).unwrap();
    let reason = out_of_sync(&mut watch).await;
    assert!(reason.contains(dir.folder().to_str().unwrap()), "{reason}");
    fs::rename(&aside, dir.folder()).unwrap();
    assert_eq!(names(&synced(&mut watch).await), ["a"]);
}

#[tokio::test]
async fn store_that_is_gone_when_the_watch_begins_is_out_of_sync() {
    let dir = Dir::new();
    let aside = dir.dir.path().with_extension("aside");
    fs::rename(dir.dir.path(), &aside).unwrap();
    let mut watch = dir.watch();
    out_of_sync(&mut watch).await;
    fs::rename(&aside, dir.dir.path()).unwrap();
    assert!(synced(&mut watch).await.is_empty());
}

#[tokio::test]
async fn symbolic_link_is_read_and_never_written() {
    let dir = Dir::new();
    dir.write("a", &manifest("a.example.com."));
    let target = dir.folder().join("target");
    fs::rename(dir.file("a"), &target).unwrap();
    symlink(&target, dir.file("a")).unwrap();
    let mut object = dir.get("a").await.unwrap();
    let mut watch = dir.watch();
    assert_eq!(synced(&mut watch).await, [object.clone()]);
    object.status = Some(status(&["a.example.com."]));
    let written = dir.store.replace_status(&object).await.map(|_| ());
    let deleted = dir
        .store
        .delete::<DnsNameResolver>(&key("a"), &Precondition::default())
        .await;
    for result in [written, deleted] {
        assert!(
            matches!(result, Err(StoreError::Invalid { .. })),
            "{result:?}"
        );
    }
    assert_eq!(
        fs::read_to_string(&target).unwrap(),
        manifest("a.example.com.")
    );
}

#[tokio::test]
async fn mounted_config_map_is_followed() {
    let dir = Dir::new();
    fs::create_dir_all(dir.folder()).unwrap();
    for (version, name) in [("..1", "one.example.com."), ("..2", "two.example.com.")] {
        fs::create_dir(dir.folder().join(version)).unwrap();
        fs::write(dir.folder().join(version).join("a.yaml"), manifest(name)).unwrap();
    }
    symlink("..1", dir.folder().join("..data")).unwrap();
    symlink("..data/a.yaml", dir.file("a")).unwrap();
    let mut watch = dir.watch();
    assert_eq!(synced(&mut watch).await[0].spec.name, "one.example.com.");
    symlink("..2", dir.folder().join("..data_tmp")).unwrap();
    fs::rename(dir.folder().join("..data_tmp"), dir.folder().join("..data")).unwrap();
    assert_eq!(applied(&mut watch).await.spec.name, "two.example.com.");
}

#[tokio::test]
async fn watch_that_is_dropped_leaves_nothing_behind() {
    let dir = Dir::new();
    let before = Arc::strong_count(&dir.store.folder);
    let mut watch = dir.watch();
    assert!(synced(&mut watch).await.is_empty());
    assert_eq!(Arc::strong_count(&dir.store.folder), before + 1);
    let more = timeout(Duration::from_millis(1), watch.next()).await;
    assert!(more.is_err());
    drop(watch);
    let gone = async {
        while Arc::strong_count(&dir.store.folder) > before {
            tokio::task::yield_now().await;
        }
    };
    timeout(DEADLINE, gone).await.unwrap();
}

#[tokio::test]
async fn file_that_is_replaced_again_and_again_is_seen_at_once() {
    let dir = Dir::new();
    let text = |i: usize| manifest(&format!("n{i}.example.com.")) + &"# more\n".repeat(100_000);
    dir.write("a", &text(0));
    let mut watch = dir.watch();
    synced(&mut watch).await;
    for i in 1..=20 {
        fs::write(dir.folder().join(".new"), text(i)).unwrap();
        fs::rename(dir.folder().join(".new"), dir.file("a")).unwrap();
    }
    let seen = async { while applied(&mut watch).await.spec.name != "n20.example.com." {} };
    // Shorter than the pause after which an open file is read.
    timeout(WRITE_PAUSE / 2, seen).await.unwrap();
}
