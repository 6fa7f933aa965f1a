//! `egress watch`: the addresses of all programs as they come.

use std::{process::Stdio, time::Duration};

use proto::api::Family;
use serde_json::Value;
use tests::{
    programs::{self, Program},
    world::{Setup, World},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader, Lines},
    process::Command,
    time::timeout,
};

const NAME: &str = "www.example.com.";
const WILDCARD: &str = "*.apps.example.com.";

/// How long a line may take. Machines are slow when all tests run at once.
const PATIENCE: Duration = Duration::from_secs(60);

/// The flag for a program, with the address at which it answers.
fn flag(name: &str, program: &Program) -> String {
    let mut messages = program.messages().into_iter();
    let listening = messages.find(|it| it["message"] == "inspect listening");
    format!("--{name}={}", listening.unwrap()["addr"].as_str().unwrap())
}

/// The next line with these words.
async fn line_with<R: AsyncRead + Unpin>(lines: &mut Lines<BufReader<R>>, words: &str) -> String {
    let found = timeout(PATIENCE, async {
        loop {
            let line = lines.next_line().await.unwrap();
            let line = line.expect("the program ended");
            if line.contains(words) {
                return line;
            }
        }
    });
    found.await.unwrap_or_else(|_| panic!("no {words}"))
}

#[tokio::test]
async fn a_watch_joins_answer_status_and_rows_and_outlives_programs() {
    let folder = tempfile::tempdir().unwrap();
    let inspect = format!("unix://{}", folder.path().join("inspect.sock").display());
    let mut world = World::start(Setup {
        zone: "www IN A 192.0.2.10\n*.apps IN A 192.0.2.30",
        allow: &[NAME, WILDCARD],
        collector: &["--inspect", &inspect],
        ..Setup::default()
    })
    .await;
    let mut watch = Command::new(programs::program("egress"))
        .args(["watch", "-o", "json"])
        .arg(format!("--collector={inspect}"))
        .arg(flag("ovn-writer", &world.ovn_writer))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut out = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut notes = BufReader::new(watch.stderr.take().unwrap()).lines();
    for _ in 0..2 {
        line_with(&mut notes, "watching the ").await;
    }
    world.expect_flow(NAME, Family::V4, "192.0.2.10").await;
    let line = line_with(&mut out, NAME).await;
    let told: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(told["isComplete"], true, "{line}");
    assert_eq!(
        (&told["rule"], &told["address"]),
        (&NAME.into(), &"192.0.2.10".into())
    );
    assert_eq!(told["namespaces"][0], "team");
    assert!(told["answeredAt"].is_string(), "{line}");
    let object = world.store.object(NAME).unwrap().metadata;
    let key = format!("ovn-kubernetes/{}", object.name.unwrap());
    assert_eq!(told["object"], key);
    assert_eq!(told["rows"].as_object().unwrap().len(), 1, "{line}");
    for leg in ["read", "status", "row", "all"] {
        assert!(told["milliseconds"][leg].is_i64(), "{leg}: {line}");
    }

    // A program goes and returns.
    world.collector.process().kill();
    line_with(&mut notes, "the collector unix://").await;
    world.collector.restart().await;
    line_with(&mut notes, "watching the collector").await;
    world.coredns.restart().await;
    world
        .expect_flow_through(WILDCARD, "x.apps.example.com.", Family::V4, "192.0.2.30")
        .await;
    line_with(&mut out, "x.apps.example.com.").await;
}
