//! Many names at once.

use std::{
    collections::BTreeMap,
    fs,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, SystemTime},
};

use futures_util::future::join_all;
use hickory_proto::{op::ResponseCode, rr::RecordType};
use proto::api::Family;
use tests::{
    soak,
    upstream::{Scripted, Speech},
    world::{Setup, World},
};
use tokio::time::{Instant, interval, sleep_until};

use super::{address, numbered_name, numbered_upstream};

#[tokio::test]
async fn a_hundred_names_first_asked_within_a_second_are_written_within_two() {
    const NAMES: u32 = 100;
    let upstream = numbered_upstream(300).await;
    let names: Vec<String> = (0..NAMES).map(numbered_name).collect();
    let allow: Vec<&str> = names.iter().map(String::as_str).collect();
    // Only the pods send queries.
    let world = World::start(Setup {
        allow: &allow,
        upstream: Some(upstream.address),
        ..Setup::default()
    })
    .await;
    // One more for the wildcard of the fences.
    world.expect_objects(names.len() + 1).await;
    let history = world.monitor().await;

    let start = Instant::now();
    let asked = join_all((0..NAMES).map(async |i| {
        sleep_until(start + Duration::from_secs(1) * i / NAMES).await;
        let reply = world.coredns.ask(&numbered_name(i), RecordType::A).await;
        (reply.at, SystemTime::now())
    }))
    .await;
    let mut in_sets = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let address = address(i as u32, false).to_string();
        let seen = history.seen(name, Family::V4, &address).await;
        in_sets.push(seen.saturating_duration_since(asked[i].0));
    }
    // A status is written once here, so the file's time is that of the write.
    let mut written = Vec::new();
    for (name, (_, answered)) in names.iter().zip(&asked) {
        let entry = world.store.resolved(name, name).expect("an entry");
        assert_eq!(entry.resolved_addresses.len(), 1);
        let object = world.store.object(name).unwrap().metadata.name.unwrap();
        let file = world.store.objects_folder().join(format!("{object}.yaml"));
        let modified = fs::metadata(file).unwrap().modified().unwrap();
        written.push(modified.duration_since(*answered).unwrap_or_default());
    }
    let slowest = soak::print_delays("answered, until its status is written", written);
    soak::print_delays("answered, until in its set", in_sets);
    soak::judge("the last status", slowest, Duration::from_secs(2));
}

#[tokio::test]
async fn a_name_with_twenty_new_addresses_a_second_keeps_every_answer() {
    const NAME: &str = "busy.up.test.";
    let answers = soak::or_long(60, 400);
    let count = AtomicU32::new(0);
    let upstream = Scripted::start(move |asked| {
        if !asked.is_v4() {
            return asked.reply(ResponseCode::NoError).say();
        }
        let ip = address(count.fetch_add(1, Ordering::SeqCst), false);
        asked.ips(&[ip], 300).say()
    })
    .await;
    let world = World::start(Setup {
        allow: &[NAME],
        upstream: Some(upstream.address),
        ..Setup::default()
    })
    .await;
    let history = world.monitor().await;
    let mut told = BTreeMap::new();
    let mut pace = interval(Duration::from_millis(50));
    for _ in 0..answers {
        pace.tick().await;
        let reply = world.coredns.ask(NAME, RecordType::A).await;
        told.insert(reply.addresses()[0].to_string(), reply.at);
    }
    let all: Vec<&str> = told.keys().map(String::as_str).collect();
    world.expect_set(NAME, Family::V4, &all).await;
    assert_eq!(history.departures().await, [""; 0]);
    let entry = world.store.resolved(NAME, NAME).expect("an entry");
    assert_eq!(entry.resolved_addresses.len(), told.len());
    let writes = world
        .collector
        .admin()
        .metric("egress_store_writes_total", &["replace_status"])
        .await;
    println!("{} addresses in {} writes", told.len(), writes.unwrap());
}
