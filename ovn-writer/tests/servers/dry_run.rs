//! `--dry-run`: the whole program without its writes.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
};

use ovn_writer::DryRun;
use proto::api::Family::{V4, V6};
use runtime::store::Event;
use tests::{ovnkube::set_name, transaction_log, wait::eventually};

use crate::harness::{Database, RunningWriter, object, policy};

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
async fn dry_run_prints_what_verify_prints_and_writes_nothing() {
    let database = Database::start().await;
    let northbound = &database.northbound;
    for (family, addresses) in [(V4, "10.0.0.1,10.0.0.9"), (V6, "[]")] {
        northbound.create_set(&set_name(W, family), W, family, addresses);
    }
    northbound.create_acls(&[W.to_owned()], true);
    let before = northbound.rows().unwrap();
    let transactions = || transaction_log::read(database.workdir.path()).len();
    let count = transactions();
    let output = Output::default();
    let dry_run = DryRun::new(output.clone());
    let remote = northbound.remote();
    let writer = RunningWriter::start_with(&remote, policy(), |writer| writer.dry_run(dry_run));
    let objects = || vec![object(W, &["10.0.0.1", "10.0.0.2"])];
    writer.store(Event::Synced(objects())).await;
    let printed = "ACL allow to-lport 10000 of team, egress[0]:\n  \
        www.example.com. a4029995183407368296 v4 of default-network-controller: +10.0.0.2 -10.0.0.9\n1 objects, 2 rows: 0 missing rows, 0 name clashes, 1 missing addresses, \
        1 surplus addresses, 0 unwanted rows\n";
    output.expect(printed).await;
    // What is as before is not printed again.
    writer.store(Event::Synced(objects())).await;
    writer.applied(W, &["10.0.0.1", "10.0.0.4"]).await;
    output.expect("+10.0.0.4 -10.0.0.9\n").await;
    writer.applied(W, &["10.0.0.1", "10.0.0.9"]).await;
    output.expect("1 objects, 2 rows: 0 missing rows").await;
    writer.ready().await;
    writer.stop().await;
    assert_eq!(database.northbound.rows().unwrap(), before);
    assert_eq!(transactions(), count);
}
