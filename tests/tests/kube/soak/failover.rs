//! Two collectors of one cluster; the leader is killed.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use tests::{kube::ApiServer, soak::judge};

use crate::collectors::{Collector, NEVER, Objects};

const STEADY: &str = "steady.example.com.";
const SEEN: &str = "seen.example.com.";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_followed_within_20_seconds_and_nothing_leaves() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace().await;
    let objects = Objects::of(&server, &namespace).await;
    for (object, name) in [("a", STEADY), ("b", SEEN)] {
        objects.make(object, name).await;
    }
    server.allow(&namespace, &[STEADY, SEEN]).await;
    let kubeconfig = server.kubeconfig();
    let mut first = Collector::start(&kubeconfig, &namespace, &NEVER).await;
    first.expect_leading(true).await;
    let mut second = Collector::start(&kubeconfig, &namespace, &NEVER).await;
    for collector in [&mut first, &mut second] {
        collector.nameserver.set(STEADY, &["192.0.2.1"], 1);
        collector.hears(SEEN, &[[10, 0, 0, 1].into()], 1).await;
        collector.nameserver.set(SEEN, &["10.0.0.1"], 1);
    }
    objects.expect(STEADY, &["192.0.2.1"]).await;
    objects.expect(SEEN, &["10.0.0.1"]).await;
    second.expect_leading(false).await;
    let lookups = second.metric("egress_collector_lookups_total", &[]).await;
    assert!(lookups.abs() < 0.5, "a standby looks nothing up");

    first.program.process().kill();
    let killed = Instant::now();
    // The next leader writes what came meanwhile, and what its own look-ups find.
    let new = IpAddr::from([10, 0, 0, 2]);
    second.hears(SEEN, &[new], 1).await;
    second.nameserver.set(STEADY, &["192.0.2.2"], 1);
    second.expect_leading(true).await;
    judge("the second led", killed.elapsed(), Duration::from_secs(20));
    // It knows the stored times alone, which are 15 minutes longer, so that no address leaves here.
    objects.expect(SEEN, &["10.0.0.1", "10.0.0.2"]).await;
    objects.expect(STEADY, &["192.0.2.1", "192.0.2.2"]).await;
}
