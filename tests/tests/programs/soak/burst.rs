//! Many new names, or many new addresses of a name, in a short time.

use std::{
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use futures_util::future::join_all;
use hickory_proto::{op::ResponseCode, rr::RecordType};
use proto::api::Family;
use tests::{
    hold::numbered,
    soak,
    transaction_log::{departures, seen},
    upstream::{Scripted, Speech},
    world::{Setup, World},
};
use tokio::time::{Instant, interval, sleep_until};

use super::tenants::address;

#[tokio::test]
async fn hundred_names_first_asked_for_within_a_second_are_in_their_sets_within_two() {
    let upstream = Scripted::start(numbered).await;
    let names: Vec<String> = (0..100).map(|it| format!("n{it}.up.test.")).collect();
    let allow: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = World::start(Setup {
        allow: &allow,
        upstream: Some(upstream.address),
        ..Setup::default()
    })
    .await;
    let start = Instant::now();
    let asked = join_all(names.iter().zip(0..).map(async |(name, i)| {
        sleep_until(start + Duration::from_millis(10) * i).await;
        world.coredns.ask(name, RecordType::A).await.at
    }))
    .await;
    let mut slowest = Duration::ZERO;
    for (i, (name, asked)) in names.iter().zip(asked).enumerate() {
        let address = format!("192.0.2.{i}");
        let seen = seen(world.workdir.path(), name, Family::V4, &address).await;
        slowest = slowest.max(seen.saturating_duration_since(asked));
    }
    soak::judge("the last of 100 names", slowest, Duration::from_secs(2));
}

#[tokio::test]
async fn name_with_twenty_new_addresses_a_second_keeps_every_answer() {
    const NAME: &str = "busy.up.test.";
    let count = AtomicU32::new(0);
    let upstream = Scripted::start(move |asked| {
        match asked.is_v4() {
            true => asked.ips(&[address(count.fetch_add(1, Relaxed)).into()], 300),
            false => asked.reply(ResponseCode::NoError),
        }
        .say()
    })
    .await;
    let world = World::start(Setup {
        allow: &[NAME],
        upstream: Some(upstream.address),
        ..Setup::default()
    })
    .await;
    let (mut told, mut pace) = (Vec::new(), interval(Duration::from_millis(50)));
    for _ in 0..soak::or_long(60, 400) {
        pace.tick().await;
        let reply = world.coredns.ask(NAME, RecordType::A).await;
        told.push(reply.addresses()[0].to_string());
    }
    let told: Vec<&str> = told.iter().map(String::as_str).collect();
    world.expect_set(NAME, Family::V4, &told).await;
    assert_eq!(departures(world.workdir.path()), [""; 0]);
}
