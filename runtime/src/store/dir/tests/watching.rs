//! The events of a watch.

use super::*;

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
