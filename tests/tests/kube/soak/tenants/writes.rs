//! Full wildcards whose addresses change all the time.

use std::{
    net::Ipv4Addr,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use hickory_proto::op::ResponseCode;
use tests::{
    or_skip,
    pods::Load,
    soak::or_long,
    upstream::{Asked, Say, Speech},
    wait::eventually,
};
use tokio::time::{Instant, interval};

use super::{
    Cluster, allow,
    zones::{EIGHT, ONE},
};

/// `r7.s8.test.` has another address in each answer.
fn rotating() -> impl Fn(&Asked) -> Vec<Say> + Send + Sync {
    let count = AtomicU32::new(0);
    move |asked| {
        if !asked.is_v4() {
            return asked.reply(ResponseCode::NoError).say();
        }
        let next = count.fetch_add(1, Ordering::SeqCst);
        let address = Ipv4Addr::from_bits(Ipv4Addr::new(12, 0, 0, 0).to_bits() + next);
        asked.ips(&[address.into()], 1).say()
    }
}

impl Cluster {
    async fn writes(&self, spec: &str) -> usize {
        let name = eventually("there is an object", async || self.object(spec).await).await;
        let answers = self
            .server
            .answers("admin", ("update", "dnsnameresolvers/status"));
        answers
            .iter()
            .filter(|(_, of, code)| *of == name && *code == 200)
            .count()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_wildcard_that_changes_all_the_time_is_written_within_the_budget() {
    const RATE: f64 = 30_000.0;
    // The saved budget of 30 s. As a debt, small objects may add as much again as they saved, and large ones half as
    // much.
    const SAVED: f64 = RATE * 30.0 * 1.75;
    const OBJECT: f64 = 1_100_000.0;
    // Pages of etcd are not full, and there are other objects.
    const MORE: f64 = 1.25;
    let flags = [
        "--new-names-rate=0",
        &format!("--status-write-bytes={RATE}"),
    ];
    let mut cluster = or_skip!(Cluster::start(rotating(), &flags).await);
    let bad = cluster.tenant("bad", allow(&[EIGHT.wildcard]), 1).await;
    let team = cluster.tenant("team", allow(&[ONE.wildcard]), 1).await;
    let labels = (0..800).map(|number| EIGHT.name(number));
    bad[0].ask_all(labels, EIGHT.kind()).await;
    cluster
        .collector
        .program
        .counts("egress_collector_evictions_total", &[], 1.0)
        .await;

    // Names leave the collector's memory before it has created the object.
    let writes = cluster.writes(EIGHT.wildcard).await;
    let (began, bytes) = (Instant::now(), cluster.server.stored_bytes().await);
    let load = Load::start(&bad[0], 50, |number| format!("r{}.s8.test.", number % 20));
    // Meanwhile another tenant's names are written as usual, as long as they fit into its share of the bytes.
    let lasts = or_long(15, 120);
    let mut pace = interval(Duration::from_secs(4));
    let mut number = 0;
    while began.elapsed().as_secs() < lasts {
        pace.tick().await;
        cluster
            .flows(&team[0], ONE.wildcard, &ONE.name(number))
            .await;
        number += 1;
    }
    let answers = load.answers();
    drop(load);
    let writes = cluster.writes(EIGHT.wildcard).await - writes;
    let bytes = cluster.server.stored_bytes().await - bytes;
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{answers} answers with new addresses in {seconds:.1} s: {writes} writes of the full wildcard, etcd grew by {:.1} MB; \
         {number} names of another namespace written meanwhile",
        bytes / 1e6
    );
    assert!(answers > 100, "{answers}");
    assert!(writes as f64 <= seconds + 2.0, "{writes}");
    let budget = (SAVED + RATE * seconds + OBJECT) * MORE;
    assert!(bytes <= budget, "{bytes} of {budget}");
}
