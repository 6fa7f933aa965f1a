//! CoreDNS is restarted while pods ask.

use proto::api::Family;
use tests::{
    soak,
    wait::eventually,
    world::{Setup, World},
};

use super::{Load, address, numbered_name, numbered_upstream};

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

    let mut load = Load::start(world.coredns.address(), NAMES);
    load.more(20 * NAMES).await;
    for round in 0..soak::or_long(3, 30) {
        if round % 2 == 0 {
            world.coredns.process().kill();
        } else {
            world.coredns.process().terminate().await;
        }
        world.coredns.restart().await;
        load.more(20 * NAMES).await;
        // What is answered from now on arrives.
        let i = NAMES + round;
        let new = address(i, false).to_string();
        world
            .expect_flow_through(WILDCARD, &numbered_name(i), Family::V4, &new)
            .await;
    }
    println!("{} answers to pods", load.answers());
    drop(load);
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
