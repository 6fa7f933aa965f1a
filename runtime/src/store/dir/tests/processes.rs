//! Several processes, and killed ones.

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

/// The writer of the next test, as a process of its own that gets the folder from its environment.
#[test]
fn writer_writes_until_it_is_killed() {
    let Some(path) = std::env::var_os("RUNTIME_TEST_STORE") else {
        return;
    };
    let store = DirStore::open(path).unwrap();
    Runtime::new().unwrap().block_on(async {
        for i in 0.. {
            add_name(&store, &key("a"), &format!("n{i}.example.com.")).await;
            println!("\nacknowledged n{i}.example.com.");
        }
    });
}

#[test]
fn acknowledged_write_survives_kill_9() {
    let dir = Dir::new();
    let runtime = Runtime::new().unwrap();
    for acknowledged in [1, 2, 5, 11] {
        let _earlier = fs::remove_file(dir.file("a"));
        runtime
            .block_on(dir.store.create(&resolver("ns", "a")))
            .unwrap();
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "store::dir::tests::processes::writer_writes_until_it_is_killed",
                "--nocapture",
            ])
            .env("RUNTIME_TEST_STORE", dir.dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let mut seen = lines
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("acknowledged ").map(str::to_owned));
        let before: Vec<_> = seen.by_ref().take(acknowledged).collect();
        writer.kill().unwrap();
        writer.wait().unwrap();
        let all: Vec<_> = before.into_iter().chain(seen).collect();
        assert!(all.len() >= acknowledged);
        let status = runtime.block_on(dir.get("a")).unwrap().status.unwrap();
        let stored: Vec<_> = status
            .resolved_names
            .into_iter()
            .map(|n| n.dns_name)
            .collect();
        assert!(stored.starts_with(&all), "{stored:?} lacks some of {all:?}");
    }
}
