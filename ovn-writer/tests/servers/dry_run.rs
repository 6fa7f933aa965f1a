//! `--dry-run`: the whole program without its writes.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
};

use ovn_writer::{DryRun, report::Format};
use proto::api::Family::V4;
use runtime::store::Event;
use tests::wait::eventually;

use crate::harness::{Database, RunningWriter, deleted, object, policy, quick};

const W: &str = "www.example.com.";

/// The output so far.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Waits for this text, and drops everything up to now.
    async fn expect(&self, words: &str) {
        eventually(words, async || {
            let text = self.text();
            text.contains(words).then_some(()).ok_or(text)
        })
        .await;
        self.0.lock().unwrap().clear();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_what_would_be_opened_and_closed_and_writes_nothing() {
    let database = Database::start().await;
    database
        .northbound
        .create_set("a4029995183407368296", W, V4, "10.0.0.1,10.0.0.9");
    database
        .northbound
        .create_acl("allow", 10000, &["a4029995183407368296"], true);
    let before = database.northbound.rows().unwrap();
    let history = tests::monitor::Monitor::start(database.workdir.path()).await;
    let output = Output::default();
    let dry_run = DryRun::new(output.clone(), Format::Text);
    let remote = database.northbound.remote();
    let writer =
        RunningWriter::start_with(&remote, quick(policy()), |writer| writer.dry_run(dry_run));
    writer
        .store(Event::Synced(vec![
            object(W, &["10.0.0.1", "10.0.0.2"]),
            object("b.example.", &["10.0.0.3"]),
        ]))
        .await;
    let said = "www.example.com.\n  a4029995183407368296 v4 of default-network-controller: +10.0.0.2 -10.0.0.9\n    \
        ACL allow to-lport 10000 of team: opens 10.0.0.2; closes 10.0.0.9\n";
    output.expect(said).await;
    // Only new differences are reported.
    writer
        .applied(W, &["10.0.0.1", "10.0.0.2", "10.0.0.4"])
        .await;
    output
        .expect("opens 10.0.0.2 10.0.0.4; closes 10.0.0.9\n")
        .await;
    writer.applied("b.example.", &["10.0.0.5"]).await;
    writer.applied(W, &["10.0.0.1", "10.0.0.9"]).await;
    output.expect("www.example.com.: no differences\n").await;
    writer.store(deleted(W)).await;
    output.expect("closes 10.0.0.1 10.0.0.9\n").await;
    writer.ready().await;
    writer.stop().await;
    assert_eq!(database.northbound.rows().unwrap(), before);
    assert_eq!(history.updates().len(), 1, "the first reading alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_which_sets_would_be_made_as_json() {
    for managed in [false, true] {
        let database = Database::start().await;
        if managed {
            database.northbound.create_namespace_set();
        }
        let output = Output::default();
        let dry_run = DryRun::new(output.clone(), Format::Json);
        let remote = database.northbound.remote();
        let writer = RunningWriter::start_with(&remote, policy(), |writer| writer.dry_run(dry_run));
        database
            .northbound
            .create_set("afence", "fence.example.", V4, "[]");
        let store = [
            object(W, &["10.0.0.1"]),
            object("fence.example.", &["10.0.0.2"]),
        ];
        writer.store(Event::Synced(store.to_vec())).await;
        writer.ready().await;
        eventually("the fence is said", async || {
            let text = output.text();
            text.contains("fence.example.").then_some(()).ok_or(text)
        })
        .await;
        let text = output.text();
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let of_name: Vec<_> = lines.filter(|report| report["name"] == W).collect();
        if managed {
            assert_eq!(
                of_name,
                [serde_json::Value::Null; 0],
                "nothing refers to them"
            );
        } else {
            let set = &of_name[0]["sets"][0];
            assert_eq!(set["kind"], "missing_row");
            assert_eq!(set["set"], "a4029995183407368296");
            assert_eq!(set["missing"], serde_json::json!(["10.0.0.1"]));
        }
        writer.stop().await;
        assert!(database.northbound.sets(W, V4).unwrap().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_tells_a_set_that_cannot_be_made_from_one_that_is_missing() {
    for managed in [false, true] {
        let database = Database::start().await;
        if managed {
            database.northbound.create_namespace_set();
        }
        let args = ["create", "Address_Set", "name=a4029995183407368296"];
        database.northbound.nbctl(&args).unwrap();
        database
            .northbound
            .create_acl("allow", 10000, &["a4029995183407368296"], managed);
        let output = Output::default();
        let dry_run = DryRun::new(output.clone(), Format::Text);
        let remote = database.northbound.remote();
        let writer = RunningWriter::start_with(&remote, policy(), |writer| writer.dry_run(dry_run));
        writer
            .store(Event::Synced(vec![object(W, &["10.0.0.1"])]))
            .await;
        let said = "www.example.com.\n  a4029995183407368296 v4 of default-network-controller is missing, and another client has \
            a set of its name: +10.0.0.1\n    ACL allow to-lport 10000";
        output.expect(said).await;
        writer.ready().await;
        writer.stop().await;
    }
}
