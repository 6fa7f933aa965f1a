//! The collector and a foreign writer of the same status.

use std::{net::IpAddr, time::Duration};

use tests::{
    kube::ApiServer,
    soak::or_long,
    wait::{PATIENCE, eventually},
    workdir::Workdir,
};
use tokio::time::{sleep, timeout};

use crate::{
    cluster::key,
    collectors::{Collector, NEVER, Objects},
    foreign::{add, somebody_else},
    history::{Addresses, History},
    proxy::Proxy,
};

const NAME: &str = "www.example.com.";

/// The metric of status writes.
const WRITES: &str = "egress_store_writes_total";

/// The duration of the collector's writes. The foreign writer's pause is shorter, so the two collide.
const DELAY: Duration = Duration::from_millis(40);

/// The `i`th address of this writer.
fn address(writer: u8, i: u16) -> IpAddr {
    let [high, low] = i.to_be_bytes();
    [10, writer, high, low].into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_100_writes_each_of_the_collector_and_a_foreign_writer_none_is_lost() {
    let writes: u16 = or_long(100, 400);
    let server = ApiServer::shared().await;
    let namespace = server.namespace().await;
    let objects = Objects::of(&server, &namespace).await;
    objects.make("a", NAME).await;
    let (proxy, workdir) = (Proxy::start(&server).await, Workdir::new());
    let mut collector = Collector::start(&proxy.kubeconfig(&workdir), &namespace, &NEVER).await;
    collector.expect_leading(true).await;
    proxy.spare_leases(true);
    proxy.delay(DELAY);
    let history = History::of(&server, &namespace).await;

    let (store, object) = (somebody_else(&server).await, key(&namespace, "a"));
    let foreign = tokio::spawn(async move {
        let mut conflicts = 0;
        for i in 0..writes {
            conflicts += add(&store, &object, address(1, i), 600).await;
            sleep(DELAY / 2).await;
        }
        conflicts
    });
    let done = ["operation=\"replace_status\"", "outcome=\"done\""];
    for i in 0..writes {
        collector.hears(NAME, &[address(2, i)], 600).await;
        let least = f64::from(i + 1);
        collector.program.counts(WRITES, &done, least).await;
    }
    let theirs = timeout(PATIENCE, foreign).await.unwrap().unwrap();
    let written: Addresses = (0..writes)
        .flat_map(|i| [address(1, i), address(2, i)])
        .map(|ip| (NAME.to_owned(), ip.to_string()))
        .collect();
    eventually("all that was written is there", async || {
        let found = objects.addresses(NAME).await?;
        let lost: Vec<_> = written.difference(&found).collect();
        lost.is_empty()
            .then_some(())
            .ok_or_else(|| format!("{} lost: {lost:?}", lost.len()))
    })
    .await;
    let left = history.departures().await;
    assert!(left.is_empty(), "lost for a while: {left:?}");
    let conflict = ["operation=\"replace_status\"", "outcome=\"conflict\""];
    let ours = collector.metric(WRITES, &conflict).await;
    assert!(ours > 0.0, "they met: {theirs}, {ours}");
    println!(
        "{} addresses written, 0 lost; the foreign writer met {theirs} conflicts, the collector {ours}",
        written.len()
    );
}
