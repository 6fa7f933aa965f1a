//! A wildcard with an endless number of names.

use std::collections::BTreeSet;

use hickory_proto::rr::RecordType;
use proto::api::Family;
use tests::{
    soak,
    wait::eventually,
    world::{Setup, World},
};

use super::{address, number, numbered_name, numbered_upstream};

const WILDCARD: &str = "*.up.test.";

/// The maximum number of names under a wildcard, by the API page.
const CAP: u32 = 1_000;

/// The numbers of the names that have an entry under the wildcard.
fn kept(world: &World) -> Result<BTreeSet<u32>, String> {
    let object = world.store.object(WILDCARD).ok_or("there is no object")?;
    let names = object.status.unwrap_or_default().resolved_names;
    Ok(names
        .iter()
        .filter_map(|entry| number(&entry.dns_name))
        .collect())
}

#[tokio::test]
async fn full_wildcard_keeps_the_latest_seen_and_names_with_their_own_rule() {
    let names = soak::or_long(2_000, 20_000);
    let explicit = [5, 1_500];
    let upstream = numbered_upstream(300).await;
    let rules = explicit.map(numbered_name);
    let allow: Vec<&str> = rules.iter().map(String::as_str).chain([WILDCARD]).collect();
    let world = World::start(Setup {
        allow: &allow,
        upstream: Some(upstream.address),
        ..Setup::default()
    })
    .await;
    let history = world.monitor().await;
    for i in 0..names {
        let reply = world.coredns.ask(&numbered_name(i), RecordType::A).await;
        assert_eq!(reply.addresses(), [address(i, false)]);
        // CoreDNS drops events when 10,000 wait, four for each name here.
        if (i + 1) % 1_000 == 0 {
            let observed = ["outcome=\"observed\""];
            let all = f64::from(i + 1);
            world
                .collector
                .counts("egress_collector_events_total", &observed, all)
                .await;
        }
    }
    // A large object is written about once a second at most.
    let kept = eventually("the last name is written", async || {
        let kept = kept(&world)?;
        let (first, last) = (kept.first().copied(), kept.last().copied());
        (last == Some(names - 1))
            .then_some(kept)
            .ok_or_else(|| format!("{first:?} to {last:?}"))
    })
    .await;
    let count = kept.len() as u32;
    println!("{count} names are kept of {names}");
    // The size limit of an object may reduce the number.
    assert!((CAP / 2..=CAP).contains(&count), "{count}");
    let seen_last: BTreeSet<u32> = (names - count..names).collect();
    assert_eq!(kept, seen_last, "others went before the oldest-seen");
    let evicted = world
        .collector
        .admin()
        .metric("egress_collector_evictions_total", &[])
        .await;
    // A name that came back with an old status is evicted again.
    let evicted = evicted.unwrap();
    assert!(evicted >= f64::from(names - count), "{evicted}");

    let addresses: Vec<String> = kept
        .iter()
        .map(|i| address(*i, false).to_string())
        .collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    world.expect_set(WILDCARD, Family::V4, &addresses).await;
    for (i, rule) in explicit.iter().zip(&rules) {
        let own = address(*i, false).to_string();
        world.expect_set(rule, Family::V4, &[&own]).await;
    }
    let departed = history.departures().await;
    let of_rules: Vec<&String> = departed
        .iter()
        .filter(|left| !left.starts_with(WILDCARD))
        .collect();
    assert!(of_rules.is_empty(), "{of_rules:?}");
}
