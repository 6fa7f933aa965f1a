//! CoreDNS is restarted while pods ask.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use hickory_proto::rr::RecordType;
use proto::api::Family;
use tests::{
    dns::ask,
    soak,
    wait::eventually,
    world::{Setup, World},
};
use tokio::{task::JoinSet, time::sleep};

use super::{address, numbered_name, numbered_upstream};

const WILDCARD: &str = "*.up.test.";

const RULE: &str = "n1.up.test.";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coredns_may_be_restarted_under_load_and_nothing_leaves() {
    const NAMES: u32 = 50;
    let upstream = numbered_upstream(2).await;
    let mut world = World::start(Setup {
        allow: &[WILDCARD, RULE],
        upstream: Some(upstream.address),
        ..Setup::default()
    })
    .await;
    world
        .restart_asking(&["--min-ttl", "1s", "--grace", "2s"])
        .await;
    let history = world.monitor().await;

    let server = world.coredns.address();
    let answers = Arc::new(AtomicU32::new(0));
    let mut pods = JoinSet::new();
    for pod in 0..8 {
        let answers = Arc::clone(&answers);
        pods.spawn(async move {
            for i in (0..NAMES).cycle().skip(pod) {
                match ask(server, &numbered_name(i), RecordType::A).await {
                    Ok(reply) => {
                        assert_eq!(reply.addresses(), [address(i, false)]);
                        answers.fetch_add(1, Ordering::SeqCst);
                    }
                    // Nobody answers while CoreDNS is away.
                    Err(_) => sleep(Duration::from_millis(10)).await,
                }
            }
        });
    }
    let load = async || {
        let wanted = answers.load(Ordering::SeqCst) + 20 * NAMES;
        eventually("pods are answered", async || {
            let count = answers.load(Ordering::SeqCst);
            (count >= wanted)
                .then_some(())
                .ok_or_else(|| count.to_string())
        })
        .await;
    };
    load().await;
    for round in 0..soak::or_long(3, 30) {
        if round % 2 == 0 {
            world.coredns.process().kill();
        } else {
            world.coredns.process().terminate().await;
        }
        world.coredns.restart().await;
        load().await;
        // What is answered from now on arrives.
        let i = NAMES + round;
        let new = address(i, false).to_string();
        world
            .expect_flow_through(WILDCARD, &numbered_name(i), Family::V4, &new)
            .await;
    }
    let questions = answers.load(Ordering::SeqCst);
    println!("{questions} answers to pods");
    if let Some(failed) = pods.try_join_next() {
        failed.expect("a pod was told something wrong");
    }
    drop(pods);
    eventually("all names are in the set", async || {
        let rows = world.northbound.sets(WILDCARD, Family::V4)?;
        let has = |i: &u32| {
            let address = address(*i, false).to_string();
            rows.iter().any(|row| row.addresses.contains(&address))
        };
        let missing: Vec<u32> = (0..NAMES).filter(|i| !has(i)).collect();
        let whole = missing.is_empty().then_some(());
        whole.ok_or_else(|| format!("{missing:?} are missing"))
    })
    .await;
    world.expect_set(RULE, Family::V4, &["198.18.0.1"]).await;
    assert_eq!(history.departures().await, [""; 0]);
}
