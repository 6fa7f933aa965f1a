//! Rules are added and removed while pods send queries.

use proto::api::Family;
use tests::{soak, world::World};

use super::{Load, address, looking_up, numbered_name, numbered_upstream};

const NAMES: u32 = 50;

/// Allows the chosen numbered names, and in turn the wildcard above them.
fn allow(world: &World, round: u32, chosen: impl Fn(u32) -> bool) {
    let mut names: Vec<String> = (0..NAMES)
        .filter(|i| chosen(*i))
        .map(numbered_name)
        .collect();
    names.extend(round.is_multiple_of(2).then(|| "*.up.test.".to_owned()));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    world.store.allow("team", &names);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_that_come_and_go_under_load_end_right() {
    let upstream = numbered_upstream(300).await;
    let mut world = looking_up(&upstream, &[&numbered_name(0)], &[]).await;
    let steady = numbered_name(0);
    world.expect_set(&steady, Family::V4, &["198.18.0.0"]).await;
    let history = world.monitor().await;
    let collector = world.collector.process().pid();

    let mut load = Load::start(world.coredns.address(), NAMES);
    for round in 0..soak::or_long(10, 200) {
        allow(&world, round, |i| i == 0 || (i + round) % 3 == 0);
        load.more(NAMES).await;
    }
    allow(&world, 1, |i| i < 10);
    load.more(NAMES).await;
    println!("{} answers to pods", load.answers());
    drop(load);

    for i in 0..10 {
        let wanted = address(i, false).to_string();
        let name = numbered_name(i);
        world.expect_set(&name, Family::V4, &[&wanted]).await;
    }
    let departed = history.departures().await;
    let of_steady = departed.iter().filter(|left| left.starts_with(&steady));
    assert_eq!(of_steady.count(), 0, "{departed:?}");
    assert!(world.collector.process().ended().is_none());
    assert_eq!(world.collector.process().pid(), collector);
}
