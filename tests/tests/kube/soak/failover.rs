//! Two collectors of one cluster; the leader is killed or suspended.

use std::{
    mem::swap,
    net::IpAddr,
    time::{Duration, Instant},
};

use runtime::leader::RENEW_DEADLINE;
use rustix::process::Signal;
use tests::{
    kube::ApiServer,
    soak::{is_long, judge, or_long},
    wait::eventually,
};

use crate::{
    collectors::{Collector, NEVER, Objects, allow},
    history::History,
};

const STEADY: &str = "steady.example.com.";

const MOVING: &str = "moving.example.com.";

const SEEN: &str = "seen.example.com.";

/// Two collectors on foreign objects of names in rules; the first leads, and the addresses are known.
struct Pair {
    first: Collector,
    second: Collector,
    objects: Objects,
    history: History,
}

/// The number of queries for the names of the objects. Other tests' names do not count: a collector backfills them
/// after a gap, such as at the start of its stream.
fn asked(collector: &Collector) -> usize {
    let names = [STEADY, MOVING, SEEN].into_iter();
    names.map(|name| collector.nameserver.asked(name)).sum()
}

impl Pair {
    async fn start(server: &ApiServer) -> Self {
        let namespace = server.namespace().await;
        let objects = Objects::of(server, &namespace).await;
        for (object, name) in [("a", STEADY), ("b", MOVING), ("c", SEEN)] {
            objects.make(object, name).await;
        }
        allow(server, &namespace, &[STEADY, MOVING, SEEN]).await;
        let kubeconfig = server.kubeconfig();
        let start = || Collector::start(&kubeconfig, &namespace, &NEVER);
        let mut first = start().await;
        first.expect_leading(true).await;
        let mut second = start().await;
        for collector in [&mut first, &mut second] {
            collector.nameserver.set(STEADY, &["192.0.2.1"], 1);
            collector.nameserver.set(MOVING, &["192.0.2.2"], 1);
            collector.hears(SEEN, &[[10, 0, 0, 1].into()], 1).await;
        }
        for collector in [&first, &second] {
            collector.nameserver.set(SEEN, &["10.0.0.1"], 1);
        }
        objects.expect(STEADY, &["192.0.2.1"]).await;
        objects.expect(MOVING, &["192.0.2.2"]).await;
        objects.expect(SEEN, &["10.0.0.1"]).await;
        second.expect_leading(false).await;
        assert_eq!(asked(&second), 0, "who follows looks nothing up");
        Self {
            first,
            second,
            objects,
            history: History::of(server, &namespace).await,
        }
    }

    /// Waits until the second leads, after the first has ended or stopped; returns the time since then.
    async fn second_leads_after(&self, then: Instant) -> Duration {
        eventually("the second leads", async || {
            let leads = self.second.metric("egress_replica_leading", &[]).await;
            (leads == 1.0).then_some(()).ok_or_else(String::new)
        })
        .await;
        let took = then.elapsed();
        judge("the second led", took, Duration::from_secs(20));
        took
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_followed_within_20_seconds_and_nothing_leaves() {
    let server = ApiServer::shared().await;
    let mut pair = Pair::start(&server).await;
    let rounds: u8 = or_long(1, 5);
    let mut seen = vec!["10.0.0.1".to_owned()];
    for round in 1..=rounds {
        let before = [STEADY, MOVING, SEEN].map(|name| pair.second.nameserver.asked(name));
        pair.first.program.process().kill();
        let killed = Instant::now();
        // The next leader writes what came meanwhile.
        let ip = IpAddr::from([10, 0, 0, round + 1]);
        seen.push(ip.to_string());
        let texts: Vec<&str> = seen.iter().map(String::as_str).collect();
        for collector in [&pair.first, &pair.second] {
            collector.nameserver.set(SEEN, &texts, 1);
        }
        pair.second.hears(SEEN, &[ip], 1).await;
        pair.objects.expect(SEEN, &texts).await;
        let written = killed.elapsed();
        let leads = pair.second_leads_after(killed).await;
        assert!(
            !is_long() || leads > RENEW_DEADLINE,
            "the first might still lead: {leads:?}"
        );
        eventually("names are looked up again and again", async || {
            let asked = [STEADY, MOVING, SEEN].map(|name| pair.second.nameserver.asked(name));
            let often = asked.iter().zip(before);
            (often
                .into_iter()
                .all(|(asked, before)| *asked >= before + 4))
            .then_some(())
            .ok_or_else(|| format!("{asked:?}"))
        })
        .await;
        let moved = format!("192.0.2.{}", round + 2);
        for collector in [&pair.first, &pair.second] {
            collector.nameserver.set(MOVING, &[&moved], 1);
        }
        pair.objects.expect_also(MOVING, &moved).await;
        println!(
            "after kill -9: what was seen was written after {written:?}, and the other led after {leads:?}"
        );
        if round < rounds {
            pair.first.restart().await;
            pair.first.expect_leading(false).await;
            swap(&mut pair.first, &mut pair.second);
        }
    }
    // A new leader knows the stored times alone, which are 15 minutes longer.
    let left = pair.history.departures().await;
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_slept_does_nothing_before_it_leads_again() {
    let server = ApiServer::shared().await;
    let mut pair = Pair::start(&server).await;
    pair.first.program.process().signal(Signal::STOP);
    let asleep = Instant::now();
    let leads = pair.second_leads_after(asleep).await;
    // Addresses that it would remove if it still looked up.
    for name in [STEADY, MOVING, SEEN] {
        pair.first.nameserver.set(name, &["192.0.2.99"], 1);
    }
    let before = asked(&pair.first);
    pair.first.program.process().signal(Signal::CONT);
    pair.first.expect_leading(false).await;
    // It runs again, and writes new addresses.
    for i in 2..=9 {
        let ip = IpAddr::from([10, 0, 0, i]);
        pair.second
            .nameserver
            .set(SEEN, &["10.0.0.1", &ip.to_string()], 1);
        pair.first.hears(SEEN, &[ip], 1).await;
        pair.objects.expect_also(SEEN, &ip.to_string()).await;
    }
    let asked = asked(&pair.first) - before;
    // A look-up that was pending when it was suspended, one query in each family.
    assert!(asked <= 2, "{asked} questions after it woke");
    for name in [STEADY, MOVING] {
        let left = pair.history.departures_of(name).await;
        assert!(left.is_empty(), "{left:?}");
    }
    pair.objects.expect(STEADY, &["192.0.2.1"]).await;
    pair.objects.expect(MOVING, &["192.0.2.2"]).await;
    assert!(pair.first.program.process().ended().is_none());

    // Once the other has released the Lease it leads again, and looks up before it removes.
    pair.first.nameserver.set(STEADY, &["192.0.2.1"], 1);
    pair.second.program.process().terminate().await;
    let released = Instant::now();
    pair.first.expect_leading(true).await;
    let again = released.elapsed();
    pair.objects.expect_also(MOVING, "192.0.2.99").await;
    pair.objects.expect(STEADY, &["192.0.2.1"]).await;
    let left = pair.history.departures_of(STEADY).await;
    assert!(left.is_empty(), "{left:?}");
    println!(
        "after SIGSTOP: the other led after {leads:?}, {asked} questions at the waking; {again:?} after the other's end it led again"
    );
}
