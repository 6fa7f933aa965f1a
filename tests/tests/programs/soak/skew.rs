//! Two versions side by side, in both orders, and back again.

use proto::api::Family;
use tests::{programs::Build, soak};

use super::{Load, address, all_are_in, looking_up, numbered_name, numbered_upstream};

const WILDCARD: &str = "*.up.test.";

const RULE: &str = "n00001.up.test.";

/// The names that pods query all the time.
const NAMES: u32 = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn either_program_may_be_newer_than_the_other_and_may_go_back() {
    let (previous, this) = (Build::previous(), Build::This);
    println!("from {previous:?}");
    // Any version needs look-ups to keep addresses in time.
    let upstream = numbered_upstream(5).await;
    let mut world = looking_up(
        &upstream,
        &[WILDCARD, RULE],
        &["--min-ttl", "1s", "--grace", "10s"],
    )
    .await;
    world.collector.become_build(&previous).await;
    world.ovn_writer.become_build(&previous).await;
    let mut load = Load::start(world.coredns.address(), NAMES);
    load.more(5 * NAMES).await;
    all_are_in(&world, WILDCARD, 0..NAMES).await;
    let history = world.monitor().await;
    let rows = world.northbound.rows().unwrap();
    let made: Vec<_> = rows.into_iter().map(|row| (row.name, row.uuid)).collect();

    // The collector first, as the page allows; then the writer first.
    let mut new = NAMES;
    for _ in 0..soak::or_long(1, 5) {
        let steps = [
            (&this, &previous),
            (&this, &this),
            (&this, &previous),
            (&previous, &previous),
            (&previous, &this),
            (&this, &this),
            (&previous, &this),
            (&previous, &previous),
        ];
        for (collector, writer) in steps.into_iter().take(soak::or_long(3, steps.len())) {
            world.collector.become_build(collector).await;
            world.ovn_writer.become_build(writer).await;
            world.collector.ready().await;
            world.ovn_writer.ready().await;
            if !soak::is_long() {
                // By itself it redials every 10 seconds.
                world.coredns.restart().await;
            }
            load.more(5 * NAMES).await;
            let it = address(new, false).to_string();
            let name = numbered_name(new);
            world
                .expect_flow_through(WILDCARD, &name, Family::V4, &it)
                .await;
            new += 1;
            all_are_in(&world, WILDCARD, 0..new).await;
            assert_eq!(
                history.departures().await,
                [""; 0],
                "{collector:?}, {writer:?}"
            );
        }
    }
    world.expect_set(RULE, Family::V4, &["198.18.0.1"]).await;
    let rows = world.northbound.rows().unwrap();
    let now: Vec<_> = rows.into_iter().map(|row| (row.name, row.uuid)).collect();
    assert_eq!(now, made, "a row was made anew");
    println!("{} answers to pods", load.answers());
}
