//! Many new names at once.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use tests::{
    kube::ApiServer,
    soak::or_long,
    wait::{PATIENCE, eventually_within},
};

use crate::{
    collectors::{Collector, Objects, allow},
    history::{Addresses, addresses},
};

const NAME: &str = "www.example.com.";

/// How long new addresses may be delayed by the creation of objects.
fn delay() -> Duration {
    or_long(PATIENCE, Duration::from_secs(5))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_objects_are_made_for_many_names_at_once_what_is_seen_is_written() {
    let names: usize = or_long(500, 8_000);
    let server = ApiServer::start().await;
    let namespace = server.namespace().await;
    let objects = Objects::of(&server, &namespace).await;
    objects.make("a", NAME).await;
    let always = ["--manage-objects", "always"];
    let mut collector = Collector::start(&server.kubeconfig(), &namespace, &always).await;
    collector.nameserver.set(NAME, &["192.0.2.1"], 300);
    objects.expect(NAME, &["192.0.2.1"]).await;
    let mut seen = Addresses::from([(NAME.to_owned(), "192.0.2.1".to_owned())]);
    let mut slowest = Duration::ZERO;
    let (pid, kib) = (collector.program.process().pid(), collector.resident_kib());
    let team = server.namespace().await;
    let many: Vec<_> = (0..names).map(|i| format!("n{i}.example.com.")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    allow(&server, &team, &many).await;
    let began = Instant::now();
    let created = ["operation=\"create\"", "outcome=\"done\""];
    let mut most = 0;
    loop {
        let made = collector
            .metric("egress_store_writes_total", &created)
            .await;
        most = most.max(collector.resident_kib().saturating_sub(kib));
        if made >= names as f64 {
            break;
        }
        let [.., c, d] = u32::try_from(seen.len()).unwrap().to_be_bytes();
        let ip = IpAddr::from([10, 0, c, d]);
        collector.hears(NAME, &[ip], 600).await;
        seen.insert((NAME.to_owned(), ip.to_string()));
        let told = Instant::now();
        eventually_within(delay(), "what is seen is written", async || {
            let object = objects.api.get("a").await.map_err(|e| e.to_string())?;
            let found = addresses(&object);
            (found == seen)
                .then_some(())
                .ok_or_else(|| format!("{found:?}"))
        })
        .await;
        slowest = slowest.max(told.elapsed());
    }
    let made = began.elapsed();
    let failed = collector
        .metric("egress_store_writes_total", &["outcome=\"unavailable\""])
        .await;
    assert_eq!(failed, 0.0);
    assert!(seen.len() > 2, "it was over before anything was seen");
    collector.expect_leading(true).await;
    collector.program.ready().await;
    assert!(collector.is_the_process(pid));
    println!(
        "{names} objects made in {made:?}, with at most {most} KiB more; meanwhile {} addresses, after {slowest:?} at most",
        seen.len()
    );
}
