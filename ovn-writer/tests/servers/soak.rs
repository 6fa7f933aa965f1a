//! Repeated faults of clusters, and their effect on the writer.

use proto::api::Family::V4;
use runtime::store::Event;
use tests::{northbound::Row, soak::times, wait::eventually};

use crate::{cluster::Cluster, harness::RunningWriter};

const W: &str = "www.example.com.";

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_is_killed_again_and_again_under_a_load_of_changes() {
    let mut cluster = Cluster::start(3).await;
    let writer = RunningWriter::start(&cluster.remotes());
    let name = |n: usize| format!("n{}.example.", n % 10);
    let address = |n: usize| format!("10.{}.{}.{}", n >> 16 & 255, n >> 8 & 255, n & 255);
    writer.store(Event::Synced(vec![])).await;
    let mut last = 0;
    for round in 0..times(3) {
        let leader = cluster.leader().await;
        for n in last..last + 200 {
            writer
                .applied(&name(n), &[&address(n), &address(n + 7)])
                .await;
            tokio::task::yield_now().await;
        }
        last += 200;
        // At any point of the work.
        cluster.servers[leader].process.kill();
        writer.applied(W, &[&address(round)]).await;
        expect(&cluster, W, &[address(round)]).await;
        cluster.servers[leader].restart().await;
        cluster.is_whole().await;
    }
    for n in last - 10..last {
        expect(&cluster, &name(n), &[address(n), address(n + 7)]).await;
    }
    assert_eq!(rows(&cluster).unwrap().len(), 22, "nothing twice");
    writer.stop().await;
}

fn rows(cluster: &Cluster) -> Result<Vec<Row>, String> {
    let output = cluster.nbctl(&["--format=json", "list", "Address_Set"])?;
    tests::northbound::read_rows(&output)
}

/// Waits until the only set of the name has these addresses.
async fn expect(cluster: &Cluster, name: &str, addresses: &[String]) {
    eventually(&format!("{name} = {addresses:?}"), async || {
        let mut rows = rows(cluster)?;
        rows.retain(|row| row.is_of(name, V4));
        match rows.as_slice() {
            [row] if row.addresses.iter().eq(addresses.iter()) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}
