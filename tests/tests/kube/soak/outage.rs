//! The API server is down, or does not answer, while addresses come and go.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::{Duration, Instant},
};

use tests::{
    kube::ApiServer,
    soak::{judge, or_long},
    wait::{PATIENCE, eventually},
};
use tokio::time::sleep;

use crate::{
    collectors::{Collector, Objects, allow},
    history::{Addresses, History},
};

const STEADY: &str = "steady.example.com.";

const MOVING: &str = "moving.example.com.";

const GROWING: &str = "growing.example.com.";

const CHURNING: &str = "churning.example.com.";

const WILDCARD: &str = "*.wild.example.com.";

/// An address of a name takes less than 4 KiB in any case; at most 1,000 of [`CHURNING`] are kept.
const MORE_KIB: u64 = 16 * 1024;

#[derive(Clone, Copy)]
enum Outage {
    /// `kill -9`: connections are refused.
    Killed,
    /// Connections succeed, and there is no answer.
    Hanging,
}

/// The minimum duration.
fn at_least() -> Duration {
    or_long(Duration::ZERO, Duration::from_secs(30))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_seen_while_the_api_server_is_away_is_written_when_it_is_back() {
    addresses_come_and_go_during(Outage::Killed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_seen_while_the_api_server_hangs_is_written_when_it_goes_on() {
    addresses_come_and_go_during(Outage::Hanging).await;
}

async fn addresses_come_and_go_during(outage: Outage) {
    let mut server = ApiServer::start().await;
    let namespace = server.namespace().await;
    let manage = ["--manage-objects", "always"];
    let mut collector = Collector::start(&server.kubeconfig(), &namespace, &manage).await;
    collector.nameserver.set(STEADY, &["192.0.2.1"], 1);
    collector.nameserver.set(MOVING, &["192.0.2.2"], 1);
    let names = [STEADY, MOVING, GROWING, CHURNING, WILDCARD];
    allow(&server, "default", &names).await;
    let objects = Objects::of(&server, &namespace).await;
    objects.expect(STEADY, &["192.0.2.1"]).await;
    objects.expect(MOVING, &["192.0.2.2"]).await;
    for name in names {
        eventually("the object is there", async || {
            let found = objects.named(name).await?.len();
            (found == 1).then_some(()).ok_or_else(|| format!("{found}"))
        })
        .await;
    }
    let history = History::of(&server, &namespace).await;
    let (pid, kib) = (collector.program.process().pid(), collector.resident_kib());

    match outage {
        Outage::Killed => server.stop(),
        Outage::Hanging => server.pause(),
    }
    let began = Instant::now();
    collector.nameserver.set(MOVING, &["192.0.2.3"], 1);
    let mut told = Addresses::new();
    let mut churned: u32 = 0;
    // Until it knows that it does not lead and that writes fail, and for the minimum duration.
    loop {
        let [.., c, d] = u32::try_from(told.len()).unwrap().to_be_bytes();
        for name in [GROWING.to_owned(), format!("n{c}-{d}.wild.example.com.")] {
            let ip = IpAddr::from([10, 0, c, d]);
            collector.hears(&name, &[ip], 600).await;
            told.insert((name, ip.to_string()));
        }
        for _ in 0..100 {
            churned += 1;
            let ip = Ipv4Addr::from(0x0b00_0000 + churned);
            collector.hears(CHURNING, &[ip.into()], 600).await;
        }
        let leads = collector.metric("egress_replica_leading", &[]).await;
        // With an unavailable store the collector stays ready: its streams continue.
        let (status, text) = collector.program.admin().get("/readyz").await.unwrap();
        assert_eq!(status, 200, "{text}");
        let is_told =
            text.contains("dns-name-resolvers: ok, but") || !matches!(outage, Outage::Killed);
        if leads == 0.0 && is_told && began.elapsed() >= at_least() {
            break;
        }
        let patience = at_least() + PATIENCE;
        assert!(began.elapsed() < patience, "it leads: {leads}; {text}");
        // The rate of pods' queries.
        sleep(Duration::from_millis(100)).await;
    }
    assert!(collector.is_the_process(pid), "it goes on");
    let more = collector.resident_kib().saturating_sub(kib);
    assert!(more < MORE_KIB, "{more} KiB for {} addresses", told.len());

    match outage {
        Outage::Killed => server.start_again().await,
        Outage::Hanging => server.resume(),
    }
    let back = Instant::now();
    let lasted = began.elapsed();
    eventually("all that was seen is in the objects", async || {
        let mut found = objects.addresses(GROWING).await?;
        found.append(&mut objects.addresses(WILDCARD).await?);
        let missing: Vec<_> = told.difference(&found).collect();
        missing
            .is_empty()
            .then_some(())
            .ok_or_else(|| format!("{} lack {missing:?}", found.len()))
    })
    .await;
    let written = back.elapsed();
    judge("all was written", written, Duration::from_secs(30));
    objects.expect_also(MOVING, "192.0.2.3").await;
    let moved = back.elapsed();
    collector.expect_leading(true).await;
    collector.program.ready().await;
    assert!(collector.is_the_process(pid), "it was never restarted");

    let mut left = history.departures().await;
    // An answer without it, during the outage, ends the first address of MOVING.
    left.retain(|(name, _)| name != CHURNING && name != MOVING);
    assert!(left.is_empty(), "{left:?}");
    // A large object is written less often.
    let newest = (
        CHURNING.to_owned(),
        Ipv4Addr::from(0x0b00_0000 + churned).to_string(),
    );
    let churning = eventually("the newest of many are there", async || {
        let found = objects.addresses(CHURNING).await?;
        found
            .contains(&newest)
            .then_some(found.len())
            .ok_or_else(|| format!("{} others", found.len()))
    })
    .await;
    assert!(churning <= 1000, "{churning}");
    println!(
        "away for {lasted:?}: {} addresses written {written:?} after its return, one that moved {moved:?}; {churned} \
         more seen, {more} KiB more",
        told.len()
    );
}
