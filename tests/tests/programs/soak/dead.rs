//! An upstream that fails for longer than any TTL.

use std::time::Duration;

use hickory_proto::op::ResponseCode;
use proto::api::{DEGRADED, Family, ResolvedName};
use tests::{
    soak,
    upstream::{Asked, Say, Scripted, Speech},
    wait::{PATIENCE, eventually_within},
    world::World,
};
use tokio::time::Instant;

use super::looking_up;

const NAME: &str = "www.up.test.";

const WILDCARD: &str = "*.apps.up.test.";

const FOUND: &str = "one.apps.up.test.";

/// The kind of failure.
#[derive(Clone, Copy, Debug)]
enum Death {
    /// CoreDNS forwards the code.
    Code(ResponseCode),
    /// CoreDNS finally answers SERVFAIL itself.
    Silence,
}

impl Death {
    fn script(self) -> impl Fn(&Asked) -> Vec<Say> + Send + Sync {
        move |asked| match self {
            Self::Code(code) => asked.reply(code).say(),
            Self::Silence => Vec::new(),
        }
    }
}

/// Both names have these addresses, for a second.
fn alive(v4: &'static str, v6: &'static str) -> impl Fn(&Asked) -> Vec<Say> + Send + Sync {
    move |asked| {
        if asked.name().starts_with('*') {
            return asked.reply(ResponseCode::NXDomain).say();
        }
        asked.addresses(&[v4, v6], 1).say()
    }
}

/// `Degraded` of an entry, and its reason.
fn degraded(entry: &ResolvedName) -> Option<(bool, String)> {
    let mut conditions = entry.conditions.iter();
    let condition = conditions.find(|condition| condition.type_ == DEGRADED)?;
    Some((condition.status == "True", condition.reason.clone()))
}

async fn expect_degraded(world: &World, wanted: bool) -> String {
    let patience = Duration::from_secs(150);
    let mut reason = String::new();
    for (object, name) in [(NAME, NAME), (WILDCARD, FOUND)] {
        reason = eventually_within(patience, "Degraded is right", async || {
            let entry = world
                .store
                .resolved(object, name)
                .ok_or("there is no entry")?;
            match degraded(&entry) {
                Some((found, reason)) if found == wanted => Ok(reason),
                // A name that a wildcard found has the condition only while its look-ups fail.
                None if !wanted && name == FOUND => Ok(String::new()),
                other => Err(format!("{name}: {other:?}")),
            }
        })
        .await;
    }
    reason
}

/// The upstream fails, recovers after this many rounds of look-ups of each name, and then has another address.
async fn dies_and_comes_back(death: Death, rounds: u32) {
    let upstream = Scripted::start(alive("192.0.2.1", "2001:db8::1")).await;
    let world = looking_up(
        &upstream,
        &[NAME, WILDCARD],
        &["--min-ttl", "1s", "--grace", "1s"],
    )
    .await;
    let found = world.expect_flow_through(WILDCARD, FOUND, Family::V4, "192.0.2.1");
    found.await;
    world.look_up(FOUND).await;
    for rule in [NAME, WILDCARD] {
        world.expect_set(rule, Family::V4, &["192.0.2.1"]).await;
        world.expect_set(rule, Family::V6, &["2001:db8::1"]).await;
    }
    let history = world.monitor().await;

    upstream.change(death.script());
    let died = Instant::now();
    let failed = || {
        world
            .collector
            .admin()
            .metric("egress_collector_lookups_total", &["failed"])
    };
    let before = failed().await.expect("the metric");
    let reason = expect_degraded(&world, true).await;
    match death {
        Death::Code(ResponseCode::Refused) => assert_eq!(reason, "REFUSED"),
        Death::Code(_) => assert_eq!(reason, "SERVFAIL"),
        // The collector's time-out is shorter than CoreDNS's.
        Death::Silence => assert!(["Timeout", "SERVFAIL"].contains(&&*reason), "{reason}"),
    }
    // The second round comes 5 seconds after the first. By then every address has been past its TTL and grace for long.
    let wanted = f64::from(2 * rounds);
    eventually_within(PATIENCE * rounds, "rounds of failures", async || {
        let failed = failed().await.map_err(|error| error.to_string())? - before;
        (failed >= wanted)
            .then_some(())
            .ok_or_else(|| failed.to_string())
    })
    .await;
    assert_eq!(history.departures().await, [""; 0]);
    let entry = world.store.resolved(NAME, NAME).expect("an entry");
    assert!(entry.resolution_failures > 0);
    assert_eq!(entry.resolved_addresses.len(), 2);
    if let Death::Code(_) = death {
        let of_name = |asked: &Asked| asked.is_v4() && asked.name() == NAME && asked.at >= died;
        let asked = eventually_within(PATIENCE * rounds, "the name is asked again", async || {
            let asked = upstream.asked_for(of_name);
            (asked.len() >= rounds as usize)
                .then_some(asked)
                .ok_or_else(|| format!("fewer than {rounds} times"))
        });
        expect_retries(&asked.await);
    }

    upstream.change(alive("192.0.2.2", "2001:db8::2"));
    expect_degraded(&world, false).await;
    for rule in [NAME, WILDCARD] {
        world.expect_set(rule, Family::V4, &["192.0.2.2"]).await;
        world.expect_set(rule, Family::V6, &["2001:db8::2"]).await;
    }
    let entry = world.store.resolved(NAME, NAME).expect("an entry");
    assert_eq!(entry.resolution_failures, 0);
}

/// 5 seconds after each of the first ten failures, then after twice as long each time, up to 2 minutes.
fn expect_retries(asked: &[Asked]) {
    let gaps: Vec<Duration> = asked.windows(2).map(|two| two[1].at - two[0].at).collect();
    assert!(!gaps.is_empty());
    for (i, gap) in gaps.iter().enumerate() {
        let doublings = i.saturating_sub(9).min(5) as u32;
        let wanted = (Duration::from_secs(5) * 2_u32.pow(doublings)).min(Duration::from_secs(120));
        assert!(!soak::is_long() || *gap >= wanted, "{gaps:?}");
        soak::judge("a retry", *gap, wanted + Duration::from_secs(2));
    }
}

#[tokio::test]
async fn nothing_is_lost_while_the_upstream_fails_for_longer_than_every_ttl() {
    dies_and_comes_back(Death::Code(ResponseCode::ServFail), soak::or_long(2, 13)).await;
}

#[tokio::test]
async fn nothing_is_lost_while_the_upstream_is_silent_for_longer_than_every_ttl() {
    dies_and_comes_back(Death::Silence, soak::or_long(2, 7)).await;
}
