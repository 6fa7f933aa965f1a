//! Several writers of one database, of which one writes.

use proto::api::Family::V4;
use runtime::{OpenStore, args::StoreAddress, leader::Leadership, store::Event};
use tests::{transaction_log::departures, workdir::Workdir};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::harness::{Database, RunningWriter, object, policy};

const W: &str = "www.example.com.";

/// A writer with leader election.
struct Replica {
    writer: RunningWriter,
    token: CancellationToken,
    contest: JoinHandle<anyhow::Result<()>>,
}

impl Replica {
    async fn start(folder: &Workdir, remote: &str) -> Self {
        let store = StoreAddress::Dir(folder.path().to_owned());
        let store = OpenStore::open(&store, "ovn-writer").await.unwrap();
        let leadership = Leadership::of(&store, "ovn-kubernetes", "ovn-writer");
        let leader = leadership.leader();
        let writer = RunningWriter::start_with(remote, policy(), |writer| writer.led_by(leader));
        let token = CancellationToken::new();
        let contest = tokio::spawn(leadership.run(token.clone()));
        Self {
            writer,
            token,
            contest,
        }
    }

    async fn stop(self) {
        self.writer.stop().await;
        self.token.cancel();
        self.contest.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_writes_and_the_other_stands_by_until_it_ends() {
    let database = Database::start().await;
    let (folder, remote) = (Workdir::new(), database.northbound.remote());
    let first = Replica::start(&folder, &remote).await;
    let all = |addresses: &[&str]| Event::Synced(vec![object(W, addresses)]);
    first.writer.store(all(&["10.0.0.1"])).await;
    database.expect(W, V4, &["10.0.0.1"]).await;
    // The second one has newer objects, and does not write them; it is ready all the same.
    let second = Replica::start(&folder, &remote).await;
    second.writer.store(all(&["10.0.0.2"])).await;
    second.writer.ready().await;
    for address in ["10.0.0.3", "10.0.0.4"] {
        first.writer.applied(W, &[address]).await;
        database.expect(W, V4, &[address]).await;
    }
    // A set that had it would have lost it again.
    let left = departures(database.workdir.path());
    assert!(!left.contains(&format!("{W} 10.0.0.2")), "{left:?}");
    first.stop().await;
    database.expect(W, V4, &["10.0.0.2"]).await;
    second.stop().await;
}
